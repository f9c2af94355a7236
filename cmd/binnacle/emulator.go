package main

import "binnacle/internal/app"

// emulatorCommand is the embedded Cosmos DB alone, and what compares recordings of it.
type emulatorCommand struct {
	Run  emulatorRunCommand  `cmd:"" default:"withargs" help:"Run the embedded Cosmos DB alone, until it is stopped."`
	Diff emulatorDiffCommand `cmd:"" help:"Compare what the requests of two recordings cost, and fail on a regression."`
}

func (emulatorCommand) Help() string {
	return `Any official Cosmos DB client may connect. "binnacle emulator run --help" lists the flags of the emulator.

Examples:
  binnacle emulator --data-dir ./cosmos
  binnacle emulator diff before.jsonl after.jsonl`
}

type emulatorRunCommand struct {
	Config app.EmulatorConfig `kong:"embed"`
}

func (emulatorRunCommand) Help() string {
	return `Any official Cosmos DB client may connect, with the emulators' public key. The page /_emulator of the
endpoint shows every container's physical partitions and how hot they are.

Examples:
  binnacle emulator --data-dir ./cosmos
  binnacle emulator --cosmos 127.0.0.1:0 --physical-partitions 5
  binnacle emulator --tls --advertise https://localhost:8081/
  binnacle emulator --record before.jsonl
  binnacle emulator --faults &
  curl -X PUT http://127.0.0.1:8081/_emulator/faults -d '{"rules":[{"operations":["create"],"status":503,"applied":true,"probability":0.1}]}'`
}

func (c *emulatorRunCommand) Run(e *env) error { return app.Emulator(e.ctx, c.Config, e.app()) }

type emulatorDiffCommand struct {
	Config app.EmulatorDiffConfig `kong:"embed"`
}

func (emulatorDiffCommand) Help() string {
	return `Run the tests of your program against "binnacle emulator --record FILE" before a change and after it, each time with
an empty data directory. Requests are compared by kind, path, status and text of the query. A regression is that all requests
together, or a request on average, cost more than --tolerance allows: then it exits 1. All charges are modelled.

Examples:
  binnacle emulator diff before.jsonl after.jsonl
  binnacle emulator diff --tolerance 1 before.jsonl after.jsonl
  binnacle emulator diff --json before.jsonl after.jsonl`
}

func (c *emulatorDiffCommand) Run(e *env) error { return app.EmulatorDiff(c.Config, e.app()) }
