package heat

// Kind is the kind of work that request units were charged for.
type Kind uint8

// The kinds. Their numbers stand in documents.
const (
	ChunkWrites Kind = iota
	ChunkReads
	RollupReads
	RollupWrites
	Catalog
	// LookUps are requests of ingesters for tails of chains, and for chunks that exist.
	LookUps
	Backfills // chunks of days long past
	Kinds     = int(iota)
)

var kindNames = [Kinds]string{"chunkWrites", "chunkReads", "rollupReads", "rollupWrites", "catalog", "lookUps",
	"backfills"}

// String returns the kind's name, as documents of the API have it.
func (k Kind) String() string {
	if int(k) < Kinds {
		return kindNames[k]
	}
	return "unknown"
}

// Amount counts the requests of a key in some time.
type Amount struct {
	RUs [Kinds]float64
	// Bytes counts the bytes of stored documents.
	Bytes     int64
	Throttled int64 // answers 429
}

// Total returns the RU of all kinds.
func (a *Amount) Total() (rus float64) {
	for _, r := range a.RUs {
		rus += r
	}
	return rus
}

// Add adds b to a.
func (a *Amount) Add(b *Amount) {
	for k, r := range b.RUs {
		a.RUs[k] += r
	}
	a.Bytes += b.Bytes
	a.Throttled += b.Throttled
}

// IsZero reports whether nothing was counted.
func (a *Amount) IsZero() bool { return *a == Amount{} }
