package heat

// Charge is what one answer of the store cost, and for what.
type Charge struct {
	Container string
	Shard     string // first-level key
	Device    string // "" where it is none's alone
	Kind      Kind
	RUs       float64
	Bytes     int // of the document that was stored; 0 if none was
	Throttled bool
}
