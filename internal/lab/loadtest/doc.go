// Package loadtest shows hot partitions, and how Binnacle avoids them: the same readings go through several
// layouts, each on a separate embedded Cosmos DB with several physical partitions, and the report puts the
// results side by side. docs/start/demonstrate.md explains how to read it.
//
// Nothing is imitated: the layouts that are compared with write through internal/cosmos, and Binnacle's own
// path is the product's, from the message to the stored chunk. Only time is not real. One clock, which
// emulator, adapter and ingest go by, moves as fast as the work is done, so an outcome follows from Config alone.
package loadtest
