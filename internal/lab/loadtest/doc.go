// Package loadtest shows hot partitions, and how Binnacle avoids them: the same readings go through several
// layouts, each on an embedded Cosmos DB of its own with several physical partitions, and what
// happened is put side by side. docs/start/demonstrate.md says how to read it.
//
// Nothing is imitated: the layouts that are compared with write through internal/cosmos, and Binnacle's own
// path is the product's, from the message to the stored chunk. Only time is not real. One clock, which
// emulator, adapter and ingest go by, moves as fast as the work is done, so an outcome follows from Config alone.
package loadtest
