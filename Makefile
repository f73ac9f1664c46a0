# `make` lists the targets. Servers for tests, demo and benchmark are fetched by the program itself.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# go test of a large package on a busy machine; the whole run takes far less.
TEST_TIMEOUT ?= 60m
# How many packages are tested at once: each may run up to four servers.
TEST_PARALLEL ?= 2
FUZZTIME ?= 30s
SOAK ?= 2m
# The race detector needs a C compiler.
RACE ?= $(if $(shell command -v $(firstword $(shell go env CC))),-race,)
# What `make soak` runs longer than `make test` does.
SOAKS := ^TestSoak|Conformance|Crashes|Cluster$$|CutBetween|^TestReference$$|HugeTransaction
ARGS ?=
# What `make test` tests.
PACKAGES ?= ./...

SERVERS := go run ./internal/servers/cmd/servers
STATICCHECK := go tool -modfile=internal/lint/tools.mod staticcheck

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: ## build bin/replicator
	CGO_ENABLED=0 go build -trimpath -o bin/replicator ./cmd/replicator

.PHONY: servers
servers: ## fetch the servers that tests need (once; about 330 MB)
	@$(SERVERS) fetch || [ "$$CI" != true ]

.PHONY: test
test: servers ## run every test, with real servers and the race detector
	@count=$$(mktemp) && trap 'rm -f "$$count"' EXIT && \
	REPLICATOR_TEST_COUNT=$$count go test $(RACE) -count=1 -p $(TEST_PARALLEL) -timeout $(TEST_TIMEOUT) $(ARGS) $(PACKAGES); status=$$?; \
	$(if $(RACE),,echo "no C compiler: ran without the race detector";) \
	$(SERVERS) count "$$count" || exit 1; exit $$status

.PHONY: demo
demo: ## see it work: throwaway servers, a writer, live indexes
	go run ./cmd/replicator demo $(ARGS)

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
	REPLICATOR_SOAK=$(SOAK) go test $(RACE) -count=1 -p 1 -timeout 0 -run '$(SOAKS)' -v $(ARGS) $(PACKAGES)

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

.PHONY: dist
dist: ## archives, deb, rpm, SBOMs and checksums of VERSION in dist/: made twice, compared, installed and run
	rm -rf dist
	go run ./internal/dist/cmd/dist $(if $(VERSION),-version $(VERSION)) dist
	go test -count=1 ./internal/dist -release $(CURDIR)/dist

.PHONY: clean
clean: ## remove what was built (the servers' cache stays)
	rm -rf bin dist replicator-state
