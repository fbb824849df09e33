# Everything that is done to this project is done through here: README, CI and
# people use the same targets. `make help` lists them.

# The language's own patch release is pinned: its standard library is what
# security fixes come through. Any Go from 1.21 on fetches it by itself.
export GOTOOLCHAIN := go1.27.3
# One static binary, and no difference between machines with and without a C
# compiler. The race detector alone needs cgo.
export CGO_ENABLED := 0

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CACHE   := $(CURDIR)/.cache
TOOLS   := $(CACHE)/tools
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo development)

# Packages whose tests start a real OpenCode. They run one after the other:
# each start takes a second of a core and 300 MB.
REAL := ./cmd/annals ./fixtures/...
# What the race detector runs over: everything but those.
RACED = $(shell go list ./... | grep -v -e /fixtures -e /cmd/)

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

.PHONY: build
build: ## build bin/annals
	go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/annals ./cmd/annals

.PHONY: test
test: ## run every test, those on a real OpenCode too (fetched from npm once)
	go vet ./...
	go test -timeout 15m $$(go list ./... | grep -v -e /fixtures -e /cmd/)
	go test -timeout 15m -p 1 $(REAL)

.PHONY: race
race: ## run the tests of everything with goroutines under the race detector
	CGO_ENABLED=1 go test -race -short -timeout 20m $(RACED)
	CGO_ENABLED=1 go test -race -short -timeout 20m -run 'Sync|Waits|Upstream' ./cmd/annals

.PHONY: fuzz
fuzz: ## run each fuzz target for a few seconds
	@for pkg in $$(grep -rlE '^func Fuzz' --include=*_test.go . | xargs -n1 dirname | sort -u); do \
	  for f in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' $$pkg/*_test.go | awk '{print $$2}'); do \
	    echo "fuzz $$pkg $$f"; go test -run '^$$' -fuzz "^$$f\$$" -fuzztime 5s $$pkg; \
	  done; \
	done

.PHONY: bench
bench: ## measure against the floor; the output is for benchstat
	go test -run '^$$' -bench . -benchtime 5x -timeout 30m ./cmd/annals
	go test -run '^$$' -bench . -timeout 10m ./internal/store/sqlite ./worker/opencode

.PHONY: lint
lint: $(TOOLS)/stamp ## formatting, vet, linters, the rules of the house
	@test -z "$$(gofmt -l cmd worker internal fixtures *.go | tee /dev/stderr)" || { echo "run: gofmt -w ."; exit 1; }
	go vet ./...
	$(TOOLS)/golangci-lint run ./...
	go test ./internal/archtest

.PHONY: vuln
vuln: $(TOOLS)/stamp $(CACHE)/vulndb/stamp ## known vulnerabilities in what is linked, offline
	$(TOOLS)/govulncheck -db file://$(CACHE)/vulndb ./cmd/...

.PHONY: cross
cross: ## build for the other systems
	@for target in linux/arm64 darwin/amd64 darwin/arm64; do \
	  echo "build for $$target"; \
	  GOOS=$${target%/*} GOARCH=$${target#*/} go vet ./cmd/... ./worker/... ./internal/...; \
	  GOOS=$${target%/*} GOARCH=$${target#*/} go build -o /dev/null ./cmd/annals; \
	done

.PHONY: check
check: lint vuln build cross race fuzz test ## everything that CI runs

.PHONY: demo
demo: build ## a real OpenCode, a small history, two syncs with an archive in between
	go run ./fixtures/bin/demo -annals bin/annals

.PHONY: clean
clean: ## remove what was built; keep the fetched OpenCode and the tools
	rm -rf bin .demo

$(TOOLS)/stamp: internal/tools/go.mod internal/tools/go.sum
	@echo "building the tools, once"
	cd internal/tools && go build -o $(TOOLS)/ tool
	@touch $@

$(CACHE)/vulndb/stamp: internal/tools/go.mod $(TOOLS)/stamp
	cd internal/tools && $(TOOLS)/indexdb -vulns "$$(go list -m -f '{{.Dir}}' golang.org/x/vulndb)/data/osv" -out $(CACHE)/vulndb
	@touch $@
