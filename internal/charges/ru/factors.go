package ru

import (
	"encoding/json"
	"fmt"
	"math"
)

// Factors are what modelled charges are multiplied with, by kind of operation: what was measured of a real account. Of
// one that is zero nothing is known.
type Factors struct {
	Read  float64 `json:"read,omitempty"`  // point reads
	Write float64 `json:"write,omitempty"` // inserts, replaces, deletes
	Query float64 `json:"query,omitempty"` // queries and the change feed

	// Source is the file that they come from, as it was named; "" for none.
	Source string `json:"-"`
}

// MarshalText returns the file that the factors come from.
func (f Factors) MarshalText() ([]byte, error) { return []byte(f.Source), nil }

// String names what the model is multiplied with.
func (f Factors) String() string {
	return fmt.Sprintf("reads %.3f, writes %.3f, queries %.3f", factor(f.Read), factor(f.Write), factor(f.Query))
}

// ParseFactors reads what `binnacle doctor --measure --json` has written: its object factors.
func ParseFactors(text []byte) (Factors, error) {
	var file struct {
		Factors *struct{ Read, Write, Query float64 }
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return Factors{}, err
	}
	if file.Factors == nil {
		return Factors{}, fmt.Errorf("it has no factors; binnacle doctor --measure --json writes them")
	}
	f := Factors{Read: file.Factors.Read, Write: file.Factors.Write, Query: file.Factors.Query}
	for name, n := range map[string]float64{"read": f.Read, "write": f.Write, "query": f.Query} {
		if n < 0 || n > 100 || math.IsNaN(n) {
			return Factors{}, fmt.Errorf("the factor %g of %s is none", n, name)
		}
	}
	return f, nil
}

func factor(f float64) float64 {
	if f == 0 {
		return 1
	}
	return f
}

// MarshalJSON returns the numbers, as ParseFactors reads them.
func (f Factors) MarshalJSON() ([]byte, error) {
	type numbers Factors
	return json.Marshal(numbers(f))
}
