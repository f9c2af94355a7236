package main

import "binnacle/internal/app"

type brokerCommand struct {
	Config app.BrokerConfig `kong:"embed"`
}

func (brokerCommand) Help() string {
	return `One broker for one machine, without replicas, logins or TLS. Any Kafka client may connect.

Examples:
  binnacle broker --data-dir ./kafka
  binnacle broker --kafka 127.0.0.1:0 --topics telemetry,telemetry.dlq --partitions 8
  binnacle broker --kafka 0.0.0.0:9092 --advertise broker.example:9092 --kafka-mb 0`
}

func (c *brokerCommand) Run(e *env) error { return app.Broker(e.ctx, c.Config, e.app()) }
