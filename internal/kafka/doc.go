// Package kafka is the one room of Kafka clients: how connections are made (TLS, SASL, several bootstrap addresses),
// what a cluster and its topics look like, where logs end, producing, and fetching within bounds of memory. It knows
// records as bytes and nothing of telemetry. The consumer group itself is ingest's; its connections are made here
// too.
//
// The protocol's requests are kafka-go's, but for the fetch: that one is asked for and read here, because kafka-go
// unpacks whatever a batch says, and delivers records of transactions that were aborted.
package kafka
