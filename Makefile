.PHONY: build test vet staticcheck fmt race bench azcosmos-conformance ci

build:
	go build -o binnacle ./cmd/binnacle

test:
	go test ./...

vet:
	go vet ./...

staticcheck:
	go tool staticcheck ./...

fmt:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }

# The packages in which goroutines meet.
race:
	go test -race -short ./binning ./ingest/... ./query/... ./internal/control/... ./internal/cosmos/... ./internal/cosmosemu/... ./internal/app/...

bench:
	go test -run '^$$' -bench . -benchtime 2s ./...

# The tests that azcosmos has for Microsoft's emulators, against `binnacle emulator`.
azcosmos-conformance:
	bash .ci/azcosmos-conformance

ci:
	bash .ci/run
