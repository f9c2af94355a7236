// Package kafkaemu is the embedded Kafka broker: franz-go's kfake with a data directory, behind a
// listener that keeps hostile bytes away from it. Any Kafka client may use it. It is for one machine:
// one broker, no replicas, no authentication.
//
// kfake is made for tests. docs/adr/0005-kfake-as-the-embedded-broker.md says why it is used all the
// same, which of its hazards this package takes away and which remain.
//
// The package knows nothing of telemetry: it holds records.
package kafkaemu
