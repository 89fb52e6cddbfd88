# What there is to do here; `make` alone lists it. Each target installs what it lacks (scripts/deps, Debian's packages).

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# Options for the program, as in: make run ARGS="--http.addr 127.0.0.1:9090"
ARGS ?=
# Packages for `make test` and further options of go test, as in: make test PKG=./dispatcher/... TESTFLAGS="-run Claim -v"
PKG ?= ./...
TESTFLAGS ?=
# Flags for `make bench` and `make soak` (bin/bench -help and bin/soak -help list them), and where `make profile` writes
BENCHFLAGS ?=
SOAKFLAGS ?=
PROFILE ?= bin/profile
# How long `make fuzz` runs each target, and which: make fuzz FUZZTIME=10s FUZZ="signer Cursor"
FUZZTIME ?= 60s
FUZZ ?=
# What `make browser` looks at, or that it takes the pictures of docs/screenshots: make browser BROWSERFLAGS="-only deliveries,portal"
BROWSERFLAGS ?=

.PHONY: help run build test chaos ops check docs fmt interop browser bench profile soak smoke fuzz clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## build and start Postrider with its own PostgreSQL and a demo (make run ARGS="…")
	@scripts/deps server curl
	@[[ -x bin/postrider ]] || echo "building; the first time this takes a minute or two"
	@$(MAKE) --no-print-directory build
	@exec bin/postrider dev $(ARGS)

build: ## build bin/postrider, static
	@CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/postrider ./cmd/postrider

# withpg is built and not `go run`, so that a signal to make reaches it. Two packages at a time share the server's 200
# connections; a single test that hangs ends after ten minutes with its goroutines printed.
test: ## test everything with the race detector, on a throw-away PostgreSQL (PKG=… TESTFLAGS=…)
	@scripts/deps server race curl node brokers
	@go build -o bin/withpg ./scripts/withpg
	@exec bin/withpg -- go test -race -p 2 -timeout 10m $(TESTFLAGS) $(PKG)

chaos: ## break processes, PostgreSQL, clocks and receivers under load; nothing may be lost (TESTFLAGS=-short)
	@scripts/deps server chaos
	@scripts/chaos $(TESTFLAGS)

ops: ## what operating needs: promtool, linters of deploy/, mail and HTTP sinks, a pooler, retention (TESTFLAGS="-run Mail")
	@scripts/deps server ops
	@scripts/ops $(TESTFLAGS)

check: ## formatting, linters, unreachable code, go.mod, vet
	@scripts/deps shellcheck
	@scripts/check

docs: ## write what the code says into docs/configuration.md, commands.md and verify-signatures.md
	@go test ./docs -count=1 -run '^TestGenerated' -update

fmt: ## format the code
	@"$$(scripts/tools gofumpt)" -w .

interop: ## have receivers' own libraries judge our signatures (Node.js)
	@scripts/deps node server
	@scripts/interop

browser: ## have Chromium go through every page with hostile content in it (BROWSERFLAGS="-only portal", -screenshots)
	@scripts/deps server chromium curl
	@scripts/browser $(BROWSERFLAGS)

bench: ## benchmarks and load runs on a PostgreSQL that waits for the disk (BENCHFLAGS="-only drain")
	@scripts/deps server
	@exec scripts/bench $(BENCHFLAGS)

profile: ## CPU and allocation profiles of the drain, and what takes the most (PROFILE=folder)
	@scripts/deps server
	@exec scripts/profile $(PROFILE)

soak: ## ten minutes of load with good and bad receivers; all has to return (SOAKFLAGS="-for 1m")
	@scripts/deps server
	@exec scripts/soak $(SOAKFLAGS)

fuzz: ## every fuzz target for a minute each, up to the first that finds something (FUZZTIME=10s FUZZ="signer Cursor")
	@FUZZTIME=$(FUZZTIME) exec scripts/fuzz $(FUZZ)

smoke: ## what a newcomer does: make run in a clean copy, and the printed curl line
	@scripts/deps server curl
	@scripts/smoke

clean: ## remove what was built
	@rm -rf bin
