# SPDX-License-Identifier: Apache-2.0
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
# A recipe is one script, which ends at the first failure.
.ONESHELL:
.DEFAULT_GOAL := help

# What `agentd version` prints; `make build VERSION=v1.2.3` sets it.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
GO_BUILD := CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)"
# go-nvml's headers mark half of their functions deprecated.
export CGO_CFLAGS ?= -O2 -g -Wno-deprecated-declarations
# How long `make fuzz` spends on each fuzz target.
FUZZTIME ?= 30s
# What `make test`, `race` and `e2e` hand to go test in addition, such as TESTFLAGS='-run Cluster -v'.
TESTFLAGS ?=

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## install what the machine lacks and start a Docker engine (as root, Debian 12 or later)
	@hack/setup.sh

.PHONY: build
build: ## bin/agentd and bin/bai-runner, static
	mkdir -p bin
	$(GO_BUILD) -o bin/bai-runner ./runner-bin/bai-runner
	$(GO_BUILD) -o bin/agentd ./cmd/agentd

.PHONY: images
images: ## the kernel images of demo and tests, built once and cached
	@kernel-images/build.sh

# The end-to-end tests stop and start the engine, so they run after the others, and are never taken from the cache.
UNIT_TESTS = go test -race -timeout 10m $(TESTFLAGS) $$(go list ./... | grep -v '/test/e2e')
E2E_TESTS = go test -race -timeout 14m -count=1 -p 1 $(TESTFLAGS) ./test/e2e/...

.PHONY: test
test: setup images build ## everything, on a fresh machine too: set-up, images, binaries, all tests under the race detector
	@status=0
	echo '== tests of the packages'
	$(UNIT_TESTS) || status=1
	echo '== end-to-end tests'
	$(E2E_TESTS) || status=1
	exit $$status

.PHONY: race
race: ## the tests of the packages under the race detector, without the end-to-end tests
	@$(UNIT_TESTS)

.PHONY: e2e
e2e: setup images build ## only the end-to-end tests, on the Docker engine of this machine
	@$(E2E_TESTS)

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (30s)
	@hack/fuzz.sh $(FUZZTIME)

.PHONY: fmt
fmt: ## rewrite what verify would complain about, where a machine can
	@for script in hack/update-*.sh; do echo "== $$script"; "$$script"; done

.PHONY: lint
lint: ## golangci-lint with the rules of .golangci.yml
	@hack/verify-lint.sh

.PHONY: verify
verify: ## all checks of the source: format, modules, lint, licence lines, paths, scripts
	@hack/verify.sh

.PHONY: demo
demo: ## a cluster session on this machine, from an empty node to a clean one (KEEP=1 leaves it running)
	@hack/demo.sh

.PHONY: bench
bench: setup images build ## figures of the README, as ratios to the bare engine
	@hack/bench.sh

.PHONY: clean
clean: ## remove the binaries; tools, images and caches stay
	rm -f bin/agentd bin/bai-runner
