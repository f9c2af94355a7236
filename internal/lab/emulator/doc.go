// Package emulator is an embedded Cosmos DB for NoSQL. It speaks the REST protocol of the official
// SDKs, keeps its data on disk, and models what makes partitions hot: items are placed by effective
// partition key in physical partitions, every operation is charged request units, and every physical
// partition has a budget of them per second, beyond which it answers 429.
//
// A Server is an http.Handler; Transport reaches it inside the process without a socket. What it does
// not support it refuses with 400 or 501, naming the construct. The charges are those of package ru.
// What is modelled, what is not, and the layout of the data on disk are in docs/reference/emulator.md.
//
// It is for any user of Cosmos DB: it must not know anything of telemetry.
package emulator
