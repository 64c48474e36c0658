# Included by the Makefile of the root. What it does: e2e/tools/README.md.

.PHONY: tools tools-clusters

tools: ## Build the real parts that tests and demo run (once; cached per user)
	@e2e/tools/build.sh

# The part of them that a cluster is made of: enough for the demo.
tools-clusters:
	@e2e/tools/build.sh kubernetes etcd kwok
