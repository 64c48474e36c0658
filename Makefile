# Everything that one does here, by name. Needed: Rust 1.95 with rustfmt and clippy, Go, make, git, a C compiler.

.DEFAULT_GOAL := help
.NOTPARALLEL:
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

CARGO ?= cargo
# Programs of the debug profile: demo and tests share it, so that everything is built once.
BIN := $(or $(CARGO_TARGET_DIR),target)/debug
FUZZ_LOG := $(or $(CARGO_TARGET_DIR),target)/fuzz.log
# Only for measuring.
RELEASE := $(or $(CARGO_TARGET_DIR),target)/release
# Always the whole workspace: another selection of packages would choose other features, and build everything twice.
ALL := --workspace --locked

# Minor version of the older Kubernetes that `make test-skew` runs beside the pinned one: e2e/tools/kubernetes-$(SKEW).
SKEW ?= 1.34

include e2e/tools/tools.mk

.PHONY: help
help: ## Show this list
	@echo 'make TARGET, where TARGET is one of:'
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST) | sort

.PHONY: demo
demo: tools-clusters ## Show the main job on three local clusters (KEEP=1 leaves them running)
	@$(CARGO) build $(ALL) --bins
	@$(BIN)/e2e demo $(if $(KEEP),--keep)

.PHONY: e2e
e2e: tools-clusters ## Run e2e/scenarios on three local clusters (ARGS='--only pod,follow' chooses)
	@e2e/tools/build.sh helm metrics-server
	@$(CARGO) build $(ALL) --bins
	@$(BIN)/e2e scenarios $(ARGS)

.PHONY: test
test: tools fmt-check lint forget-usage unit roles doc ## Run every check that a change has to pass

.PHONY: fmt
fmt: ## Format all Rust code
	@$(CARGO) fmt --all

.PHONY: fmt-check
fmt-check:
	@$(CARGO) fmt --all --check

.PHONY: lint
lint: ## Run clippy; a warning fails
	@$(CARGO) clippy $(ALL) --all-targets --quiet -- -D warnings

# Kubernetes' own programs collect garbage a quarter as often: two thirds of the tests' CPU are theirs. None that keeps
# heavy objects takes all memory for it.
TESTS := GOGC=400 GOMEMLIMIT=3GiB $(CARGO) test $(ALL) --config "target.'cfg(unix)'.runner = '$(CURDIR)/e2e/tests/run.sh'"

# Tests that start pilotage itself find it: a test of the workspace builds its binaries, too.
.PHONY: unit
unit: tools
	@$(TESTS)

# Logs of earlier runs say nothing of today's code.
.PHONY: forget-usage
forget-usage:
	@rm -rf target/testkit/usage target/testkit/*/audit.log

# What the tests of all crates asked for is known only when all have run.
.PHONY: roles
roles: ## Show that each right of each role was used by the tests that ran since `make test` began, and none was missing
	@$(CARGO) build $(ALL) --bins --quiet
	@$(BIN)/e2e roles

.PHONY: doc
doc: ## Build the documentation of the crates; a warning fails
	@RUSTDOCFLAGS='-D warnings' $(CARGO) doc $(ALL) --no-deps --quiet

.PHONY: bench-multi
bench-multi: tools-clusters ## Measure times, requests, CPU and memory of pods, beside kube-scheduler (ARGS=--list)
	@$(CARGO) build $(ALL) --release --bin pilotage --bin e2e
	@$(RELEASE)/e2e bench-multi $(ARGS)

# It needs few of the crates, and no cluster.
.PHONY: bench-placement
bench-placement: ## Measure selections among 10 to 10,000 candidates, and the share of each step (ARGS='four' chooses)
	@$(CARGO) bench --locked --quiet -p pilotage-placement --bench selection -- $(ARGS)

.PHONY: bench-steps
bench-steps: ## Show that no single step takes over 50 ms with 10,000 proxies and hostile input, without any cluster
	@$(CARGO) bench $(ALL) --quiet --bench steps

# Oracle and ours in one process each, then both as schedulers of a cluster. CYCLE chooses lines, such as 'plain 5000', or
# leaves that part out (CYCLE=no); the cluster's pods are plain, or --shape=plain,spread,anti,nsaff one after the other. With
# STRICT=1 a missed aim of either fails, and without ARGS the cluster's pods are of all shapes, since each has aims.
SHAPES := plain,spread,anti,nsaff
.PHONY: bench-sched
bench-sched: tools-oracle ## Measure scheduling cycles, and a scheduler end to end, beside the real one (CYCLE='spread 1000' ARGS=--shape=spread,anti STRICT=1)
ifneq ($(CYCLE),no)
	@$(CARGO) bench --locked --quiet -p pilotage-sched --bench memory
	@$(CARGO) bench --locked --quiet -p pilotage-sched --bench cycle -- --oracle "$$PWD/target/tools/kube-scheduler-oracle" \
	  $(if $(STRICT),--strict) $(CYCLE)
endif
	@$(CARGO) build $(ALL) --release --bin pilotage --bin e2e
	@$(RELEASE)/e2e bench-sched $(if $(STRICT),--strict $(or $(ARGS),--shape=$(SHAPES)),$(ARGS))

.PHONY: bench-gardener
bench-gardener: tools-clusters ## Measure what placing a Gardener Shoot costs, beside gardener-scheduler's figures (SHOOTS=1000)
	@$(CARGO) build $(ALL) --release --bin pilotage --bin e2e
	@$(RELEASE)/e2e bench-gardener $(if $(SHOOTS),--shoots $(SHOOTS))

.PHONY: bench-follow
bench-follow: tools-clusters ## Measure what it costs that objects follow many pods: memory, requests, writes (PODS=2000 TARGETS=4)
	@$(CARGO) build $(ALL) --release --bin pilotage --bin e2e
	@$(RELEASE)/e2e bench-follow $(if $(PODS),--pods $(PODS)) $(if $(TARGETS),--targets $(TARGETS))

.PHONY: bench-hostile
bench-hostile: tools-clusters ## Show that all attacks of a hostile target cost little memory and delay no pod of others (MINUTES=10)
	@$(CARGO) build $(ALL) --release --bin pilotage --bin e2e
	@$(RELEASE)/e2e bench-hostile --minutes $(or $(MINUTES),10)

.PHONY: hostile
hostile: tools-clusters ## Play all attacks of hostile targets and tenants so many times in a row (TIMES=20)
	@$(CARGO) build $(ALL) --bins
	@for round in $$(seq $(or $(TIMES),20)); do \
	  echo "round $$round"; $(TESTS) --test hostile --quiet || exit 1; \
	done

.PHONY: bench-streams
bench-streams: tools-clusters ## Show that memory stays flat under many streams at once, and under much through one (ARGS='--mib 64')
	@$(CARGO) build $(ALL) --release --bin pilotage --bin e2e
	@$(RELEASE)/e2e bench-streams $(ARGS)

# Properties of what reads other people's words are in modules named fuzz. Each round begins with another seed; what failed once
# is in proptest-regressions, beside the code, and is tried first by every run of the tests: keep it in git.
.PHONY: fuzz
fuzz: ## Try every reader of foreign words for so long, with new cases each round (MINUTES=10 CASES=1000)
	@$(CARGO) test $(ALL) --lib --tests --no-run --quiet
	@end=$$((SECONDS + 60 * $(or $(MINUTES),10))); round=0; \
	while [ $$SECONDS -lt $$end ]; do \
	  round=$$((round + 1)); \
	  PROPTEST_RNG_SEED=$$SRANDOM PROPTEST_CASES=$(or $(CASES),1000) \
	    $(CARGO) test $(ALL) --lib --tests --no-fail-fast --quiet fuzz:: > $(FUZZ_LOG) 2>&1 \
	    || { grep -v '^$$\|^running 0\|^test result: ok' $(FUZZ_LOG); exit 1; }; \
	  echo "round $$round: $$(grep -o '[0-9]* passed' $(FUZZ_LOG) | awk '{ n += $$1 } END { print n }') properties held"; \
	done

# Alone of its kind: it needs few of the crates, and is run by the hundred thousand.
SIM := $(CARGO) run --locked --quiet --release -p pilotage-sim --

.PHONY: sim
sim: ## Simulate the protocol under faults (SEEDS=1000000 FIRST=0, or SEED=5)
	@$(SIM) $(if $(SEED),seed $(SEED),$(or $(SEEDS),1000000) $(or $(FIRST),0))

.PHONY: sim-mutants
sim-mutants: ## Show that the simulator notices each rule taken out of the code
	@CARGO='$(CARGO)' crates/sim/mutants/run $(or $(SEEDS),200000)

# It needs few of the crates, too, and is run by the hundred thousand pods.
.PHONY: diff-test
diff-test: tools ## Play 200,000 pods through our scheduler and the real one: where they differ (SEEDS=8000 FIRST=0 LEAST=200000 HISTORIES=200 PODS=300)
	@$(CARGO) run --locked --quiet --release -p pilotage-sched-diff -- run --seeds $(or $(SEEDS),8000) --first $(or $(FIRST),0) \
	  --least-pods $(or $(LEAST),$(if $(SEEDS),0,200000))
	@$(CARGO) run --locked --quiet --release -p pilotage-sched-diff -- --histories run --seeds $(or $(HISTORIES),200) \
	  --first $(or $(FIRST),0)
	@DIFF_REAL_PODS=$(or $(PODS),300) $(CARGO) test $(ALL) --test it --quiet -- real::

.PHONY: chaos
chaos: tools-clusters ## Strike every part of real clusters in every state of a pod (CHAOS_ROUNDS=2 repeats, CHAOS_CELLS chooses)
	@$(CARGO) build $(ALL) --bins
	@CHAOS_CELLS=$(or $(CHAOS_CELLS),all) $(CARGO) test $(ALL) --test chaos -- --nocapture every_cell_ends_well

# Both sides at work; the other scenarios are about many pods, bad lines and people's commands, which know no versions.
SKEW_SCENARIOS := skew admission apart autoscaling budgets capacity changes daemons evictions follow follow_services identity \
  kubelet leave lifecycle live_targets migration namespaces nowhere one_cluster outage placement self_target specs streams \
  together two_sources unreserved usage what_if workloads

.PHONY: test-skew
test-skew: tools tools-skew ## Run the main scenarios with older targets, then with an older source (SKEW=1.34 SIDES='SOURCE TARGETS')
	@for side in $(or $(SIDES),TARGETS SOURCE); do \
	  echo "Kubernetes $(SKEW): $$side"; \
	  env PILOTAGE_$${side}_KUBERNETES=$(SKEW) $(CARGO) test $(ALL) --test it --quiet -- $(SKEW_SCENARIOS:%=scenario::%::); \
	done

# Once in a real browser, of which Debian's packages are unpacked below target/tools; PILOTAGE_CHROMIUM names another one.
.PHONY: page-test
page-test: ## Try the dashboard in a headless browser with 16 targets and 32,000 pods, and take pictures of it (target/page)
	@$(CARGO) test $(ALL) --test page --no-run --quiet
	@PILOTAGE_CHROMIUM="$${PILOTAGE_CHROMIUM:-$$(e2e/page/browser.sh)}" $(CARGO) test $(ALL) --test page -- --ignored

.PHONY: crds
crds: ## Write crds/*.yaml from the types in crates/api
	@$(CARGO) build $(ALL) --bins --quiet
	@$(BIN)/pilotage crds --out crds

# ARCH='amd64 arm64' makes one image of both; the other one needs `rustup target add` and Debian's cross compiler.
.PHONY: image
image: tools-image ## Build the image of all subcommands as an OCI archive, without a daemon (ARCH='amd64 arm64' IMAGE=NAME:TAG)
	@image/build.sh $(ARCH)

.PHONY: image-twice
image-twice: ## Build the image of the last commit in two new clones, and compare the archives (ARCH='amd64 arm64')
	@image/twice.sh $(ARCH)

.PHONY: release
release: image ## Gather image, program, list of components, licences and checksums in target/dist/release
	@image/release.sh

.PHONY: kind-node
kind-node: ## Build a node image for kind where no registry can be reached, and start Docker (KIND_NODE_KUBERNETES=1.34 KIND_NODE_IMAGE=NAME)
	@e2e/tools/build.sh kubernetes$(KIND_NODE_KUBERNETES:%=-%) etcd
	@e2e/kind/start-docker.sh
	@e2e/kind/node-image.sh '$(KIND_NODE_IMAGE)' '$(KIND_NODE_KUBERNETES)'

.PHONY: e2e-kind
e2e-kind: image ## Try image and chart on three clusters of kind, with all scenarios (KIND_NODE_IMAGE=NAME KEEP=1)
	@e2e/tools/build.sh kubernetes kind helm metrics-server
	@$(CARGO) build $(ALL) --bins
	@KIND_NODE_IMAGE='$(KIND_NODE_IMAGE)' KIND_NODE_IMAGE_WEST='$(KIND_NODE_IMAGE_WEST)' KEEP='$(KEEP)' CHART='$(CHART)' \
	  e2e/kind/run.sh

.PHONY: e2e-readme
e2e-readme: ## Follow README's installation by its commands alone, in a new clone and on two new clusters of kind (KIND_NODE_IMAGE=NAME KEEP=1)
	@e2e/tools/build.sh kubernetes kind helm
	@KIND_NODE_IMAGE='$(KIND_NODE_IMAGE)' KEEP='$(KEEP)' e2e/kind/readme.sh

.PHONY: e2e-release
e2e-release: release ## Install from the gathered release by the commands of docs/install.md alone, on two new clusters of kind
	@e2e/tools/build.sh kubernetes kind
	@KIND_NODE_IMAGE='$(KIND_NODE_IMAGE)' KEEP='$(KEEP)' e2e/kind/readme.sh docs/install.md 'From a release, without a clone'

.PHONY: chart
chart: tools-clusters ## Write charts/pilotage/files from the code, and charts/install.yaml, which `pilotage install` applies
	@$(CARGO) build $(ALL) --bins --quiet
	@charts/generate.sh $(BIN)/pilotage charts/pilotage/files
	@charts/render.sh target/tools/helm >charts/install.yaml

# What tests compare is what they write, so that there is one way to make it.
.PHONY: reference
reference: ## Write the generated sections of docs/reference.md from keys, definitions and flags
	@PILOTAGE_WRITE_REFERENCE=1 $(CARGO) test $(ALL) --test it --quiet -- reference::generated_sections
