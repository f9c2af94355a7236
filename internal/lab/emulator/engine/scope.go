package engine

import (
	"cmp"

	"binnacle/sharding/epk"
)

// Scope says which part of a container a request is about.
type Scope struct {
	Key      string // partition key, or a prefix of it: a JSON array; "": all
	Range    string // physical partition; "": all
	Min, Max string // effective partition keys, half-open; both "": all
}

// narrowed reports whether the request names a range of effective partition keys.
func (s Scope) narrowed() bool { return s.Min != "" || s.Max != "" }

// narrow narrows a reach to the range of effective partition keys of the request.
func (s Scope) narrow(r reach) (reach, error) {
	if !s.narrowed() {
		return r, nil
	}
	return r.within(epk.Range{Min: s.Min, Max: cmp.Or(s.Max, epk.Max)})
}
