# `make` lists the targets. Servers for tests, demo and benchmark are fetched by the program itself.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# One set of flags for all that is built without the race detector, which alone needs C: a machine that has built
# nothing yet compiles every package twice, then, and not once for each target.
export GOFLAGS := $(filter-out -trimpath,$(GOFLAGS)) -trimpath
export CGO_ENABLED := 0

# go test of a large package on a busy machine; the whole run takes far less.
TEST_TIMEOUT ?= 2h
# How many packages are tested at once beside the command line's, which takes as long as half of them, and how many
# tests of each. A package waits for its servers at times: one alone leaves two processors idle.
TEST_PARALLEL ?= 2
TESTS_AT_ONCE ?= 4
comma := ,
# The tests of the command line, which take longest. The program that they run has the race detector in it
# (REPLICATOR_TEST_RACE).
COMMANDS := replicator/cmd/replicator
EXAMPLES := replicator/examples/%
# One MariaDB is enough for both: what differs between its releases is tested with canal, the sinks and the matrix.
INSTEAD ?= $(or $(REPLICATOR_TEST_INSTEAD),mysql$(comma)mariadb-11.8)
# What else runs the program as another process, or starts no goroutine: the race detector would see nothing there and
# take much of the time.
UNRACED := replicator/bench replicator/torture replicator/matrix replicator/codec replicator/internal/docs \
	replicator/internal/socket
FUZZTIME ?= 30s
SOAK ?= 2m
# The race detector needs a C compiler.
RACE ?= $(if $(shell command -v $(firstword $(shell go env CC))),-race,)
RACED = $(if $(RACE),CGO_ENABLED=1,)
# A process with the race detector sleeps for a second before it ends, lest another thread's report be lost. Tests wait
# for their goroutines (goleak), and of most packages that second would be all the time they take.
export GORACE ?= atexit_sleep_ms=0
# What `make soak` runs longer than `make test` does.
SOAKS := Soak|Conformance|Histories|Crashes|Replays|OnEveryServer|SortOfALTER|Cluster$$|^TestReference$$|HugeTransaction|TakesOver$$
ARGS ?=
# What `make test` tests.
PACKAGES ?= ./...
LISTED = $(shell go list $(PACKAGES))

SERVERS := go run ./internal/servers/cmd/servers
STATICCHECK := go tool -modfile=internal/lint/tools.mod staticcheck

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: ## build bin/replicator
	go build -pgo=cmd/replicator/guide.pgo -o bin/replicator ./cmd/replicator

.PHONY: profile
profile: ## measure where the program is busy, for the compiler: makes what `make build` builds with anew (6 minutes)
	go run ./bench profile cmd/replicator/guide.pgo

.PHONY: servers
servers: ## fetch the servers that tests need (once; about 650 MB)
	@$(SERVERS) fetch || [ "$$CI" != true ]

# tests runs the tests of packages, with or without the race detector, some at a time. `make lint` is what vets them.
# Each has its binary linked anew, which takes half as long without what debuggers read.
tests = $(if $(2),$(if $(1),$(RACED),) GOFLAGS="$(GOFLAGS) -ldflags=-w" go test $(1) -count=1 -vet=off \
	-p $(TEST_PARALLEL) -parallel $(TESTS_AT_ONCE) -timeout $(TEST_TIMEOUT) $(ARGS) $(2),true)

.PHONY: test
test: servers ## run every test, with real servers and the race detector
	@$(if $(LISTED),,echo "no package is called $(PACKAGES)"; exit 1;) \
	$(SERVERS) lend $(MAKE) --no-print-directory tested

# What test does while servers are lent.
.PHONY: tested
tested:
	@count=$$(mktemp) && commands=$$(mktemp) && export REPLICATOR_TEST_COUNT=$$count && status=0; \
	{ $(if $(RACE),REPLICATOR_TEST_RACE=1) REPLICATOR_TEST_INSTEAD=$(INSTEAD) \
		$(call tests,,$(filter $(COMMANDS),$(LISTED))); } >"$$commands" 2>&1 & beside=$$!; \
	trap 'kill $$beside 2>/dev/null; rm -f "$$count" "$$commands"' EXIT; \
	$(call tests,$(RACE),$(filter-out $(UNRACED) $(EXAMPLES) $(COMMANDS),$(LISTED))) || status=$$?; \
	$(call tests,,$(filter $(UNRACED),$(LISTED))) || status=$$?; \
	{ export REPLICATOR_TEST_INSTEAD=$(INSTEAD); $(call tests,,$(filter $(EXAMPLES),$(LISTED))); } || status=$$?; \
	wait $$beside || status=$$?; cat "$$commands"; \
	$(if $(RACE),,echo "no C compiler: ran without the race detector";) \
	$(SERVERS) count "$$count" || exit 1; exit $$status

# The servers of each run of `make matrix`: they take the place of those that the tests name.
MATRIX ?= mysql mysql-8.0,redis-8 mysql-5.7,valkey,opensearch-2 mariadb-10.11 mariadb-11.4,elasticsearch-9 mariadb-11.8

.PHONY: matrix
matrix: ## run every test once on each kind of server: hours (Elasticsearch 9 needs Java 21)
	@$(SERVERS) fetch $(subst $(comma), ,$(MATRIX)); failed=; for kinds in $(MATRIX); do \
	  echo "== $$kinds"; REPLICATOR_TEST_INSTEAD=$$kinds $(MAKE) --no-print-directory test || failed="$$failed $$kinds"; \
	done; [ -z "$$failed" ] || { echo "tests failed on$$failed"; exit 1; }

.PHONY: demo
demo: ## see it work: throwaway servers, a writer, live indexes
	go run ./cmd/replicator demo $(ARGS)

.PHONY: pictures
pictures: ## make the pictures of the status page in docs/pictures
	REPLICATOR_SCREENSHOTS=$(CURDIR)/bin/screenshots go test -count=1 ./server -run TestThePageInABrowser
	mkdir -p docs/pictures && cp bin/screenshots/{desktop,dark-failing}.webp docs/pictures

.PHONY: bench
bench: ## measure throughput and lag
	go run ./bench $(ARGS)

.PHONY: lint
lint: ## gofmt, go vet, staticcheck, and who may import whom
	@unformatted=$$(gofmt -l .) && [ -z "$$unformatted" ] || { echo "not formatted (make fmt):"; echo "$$unformatted"; exit 1; }
	go vet ./...
	$(STATICCHECK) ./...
	go test -count=1 ./internal/lint

.PHONY: fmt
fmt: ## format the code
	gofmt -w .

.PHONY: soak
soak: ## random histories for SOAK=2m on each kind of each sink, 100 verifies under load, a transaction of 1 GiB: hours
	REPLICATOR_SOAK=$(SOAK) $(RACED) go test $(RACE) -count=1 -p 1 -timeout 0 -run '$(SOAKS)' -v $(ARGS) $(PACKAGES)

.PHONY: torture
torture: ## hurt the program on real servers for TIME=5m (or RUNS=n, SEED=n) and compare every view
	go run ./torture $(if $(SEED),-seed $(SEED)) $(if $(RUNS),-runs $(RUNS)) $(if $(TIME),-time $(TIME)) $(ARGS)

.PHONY: fuzz
fuzz: ## run every fuzz test for FUZZTIME=30s
	@set -e; for package in $$(go list ./...); do \
	  for name in $$(go test -list '^Fuzz' "$$package" | grep '^Fuzz' || true); do \
	    echo "$$package $$name"; go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$package"; \
	  done; \
	done

.PHONY: module
module: ## give the module its path, once it has a home: MODULE=github.com/acme/replicator
	go run ./internal/module "$(MODULE)"
	go build ./...

.PHONY: manifests
manifests: ## hold the files of deploy/ against the schemas of Kubernetes and Compose (builds what knows them: long)
	go test -count=1 -timeout $(TEST_TIMEOUT) ./internal/lint -run 'Manifests|Compose|Deployed' -kubernetes

.PHONY: dist
dist: ## archives, deb, rpm, SBOMs, checksums of VERSION (and TARGETS) in dist/: made twice, compared, installed, run
	$(if $(TARGETS),,$(MAKE) manifests)
	rm -rf dist
	go run ./internal/dist/cmd/dist $(if $(VERSION),-version $(VERSION)) $(if $(TARGETS),-targets $(TARGETS)) dist
	go test -count=1 ./internal/dist -release $(CURDIR)/dist

.PHONY: clean
clean: ## remove what was built (the servers' cache stays)
	rm -rf bin dist replicator-state
