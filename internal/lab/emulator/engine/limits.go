package engine

import (
	"cmp"
	"time"

	"binnacle/internal/charges/ru"
)

// Limits are the service's bounds. The zero value of a field selects the service's own bound; a test may lower
// it. All are from the Azure Cosmos DB docs, concepts-limits, of September 2025.
type Limits struct {
	// ResponseBytes is where a page of a query ends. Default 4 MB. A single item may exceed it.
	ResponseBytes int `kong:"-"`
	// LogicalPartitionBytes is the most that items of one full partition key hold together, counted
	// as their minified JSON. Default 20 GB. Writes that would grow it further get 403/1014.
	LogicalPartitionBytes int64 `kong:"-"`
	// PhysicalPartitionBytes is the most that a physical partition holds before it is split, counted in
	// the same way. Default 50 GB. One that cannot be split, since all is of one partition key, refuses
	// writes beyond it with 403/1014.
	PhysicalPartitionBytes int64 `name:"partition-bytes" help:"Size from which on a physical partition is split, in bytes. Default: 50 GB."`
	// Containers is the most databases and containers of the account together. Default 500. Another
	// one gets 403.
	Containers int `kong:"-"`
	// SharedContainers is the most containers that share the throughput of one database. Default 25.
	// Another one gets 403/1019.
	SharedContainers int `kong:"-"`
	// RetryAfter is the longest time after which a 429 asks a client to try again. Default 500 ms: the service was
	// recorded with 286 to 500 ms. A debt may last longer; then the client is refused again.
	RetryAfter time.Duration `kong:"-"`
	// MetadataRUs is the budget of metadata requests for the account, in RU/s. Default 240. Beyond it
	// they get 429/3210.
	MetadataRUs float64 `kong:"-"`
}

// WithDefaults returns the limits with the service's own where none is set.
func (l Limits) WithDefaults() Limits {
	l.ResponseBytes = cmp.Or(max(l.ResponseBytes, 0), 4<<20)
	l.LogicalPartitionBytes = cmp.Or(max(l.LogicalPartitionBytes, 0), 20<<30)
	l.PhysicalPartitionBytes = cmp.Or(max(l.PhysicalPartitionBytes, 0), ru.PartitionGB<<30)
	l.Containers = cmp.Or(max(l.Containers, 0), 500)
	l.SharedContainers = cmp.Or(max(l.SharedContainers, 0), 25)
	l.RetryAfter = cmp.Or(max(l.RetryAfter, 0), 500*time.Millisecond)
	l.MetadataRUs = cmp.Or(max(l.MetadataRUs, 0), 240)
	return l
}
