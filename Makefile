# `make help` lists the targets; what stands behind ## is what it says of each.
.DEFAULT_GOAL := help
.PHONY: help build profile test race bench bench-query bench-peers bench-growth bench-fresh bench-resume soak chaos kills random-queries fuzz
.PHONY: balance box box-planted box-years years partitioning access-patterns patterns scale month-begins report plan loadtest-check xray fmt vet staticcheck deadcode arch full
.PHONY: azcosmos-conformance python-conformance javascript-conformance java-conformance
.PHONY: kafka-it production-it prometheus-it console-test console-it readers-it producers-it focus-it upgrade-it
.PHONY: openapi-lint deploy-check ci

# The packages in which goroutines meet; and of those that have none of their own, the tests in which others read what
# they write.
RACE := ./ingest ./ingest/journal/spill ./query ./query/httpapi ./query/diagnose/rejected ./internal/app/... \
	./internal/catalog/... ./internal/control ./internal/tenant ./internal/stream ./internal/cosmos/... \
	./internal/lab/emulator/... ./internal/headhttp/... \
	./internal/kafka/... ./internal/retry/... ./internal/rollups
RACE_READ := -run 'TestHeadReadsWhileFeeding|TestCopyIsUnchanged' ./binning ./ingest/worker

# How long `make fuzz` spends on each target.
FUZZTIME := 10s

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-22s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The profile by which the compiler lays out what is released. What is only tried and tested is built without it, and but once.
PROFILE := -pgo=$(CURDIR)/deploy/cpu.pgo

build: ## The command as it is released, ./binnacle
	go build $(PROFILE) -o binnacle ./cmd/binnacle

profile: ## The profile of CPU that releases are built by, deploy/cpu.pgo: ingest of JSON and lines, a tail in memory, panels
	dir=$$(mktemp -d) && \
	go test -trimpath -count=1 -timeout 0 -run '^TestIngestBesidePeers$$' ./cmd/binnacle -peers.devices 240 -peers.profile $$dir && \
	go test -trimpath -run '^$$' -bench Tail/all -benchtime 60x -cpuprofile $$dir/tail -o /dev/null ./internal/app && \
	go test -trimpath -count=1 -run '^TestPanels$$' -cpuprofile $$dir/panels -o /dev/null ./internal/app -panels.devices 300 -panels.days 1 && \
	go tool pprof -proto $$dir/* >deploy/cpu.pgo && rm -r $$dir

test: ## All tests, on this machine alone
	go test ./...

# The race detector needs cgo.
RACED := CGO_ENABLED=1 go test -race -short -timeout 15m

full: ## What `make test` leaves out: every call that fails in every way, Prometheus' suite of PromQL, processes killed and paused
	go test -count=1 -run '^TestEvery(StoreCallFails|KafkaCallLosesConnection)$$' ./internal/app -full
	go test -count=1 -tags full -run '^TestPrometheusSuite' ./query/prom
	go test -count=1 -run '^(TestBlogexample|TestRolesAsProcesses|TestReplayTSBS.*|TestPlanBesideALoadTest|TestDiskFull|TestKillWhileDevicesPublish)$$' ./cmd/binnacle -full
	go test -count=1 -run '^(TestChaos|TestRollingRestart)$$' ./cmd/binnacle -chaos.duration 20s -chaos.grow -rolling.devices 400

race: ## Tests under the race detector, of the packages in which goroutines meet; needs a C compiler
	$(RACED) $(RACE)
	$(RACED) $(RACE_READ)

bench: ## All benchmarks: CPU per reading, bytes per value, RU per reading
	go test $(PROFILE) -run '^$$' -bench . -benchtime 2s ./...

# How many devices have 30 days in the part of `make bench-query` that asks peers.
PANELS := 100

balance: ## The forecast of the load over 100 seeds, and the balancer over random fleets, 90 days and a surge, held to their bars; SEEDS=8 of the balancer, tables into TABLES
	go test -count=1 -timeout 0 -run '^Test(Settled|Season|ChunksAreFoundInRandomHistories|TenfoldGrowthWaitsBriefly)$$' ./sharding/balance -balance.seeds $(or $(SEEDS),8) \
	  $(if $(TABLES),-balance.tables $(abspath $(TABLES)))
	go test -count=1 -timeout 0 -run '^TestBalancerEvensTheWhale$$' -v ./internal/lab/loadtest -balanced.days
	BINNACLE_BALANCE_SEEDS=100 go test -count=1 -timeout 0 -run '^TestForecastBar$$' -v ./internal/heat

# How many random fleets `make years` has.
YEARS := 100

years: ## Two years of YEARS=100 random fleets on a virtual clock, decided as in production: what is answered, the bill beside an oracle's
	go test -count=1 -timeout 0 -run '^TestYears$$' -v ./internal/check/simulation -years.seeds $(YEARS)

bench-query: ## PromQL over a day and 30 days of 1,000 devices: plainly and with leaves; from chunks and rollups: CPU-ms, wall, RU; beside VictoriaMetrics and Prometheus, also the 13 questions of TSBS
	go test $(PROFILE) -run '^$$' -bench FleetDay -benchtime 5x ./query/prom
	go test $(PROFILE) -count=1 -timeout 0 -run '^TestPanels$$' -v ./internal/app -panels.devices 1000 -panels.days 1
	go test $(PROFILE) -count=1 -timeout 0 -run '^TestPanels$$' -v ./internal/app -panels.devices 1000 -panels.days 30 -panels.metrics 2
	@bin=$$(.ci/peers victoria-metrics); code=$$?; case $$code in 0) bin=$$bin/victoria-metrics ;; 77) echo "$$bin"; bin= ;; *) exit 1 ;; esac; \
	  bin=$$bin:$$(command -v prometheus); \
	  for size in "-panels.devices 1000 -panels.days 1" "-panels.devices $(PANELS) -panels.days 30"; do \
	    go test $(PROFILE) -count=1 -timeout 0 -run '^TestPanelsBesidePeers$$' -v ./internal/app $$size -panels.metrics 2 -panels.starts 5 \
	      -panels.peers "$$bin" || exit 1; \
	  done; \
	  go test $(PROFILE) -count=1 -timeout 0 -run '^TestTSBSBesidePeers$$' -v ./internal/app -panels.devices 100 -panels.starts 5 -panels.peers "$$bin"

# The fleets of `make bench-growth`.
FLEETS := 1000,10000,100000

bench-growth: ## Panels over six hours of FLEETS=1000,10000,100000 devices with the limits of a query process, beside VictoriaMetrics: CPU-ms, RU, wall, memory, and how cost grows; then ingest of as many, and a million
	@bin=$$(.ci/peers victoria-metrics); code=$$?; case $$code in 0) bin=$$bin/victoria-metrics ;; 77) echo "$$bin"; bin= ;; *) exit 1 ;; esac; \
	  go test $(PROFILE) -count=1 -timeout 0 -run '^TestPanelsGrow$$' -v ./internal/app -panels.growth $(FLEETS) -panels.metrics 2 -panels.starts 3 -panels.peers "$$bin"
	go test $(PROFILE) -count=1 -timeout 0 -run '^TestIngestGrows$$' -v ./ingest/worker -soak.growth $(FLEETS),1000000

# How many devices have readings waiting in `make bench-resume`: 10,000 are 100,000 values a second.
RESUMES := 500

# How many devices' readings `make bench-peers` has consumed.
DEVICES := 100

bench-peers: ## Readings from Kafka, JSON and line protocol: binnacle's ingester beside Telegraf and VictoriaMetrics, CPU of each
	@bin=$$(.ci/peers); code=$$?; case $$code in 0) ;; 77) echo "$$bin"; bin= ;; *) exit 1 ;; esac; \
	  go test $(PROFILE) -count=1 -timeout 0 -run '^TestIngestBesidePeers$$' -v ./cmd/binnacle -peers.devices $(DEVICES) -peers.bin "$$bin"

# Values a second that `make bench-fresh` publishes, and for how long.
RATE := 100000
FRESH := 30s

bench-fresh: ## How soon a reading is answered after the broker's acknowledgement, at RATE=100000 values/s for FRESH=30s, a failure if strict is sooner; CPU of each role
	go test $(PROFILE) -count=1 -timeout 0 -run '^TestReadingsAreVisibleSoon$$' -v ./cmd/binnacle -fresh.rate $(RATE) -fresh.duration $(FRESH)

bench-resume: ## An ingester is killed, 30 minutes of readings of RESUMES=500 devices come in: how fast the next one catches up, RU
	go test $(PROFILE) -count=1 -timeout 0 -run '^TestResume$$' -v ./cmd/binnacle -resume.devices $(RESUMES)

soak: ## 100,000 devices through a Worker for two holds and a midnight: memory, CPU per value, creates per minute
	go test -count=1 -timeout 0 -run '^TestSoak$$' -v ./ingest/worker -soak.devices 100000 -soak.hold 30m

# How many runs `make box` makes; 0: as many as fit into DURATION.
RUNS := 0

box: ## The whole system on one clock and one seed (SEED=0: a random one), for DURATION=1m or RUNS, WITH=kinds of actors: every call waits for its turn, many fail; a run that fails tells its story
	go test -count=1 -timeout 0 -run '^TestBox$$' -v ./internal/check/box -box.seed $(SEED) -box.runs $(RUNS) -box.duration $(DURATION) -box.cores 2 -box.twice=false -box.events 3000 -box.with '$(WITH)'

box-planted: ## Faults planted in the product, each with the rule that it breaks: `NAME: found after N events, S s of CPU` or `NAME: missed: WHY`; ONLY=W4 for some
	go test -count=1 -timeout 0 -run '^TestPlanted$$' -v ./internal/check/box -box.planted '$(or $(ONLY),.)'

box-years: ## A century in the box (YEARS=100): months begin and end, containers come and go, epochs change
	go test -count=1 -timeout 0 -run '^TestYears$$' -v ./internal/check/box -box.years $(or $(YEARS),100)

# How many accounts `make xray` makes.
ACCOUNTS := 20

partitioning: ## Table and picture of docs/reference/partitioning.md, measured anew
	go test -count=1 -run '^TestPartitioningPage$$' ./internal/lab/xray -update

access-patterns: ## Tables of docs/reference/access-patterns.md, measured anew
	go test -count=1 -run '^TestAccessPatterns$$' ./internal/app -patterns.update

patterns: ## Tables of docs/reference/patterns.md, measured anew
	go test -count=1 -run '^TestPatterns$$' ./internal/lab/blogexample -patterns.update

scale: ## Figures of docs/reference/cost.md: ten million devices for a month, simulated
	go run ./cmd/binnacle loadtest --simulate --scenario zipf --devices 10000000 --simulate-tenants 10000 --partitions 100 --interval 1m --hold 12h

month-begins: ## A month begins in real time, with 5,000 devices: what is asked of the store by the minute; 20 minutes
	bash .ci/month-begins

report: ## The load test's pages that the guide links, made anew
	go run ./cmd/binnacle loadtest --scenario whale --html docs/start/reports/loadtest-whale.html >/dev/null
	go run ./cmd/binnacle loadtest --scenario tenant-explodes --html docs/start/reports/loadtest-tenant-explodes.html >/dev/null

plan: ## The plan that the guide links, made anew; needs ../shared/data
	go run ./cmd/binnacle plan docs/start/plan-trucks.yaml --out internal/lab/planner/testdata/plan-trucks

loadtest-check: ## What the load test promises, of small fleets in the scenarios in which something happens
	go build -o binnacle ./cmd/binnacle
	for s in month-roll reconnect; do \
	  ./binnacle loadtest --scenario $$s --check --devices 400 --interval 1m --minutes 15 --hold 15m >/dev/null || exit 1; done
	./binnacle loadtest --scenario tenant-explodes --check --interval 5m --sample 5m >/dev/null

xray: ## What `binnacle xray` predicts of ACCOUNTS=20 random accounts, beside what is measured when each layout is written
	go test -count=1 -timeout 0 -run '^TestPredictionsAreMeasured$$' -v ./internal/lab/xray -xray.accounts $(ACCOUNTS)

# How long `make chaos` and `make kills` break things, by which seed (0: a random one), with which holds of ingesters by
# turns (off: 1s without a journal), what else the test is told (-chaos.assign: no consumer group; -chaos.grow: the
# account begins serverless and becomes provisioned), and whose broker it breaks: the embedded one's, or Apache Kafka's
# (needs Java).
DURATION := 1m
SEED := 0
CHAOS :=
TARGET := embedded
HOLDS :=
ALL_HOLDS := 1s,12h,off

chaos: ## Every role a process, killed and paused at random for DURATION=1m with SEED=0 over a store that fails; zeros or exit 1
	@case "$(TARGET)" in embedded) kafka= ;; \
	  kafka) kafka=$$(bash .ci/kafka-it --libs) || { echo "$$kafka"; exit 2; } ;; \
	  *) echo "TARGET is embedded or kafka: no other broker can be killed from here"; exit 2 ;; esac; \
	  line=$$(mktemp); go test -count=1 -timeout 0 -run '^TestChaos$$' -v ./cmd/binnacle -chaos.duration $(DURATION) \
	  -chaos.seed $(SEED) -chaos.holds $(or $(HOLDS),$(ALL_HOLDS)) -chaos.kafka "$$kafka" -chaos.report $$line $(CHAOS); \
	  code=$$?; cat $$line; rm -f $$line; exit $$code

kills: ## `binnacle dev` killed at random for DURATION=1m with SEED=0 and HOLDS=12h; zeros, and no chunk, or exit 1
	@line=$$(mktemp); go test -count=1 -timeout 0 -run '^TestKillsOfDev$$' -v ./cmd/binnacle -kills.duration $(DURATION) \
	  -kills.seed $(SEED) -kills.holds $(or $(HOLDS),12h) -kills.report $$line; code=$$?; cat $$line; rm -f $$line; \
	  exit $$code

random-queries: ## 10,000 random PromQL queries: pushdowns against the plain engine, rollups against chunks; 4,000 cases of buckets a function; SEED=0
	go test -count=1 -timeout 0 -run 'Equal(Engine|Chunks|Samples|ColdAnswers)' -v ./query/prom -prom.queries 10000 -prom.rollups 10000 -prom.buckets 4000 -prom.kept 10000 \
	  -prom.seed $(SEED)

fuzz: ## Every fuzz target for FUZZTIME=10s; what `make test` runs of them is their seeds
	@for package in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
	  for target in $$(grep -ho '^func Fuzz[A-Za-z0-9_]*' $$package/*_test.go | cut -c6-); do \
	    go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$package || exit 1; \
	  done; \
	done

fmt: ## Fail, and say where, if gofmt would change a file
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }

vet: ## go vet
	go vet -tags full ./...

staticcheck: ## staticcheck, at the version that go.mod names
	go tool staticcheck -tags full ./...

deadcode: ## Fail, and say where, if there is a function that neither the command nor a test reaches
	@found=$$(go tool deadcode -tags full -test ./...) || exit 1; test -z "$$found" || { echo "$$found"; exit 1; }

arch: ## The architecture test: who may import whom, and what the tree has agreed on
	go test ./internal/check/architecture

azcosmos-conformance: ## The tests that azcosmos has for Microsoft's emulators, against `binnacle emulator`
	bash .ci/azcosmos-conformance

python-conformance: ## The tests of azure-cosmos for Python against `binnacle emulator`; SHORT=1 for the main files, FILES="crud query" for some
	bash .ci/python-conformance

javascript-conformance: ## Cases of @azure/cosmos, from its documentation, against `binnacle emulator`
	bash .ci/javascript-conformance

java-conformance: ## Cases of azure-cosmos for Java, from its documentation, against `binnacle emulator`; ONLY="feed" for some
	bash .ci/java-conformance

kafka-it: ## The tests that can run on Apache Kafka, on Apache Kafka; needs Java and Maven
	bash .ci/kafka-it

production-it: ## The guide of production, followed word for word on Apache Kafka, each process killed; needs Java, Maven and kcat
	bash .ci/production-it

prometheus-it: ## The tests that ask through an unmodified Prometheus and promtool
	bash .ci/prometheus-it

console-test: ## The tests of the page's modules, in Node.js
	bash .ci/console-test

console-it: ## The page in a headless Chromium, over `binnacle dev`; SHOTS=DIRECTORY keeps pictures
	bash .ci/console-it

focus-it: ## A bill in the columns of FOCUS 1.2, beside the validator of the FinOps Foundation
	bash .ci/focus-it

readers-it: ## Answers read by pyarrow and DuckDB, and by R where it is: what the guide says, and Parquet against CSV
	bash .ci/readers-it

producers-it: ## Telegraf and an OpenTelemetry Collector publish as their guides say; minutes, the first time
	bash .ci/producers-it

upgrade-it: ## What an earlier release has written goes on, its roles run beside these, and the way back; UPGRADE_FROM=b5fb216b
	bash .ci/upgrade-it

openapi-lint: ## The description of the API, by a linter from npm
	bash .ci/openapi-lint

deploy-check: ## What stands in deploy/, by the tools that will read it: Helm, schemas, policies, promtool, Terraform
	bash .ci/deploy-check

ci: ## Every check that can run here, as CI does
	bash .ci/run
