package engine

import (
	"cmp"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator/schema"
)

// Limits are the bounds that the service sets. The zero value of each means the service's own; a test
// may set it lower. All are from the Azure Cosmos DB docs, concepts-limits, of September 2025.
type Limits struct {
	// ItemBytes is the most minified JSON of an item. Default 2 MB. A larger one is refused with 413.
	ItemBytes int `kong:"-"`
	// RequestBytes is the most that the body of a request holds. Default 2 MB, with 4 KB of room so
	// that an item of the largest size passes. A larger one is refused with 413.
	RequestBytes int `kong:"-"`
	// ResponseBytes is where a page of a query ends. Default 4 MB. A single item may exceed it.
	ResponseBytes int `kong:"-"`
	// LogicalPartitionBytes is the most that items of one full partition key hold together, counted
	// as their minified JSON. Default 20 GB. Writes that would grow it further get 403/1014.
	LogicalPartitionBytes int64 `kong:"-"`
	// PhysicalPartitionBytes is the most that a physical partition holds before it is split, counted in
	// the same way. Default 50 GB. One that cannot be split, since all is of one partition key, refuses
	// writes beyond it with 403/1014.
	PhysicalPartitionBytes int64 `name:"partition-bytes" help:"Size from which on a physical partition is split, in bytes. Default: 50 GB."`
	// KeyValueBytes is the longest string in a partition key of version 2. Default 2,048.
	KeyValueBytes int `kong:"-"`
	// Nesting is how deep objects and arrays of an item may stand inside each other. Default 128.
	Nesting int `kong:"-"`
	// Containers is the most databases and containers of the account together. Default 500. Another
	// one gets 403.
	Containers int `kong:"-"`
	// SharedContainers is the most containers that share the throughput of one database. Default 25.
	// Another one gets 403/1019.
	SharedContainers int `kong:"-"`
	// OfferChanges is how often throughput may be replaced in 5 minutes in the account. Default 25.
	// Another change gets 429.
	OfferChanges int `kong:"-"`
	// RetryAfter is the longest time after which a 429 asks a client to try again. Default 500 ms: the service was
	// recorded with 286 to 500. A debt may last longer; then the client is refused again.
	RetryAfter time.Duration `kong:"-"`
	// MetadataRUs is the budget of metadata requests for the account, in RU/s. Default 240. Beyond it
	// they get 429/3210.
	MetadataRUs float64 `kong:"-"`
}

const requestRoom = 4096

// WithDefaults returns the limits with the service's own where none is set.
func (l Limits) WithDefaults() Limits {
	l.ItemBytes = cmp.Or(max(l.ItemBytes, 0), 2<<20)
	l.RequestBytes = cmp.Or(max(l.RequestBytes, 0), 2<<20+requestRoom)
	l.ResponseBytes = cmp.Or(max(l.ResponseBytes, 0), 4<<20)
	l.LogicalPartitionBytes = cmp.Or(max(l.LogicalPartitionBytes, 0), 20<<30)
	l.PhysicalPartitionBytes = cmp.Or(max(l.PhysicalPartitionBytes, 0), ru.PartitionGB<<30)
	l.KeyValueBytes = cmp.Or(max(l.KeyValueBytes, 0), 2048)
	l.Nesting = cmp.Or(max(l.Nesting, 0), 128)
	l.Containers = cmp.Or(max(l.Containers, 0), 500)
	l.SharedContainers = cmp.Or(max(l.SharedContainers, 0), 25)
	l.OfferChanges = cmp.Or(max(l.OfferChanges, 0), 25)
	l.RetryAfter = cmp.Or(max(l.RetryAfter, 0), 500*time.Millisecond)
	l.MetadataRUs = cmp.Or(max(l.MetadataRUs, 0), 240)
	return l
}

func (l Limits) bounds() schema.Bounds {
	return schema.Bounds{ItemBytes: l.ItemBytes, KeyValueBytes: l.KeyValueBytes, Nesting: l.Nesting}
}
