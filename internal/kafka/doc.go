// Package kafka is the Kafka client: connections with TLS and SASL, metadata of topics, log ends, commits, producing,
// and fetching within bounds of memory. It knows records as bytes and nothing of telemetry. The consumer group is in
// package ingest and connects through this package.
//
// Requests are kafka-go's except for the fetch: kafka-go decompresses batches without a bound and delivers records of
// aborted transactions.
package kafka
