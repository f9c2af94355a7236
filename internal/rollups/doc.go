// Package rollups makes rollups of chunks, and keeps them right: per first-level key and day it builds hours when their
// chunks are stored, finds chunks that came later, and recomputes what they touch. The rules are V1 to V7 of
// docs/internals/protocol.md, the documents those of package rollup.
//
// What a Writer does is done in rounds, one for a key and day. A round reads the manifest, then chunks, writes rollups
// under new names, and replaces the manifest under its ETag: until then nothing of it counts, and
// whatever goes wrong before has done nothing. Two writers do no harm; the lease saves what the second one would
// spend.
//
// It knows neither Cosmos DB nor PromQL.
package rollups
