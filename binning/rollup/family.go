package rollup

import (
	"slices"
	"strings"
)

// Family names the columns of each bucket that one rollup holds.
type Family byte

// The families. All but Last are read together with Last, which says how many samples a bucket has.
const (
	Last     Family = 'L' // count, last instant and value, stale marker; the sample at 00:00
	First    Family = 'F' // first instant and value, the values before resets
	Sum      Family = 'S' // the sum's two numbers, and how large the values are
	Extremes Family = 'M' // minimum and maximum
)

// AllFamilies are the families, Last first.
var AllFamilies = Families{Last, First, Sum, Extremes}

// Families is some families, Last first, each once.
type Families []Family

// String returns the families' letters.
func (f Families) String() string {
	var b strings.Builder
	for _, x := range f {
		b.WriteByte(byte(x))
	}
	return b.String()
}

// ParseFamilies inverts Families.String. There must be Last.
func ParseFamilies(s string) (Families, error) {
	var out Families
	for _, f := range AllFamilies {
		if strings.IndexByte(s, byte(f)) >= 0 {
			out = append(out, f)
		}
	}
	if out.String() != s || len(out) == 0 || out[0] != Last {
		return nil, corrupt("families %q are not letters of %s, in that order, with L", s, AllFamilies)
	}
	return out, nil
}

// Has reports whether a family is among them.
func (f Families) Has(x Family) bool {
	return slices.Contains(f, x)
}
