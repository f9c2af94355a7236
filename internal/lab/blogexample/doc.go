// Package blogexample runs the example of Microsoft's article "How to model and partition data using a
// real-world example" on the embedded Cosmos DB: a blog in three versions of its data model. It measures every
// access pattern in request units and time, and compares the figures with the article's. It shows how access
// patterns drive a model, and it checks the emulator's charges against figures from elsewhere.
//
// It is a separate program, as a user of the emulator would write it: azcosmos and nothing of Binnacle's
// stores. It must not know telemetry. docs/start/demonstrate.md explains how to read it.
package blogexample
