// Package headhttp carries store.Heads over HTTP, from ingesters to queriers: Handler serves the heads of one process,
// Client asks all processes at once. docs/internals/format/heads.md has every byte.
//
// An answer is a stream of messages: first every partition's position, stored chains and containers, as of one
// moment; then their rows, in columns, made and sent as they are read; then a mark that says the answer is whole. A
// stream without the mark is an error of the rows that are missing, never an answer without them.
//
// The port is for queriers only: a shared secret, or mutual TLS, or both, authenticate them. The package knows nothing
// of how bins are kept or how answers are merged.
package headhttp
