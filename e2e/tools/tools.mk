# Included by the Makefile of the root. What it does: e2e/tools/README.md.

.PHONY: tools tools-clusters tools-oracle tools-image tools-skew

tools: ## Build the real parts that tests and demo run (once; cached per user)
	@e2e/tools/build.sh

# The part of them that a cluster is made of: enough for the demo.
tools-clusters:
	@e2e/tools/build.sh kubernetes etcd kwok

# The real scheduler's framework and plugins in one process, and what its end-to-end runs need.
tools-oracle:
	@e2e/tools/build.sh kubernetes etcd oracle

tools-skew: ## Build the API server and controller manager of the older Kubernetes (SKEW=1.34)
	@e2e/tools/build.sh kubernetes-$(SKEW)

# What writes the image.
tools-image:
	@e2e/tools/build.sh image
