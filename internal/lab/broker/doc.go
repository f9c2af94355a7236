// Package broker is the embedded Kafka broker: franz-go's kfake with a data directory, behind a
// listener that keeps hostile bytes away from it. Any Kafka client may use it. It is for one machine:
// one broker, no replicas, no authentication.
//
// kfake is made for tests. docs/internals/adr/0003-embedded-broker.md has the reasons for using it, the hazards
// that this package removes, and the hazards that remain.
//
// The package knows nothing of telemetry: it holds records.
package broker
