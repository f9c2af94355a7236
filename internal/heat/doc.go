// Package heat has the forms of the load: RU, bytes and 429s by first-level key and minute, the RU of devices by day,
// and the RU that is expected by the hour. It encodes and decodes their documents, adds them up, thins them, and
// spreads them over physical partitions.
//
// It is pure: it knows neither a store nor a clock. docs/internals/format/heat.md has the documents.
package heat
