package main

import "binnacle/internal/app"

type emulatorCommand struct {
	Config app.EmulatorConfig `kong:"embed"`
}

func (emulatorCommand) Help() string {
	return `Any official Cosmos DB client may connect, with the emulators' public key. The page /_emulator of the
endpoint shows every container's physical partitions and how hot they are.

Examples:
  binnacle emulator --data-dir ./cosmos
  binnacle emulator --cosmos 127.0.0.1:0 --physical-partitions 5
  binnacle emulator --tls --advertise https://localhost:8081/
  binnacle emulator --faults &
  curl -X PUT http://127.0.0.1:8081/_emulator/faults -d '{"rules":[{"operations":["create"],"status":503,"applied":true,"probability":0.1}]}'`
}

func (c *emulatorCommand) Run(e *env) error { return app.Emulator(e.ctx, c.Config, e.app()) }
