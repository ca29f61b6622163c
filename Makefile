# `make help` lists the targets. `make check` is what CI runs.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c

GO      ?= go
# Per test program. The slowest start servers and crash them many times.
TIMEOUT ?= 20m
# Test programs at a time: each has a server of its own, and two keep two cores busy.
JOBS    ?= 2
# Guards that make check takes out, and the number that they are drawn by.
MUTANTS ?= 3
SEED    ?= $(or $(addprefix 0x,$(shell git rev-parse --short=12 HEAD 2>/dev/null)),1)

# By it, too, some tests draw what they try.
test race chaos: export SHARDCTL_SEED = $(SEED)
# In memory where there is plenty.
test race mutants mutants-sample: export TMPDIR = $(shell .ci/scratch)

# Migrations that make chaos plays, each with a plan of its own.
SEEDS   ?= 20
# Random histories that make chaos plays; -race would make them take an hour.
HISTORIES ?= 600

.DEFAULT_GOAL := help
.PHONY: help build test check lint arrows race mutants mutants-sample fmt deps demo bench bench-cutover bench-scale bench-large bench-go chaos clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/shardctl
	$(GO) build -o bin/shardctl ./cmd/shardctl

# -count=1: the cache of results knows neither the servers nor the programs that tests build.
test: ## run all tests on throw-away servers; installs nothing
	$(GO) test -count=1 -p $(JOBS) -timeout $(TIMEOUT) ./...

check: lint arrows mutants-sample race ## all that CI checks: lint, import arrows, a few mutants, all tests with -race

lint: ## go vet, staticcheck, gofmt
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted, run make fmt:"; echo "$$unformatted"; exit 1; fi

arrows: ## check which package may import which
	$(GO) test -count=1 ./internal/arrows

# lint vets.
race: ## all tests with -race, with a count at the end
	$(GO) test -race -vet=off -count=1 -p $(JOBS) -timeout $(TIMEOUT) -json ./... | $(GO) run ./internal/testsummary

mutants: ## take each guard out of a copy: its test must turn red (ONLY=regexp)
	$(GO) run ./internal/mutants -only '$(ONLY)'

mutants-sample:
	$(GO) run ./internal/mutants -sample $(MUTANTS) -seed $(SEED)

fmt: ## format the code
	gofmt -w .

deps: ## install PostgreSQL, PgBouncer and gcc (Debian, as root)
	.ci/deps postgres pgbouncer gcc

demo: build ## the whole journey on throw-away servers; root on Debian gets missing ones installed
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then .ci/deps postgres pgbouncer; fi
	bin/shardctl demo

bench: ## measure beside pipes, replication, pgcopydb and plain SQL, and how soon 200 subscribers know (ROWS, ROUNDS, ONLY=regexp)
	$(GO) run ./internal/benchmark $(if $(ROWS),-rows $(ROWS)) $(if $(ROUNDS),-rounds $(ROUNDS)) -only '$(ONLY)'
	$(if $(ONLY),,$(GO) test -run '^$$' -bench Subscribers -benchtime 1x ./internal/topology/postgres)

bench-cutover: ## measure 100 cutovers and rollbacks beside the pooler's bare hold
	$(GO) run ./internal/benchmark -suite cutover -rounds $(or $(ROUNDS),100) $(if $(ROWS),-rows $(ROWS))

bench-scale: ## measure the journey of 480 shards on 32 databases
	$(GO) run ./internal/benchmark -suite scale $(if $(ROWS),-rows $(ROWS))

bench-large: ## measure memory and progress with 50 million narrow rows
	$(GO) run ./internal/benchmark -suite large $(if $(ROWS),-rows $(ROWS))

bench-go: ## run the Go benchmarks of the packages
	$(GO) test -run '^$$' -bench . -timeout 60m -p 1 ./...

# In their long form: all trials of the steps, 20 kills, the largest transaction. A seed that
# is given by hand is played alone.
chaos: ## the tests that kill, freeze and crash, then SEEDS=n migrations under random faults (SEED=s: that one)
	SHARDCTL_JOURNEY=full SHARDCTL_HISTORIES=$(HISTORIES) $(GO) test -run Chaos -count=1 -timeout 40m -p 1 ./... >&2
	@$(GO) run ./internal/chaos $(if $(filter file,$(origin SEED)),-seeds $(SEEDS),-seed $(SEED))

clean: ## remove what was built
	rm -rf bin
