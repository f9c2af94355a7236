// Package emulator is an embedded Cosmos DB for NoSQL. It speaks the REST protocol of the official
// SDKs, keeps its data on disk, and models what makes partitions hot: items are placed by effective
// partition key in physical partitions, every operation is charged request units, and every physical
// partition has a budget of them per second, beyond which it answers 429.
//
// A Server is an http.Handler; Transport reaches it inside the process without a socket. It refuses what it
// does not support with 400 or 501, naming the construct. Package ru models the charges.
// docs/reference/emulator.md lists what is modelled, what is not, and the layout of the data on disk.
//
// It is for any user of Cosmos DB: it must not know anything of telemetry.
package emulator
