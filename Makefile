# `make help` lists the targets; what stands behind ## is what it says of each.
.DEFAULT_GOAL := help
.PHONY: help build test race bench soak chaos fuzz fmt vet staticcheck deadcode arch azcosmos-conformance ci

# The packages in which goroutines meet.
RACE := ./binning ./ingest/... ./query/... ./internal/app/... ./internal/control/... ./internal/cosmos/... \
	./internal/cosmosemu/... ./internal/headhttp/... ./internal/kafka/... ./internal/retry/...

# How long `make fuzz` spends on each target.
FUZZTIME := 10s

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-22s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## The command, as ./binnacle
	go build -o binnacle ./cmd/binnacle

test: ## All tests, on this machine alone
	go test ./...

race: ## Tests under the race detector, of the packages in which goroutines meet; needs a C compiler
	go test -race -short $(RACE)

bench: ## All benchmarks: CPU per reading, bytes per value, RU per reading
	go test -run '^$$' -bench . -benchtime 2s ./...

soak: ## 100,000 devices through a Worker for two holds and a midnight: memory, CPU per value, creates per minute
	go test -count=1 -timeout 0 -run '^TestSoak$$' -v ./ingest/worker -soak.devices 100000 -soak.hold 30m

# How long `make chaos` breaks things, by which seed (0: a random one), and whose broker and store it breaks.
DURATION := 1m
SEED := 0
TARGET := embedded

chaos: ## Every role a process, killed and paused at random for DURATION=1m with SEED=0 over a store that fails; zeros or exit 1
	@test "$(TARGET)" = embedded || { echo "TARGET is embedded: no other broker can be killed from here"; exit 2; }
	@line=$$(mktemp); go test -count=1 -timeout 0 -run '^TestChaos$$' -v ./cmd/binnacle -chaos.duration $(DURATION) \
	  -chaos.seed $(SEED) -chaos.report $$line; code=$$?; cat $$line; rm -f $$line; exit $$code

fuzz: ## Every fuzz target for FUZZTIME=10s; what `make test` runs of them is their seeds
	@for package in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
	  for target in $$(grep -ho '^func Fuzz[A-Za-z0-9_]*' $$package/*_test.go | cut -c6-); do \
	    go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$package || exit 1; \
	  done; \
	done

fmt: ## Fail, and say where, if gofmt would change a file
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }

vet: ## go vet
	go vet ./...

staticcheck: ## staticcheck, at the version that go.mod names
	go tool staticcheck ./...

deadcode: ## Fail, and say where, if there is a function that neither the command nor a test reaches
	@found=$$(go tool deadcode -test ./...) || exit 1; test -z "$$found" || { echo "$$found"; exit 1; }

arch: ## The architecture test: who may import whom, and what the tree has agreed on
	go test ./internal/archtest

azcosmos-conformance: ## The tests that azcosmos has for Microsoft's emulators, against `binnacle emulator`
	bash .ci/azcosmos-conformance

ci: ## Every check that can run here, as CI does
	bash .ci/run
