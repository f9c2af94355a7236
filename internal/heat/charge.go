package heat

// Charge is what one answer of the store cost, and for what.
type Charge struct {
	Container string
	Shard     string // first-level key
	Device    string // "" where it is none's alone
	Kind      Kind
	RUs       float64
	// Bytes is the size of the stored document; 0 if none was stored.
	Bytes     int
	Throttled bool
}
