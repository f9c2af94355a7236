// Package engine is what one emulated account holds and does: databases, containers, their physical partitions and
// items. An Account has the containers; a Container writes, reads and queries its items, places them by effective
// partition key, and charges every operation to the budget of its physical partition. Time is an
// argument. A request that cannot be served is a *refusal.Error.
//
// It must not know of HTTP: no header, path, signature or gateway. How it keeps data is in keys.go and
// docs/reference/emulator.md.
package engine
