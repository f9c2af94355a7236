// Package fleet simulates devices: trucks with ten metrics each, and a publisher that sends their
// readings to Kafka as any device would, in the JSON form of docs/reference/payloads.md.
//
// It knows Kafka only as a client. It must not know the store, the chunks or how readings are ingested.
package fleet
