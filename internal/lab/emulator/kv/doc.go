// Package kv stores the data of an emulated account: ordered keys with small values, and bodies that belong to
// some values. Keys and values are in memory, in a B-tree with snapshots that cost nothing. Writes go to a log
// of segments, from which Open builds the tree; bodies stay in the log. The package must not know the meaning
// of keys. The format of the log is in record.go, and its reasons in
// docs/internals/adr/0002-embedded-cosmos-db.md.
package kv
