// Package replay publishes a file of readings to Kafka, one JSON message a reading, as devices do. It
// reads CSV, NDJSON in the message format and Influx line protocol, plain or gzipped.
// docs/operate/kafka.md is its manual.
//
// It knows Kafka only as a client. It must not know the store, nor how readings are ingested.
package replay
