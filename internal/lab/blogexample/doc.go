// Package blogexample runs the example of Microsoft's article "How to model and partition data using a
// real-world example" on the embedded Cosmos DB: a blog in three versions of its data model, every
// access pattern measured in request units and time, beside what the article has published. It shows
// how access patterns drive a model, and it checks the emulator's charges against somebody else's.
//
// It is a program of its own, as a user of the emulator would write it: azcosmos and nothing of
// Binnacle's stores. It must not know telemetry. docs/start/demonstrate.md says how to read it.
package blogexample
