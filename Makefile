# Everything that is done to this project is done through here: the README, CI
# and people use the same targets. `make help` lists them.

# The language's own patch release is pinned: security fixes of its standard
# library come with it. Any Go from 1.21 on fetches it by itself.
export GOTOOLCHAIN := go1.27.3
# One static binary, the same on machines with and without a C compiler. The
# race detector alone needs cgo.
export CGO_ENABLED := 0
# The version comes from `git describe`. Go's own stamp fails in a checkout
# that belongs to somebody else, as it does in containers.
export GOFLAGS := $(filter-out -buildvcs%,$(GOFLAGS)) -buildvcs=false

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

TOOLS   := .cache/tools
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo development)
LDFLAGS := -s -w -X main.version=$(VERSION)
SOURCES := $(wildcard cmd worker sources hostapi fixtures internal *.go)

# Packages that start a real OpenCode: each start costs a second of a core and
# 300 MB. Their tests run one package after the other.
REAL := ./cmd/annals ./fixtures/...
# The others. (In the recipes, and not by $(shell): that has no GOTOOLCHAIN.)
LIST_OTHERS := others=$$(go list ./... | grep -v -e /cmd/ -e /fixtures/)
# Packages with benchmarks.
BENCHED := ./internal/store/sqlite ./worker/opencode
# Time for each fuzz target.
FUZZTIME := 5s

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

.PHONY: build
build: ## build bin/annals
	go build -trimpath -ldflags '$(LDFLAGS)' -o bin/annals ./cmd/annals

.PHONY: test
test: ## run every test, those on a real OpenCode too (npm fetches it once)
	go vet ./...
	$(LIST_OTHERS); go test -timeout 15m $$others
	go test -timeout 15m -p 1 $(REAL)

.PHONY: race
race: ## run the tests of what has goroutines under the race detector
	$(LIST_OTHERS); CGO_ENABLED=1 go test -race -short -timeout 20m $$others
	CGO_ENABLED=1 go test -race -short -timeout 20m -run 'Sync|Waits|Upstream' ./cmd/annals

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME
	@grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' $(SOURCES) | sort | while IFS=: read -r file target; do \
	  target=$${target#func }; echo "$$target in $${file%/*}"; \
	  go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "./$${file%/*}" </dev/null; \
	done

.PHONY: bench
bench: ## measure, with the floor beside each figure; benchstat reads the output
	go test -run '^$$' -bench . -benchtime 5x -timeout 30m ./cmd/annals
	go test -run '^$$' -bench . -timeout 10m $(BENCHED)

.PHONY: lint
lint: $(TOOLS)/golangci-lint ## formatting, vet, linters, the rules of the house
	@unformatted=$$("$$(go env GOROOT)/bin/gofmt" -l $(SOURCES)); \
	if [ -n "$$unformatted" ]; then printf 'gofmt would change:\n%s\n' "$$unformatted" >&2; exit 1; fi
	go vet ./...
	$(TOOLS)/golangci-lint run ./...
	go test ./internal/archtest

.PHONY: vuln
vuln: $(TOOLS)/govulncheck $(TOOLS)/vulndb.stamp ## known vulnerabilities in what is linked, without the network
	$(TOOLS)/govulncheck -db "file://$(CURDIR)/$(TOOLS)/vulndb" ./cmd/...

.PHONY: cross
cross: ## build for the other systems; check what differs on macOS
	GOOS=linux GOARCH=arm64 go build -o /dev/null ./cmd/annals
	GOOS=darwin GOARCH=arm64 go build -o /dev/null ./cmd/annals
	GOOS=darwin GOARCH=arm64 go vet ./cmd/... ./worker/... ./internal/...

.PHONY: demo
demo: build ## a real OpenCode, a small history, two syncs with an archive in between
	go run ./fixtures/bin/demo -annals bin/annals

.PHONY: check
check: ## everything that CI runs
	@.ci/run

.PHONY: clean
clean: ## remove what was built; keep the tools and the fetched OpenCode
	rm -rf bin .demo

# The tools are built once, from the versions in internal/tools/go.mod. They
# have to be as new as the language: it names the same Go as GOTOOLCHAIN.
$(TOOLS)/golangci-lint: package := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(TOOLS)/govulncheck:   package := golang.org/x/vuln/cmd/govulncheck
$(TOOLS)/indexdb:       package := golang.org/x/vulndb/cmd/indexdb
$(TOOLS)/benchstat:     package := golang.org/x/perf/cmd/benchstat
$(TOOLS)/golangci-lint $(TOOLS)/govulncheck $(TOOLS)/indexdb $(TOOLS)/benchstat: internal/tools/go.mod internal/tools/go.sum
	@echo 'building $(@F), once'
	@cd internal/tools && go build -trimpath -o '$(CURDIR)/$@' $(package)
	@touch $@

# The reports are those of the module golang.org/x/vulndb, so a build does not
# change from one day to the next; raise its version to see newer ones.
$(TOOLS)/vulndb.stamp: $(TOOLS)/indexdb
	@rm -rf $(TOOLS)/vulndb
	@cd internal/tools && '$(CURDIR)/$(TOOLS)/indexdb' -vulns "$$(go list -m -f '{{.Dir}}' golang.org/x/vulndb)/data/osv" -out '$(CURDIR)/$(TOOLS)/vulndb'
	@touch $@
