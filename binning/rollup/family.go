package rollup

import (
	"slices"
	"strings"
)

// Family names the aggregates that a rollup keeps for each bucket.
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

// Columns is a set of columns of a table that are read together.
type Columns uint8

// The columns.
const (
	Counts  Columns = 1 << iota // N, of Last
	Newest                      // LastT, Last and Stale, of Last
	Oldest                      // FirstT, First and Resets, of First
	Sums                        // Hi, Lo and Size, of Sum
	Lowest                      // Min, of Extremes
	Highest                     // Max, of Extremes
)

var columnsOf = map[Family]Columns{Last: Counts | Newest, First: Oldest, Sum: Sums, Extremes: Lowest | Highest}

// Has reports whether all of some columns are among them.
func (c Columns) Has(some Columns) bool { return c&some == some }

// Families returns the families that have any of the columns, Last always among them.
func (c Columns) Families() (out Families) {
	for _, f := range AllFamilies {
		if (c|Counts)&columnsOf[f] != 0 {
			out = append(out, f)
		}
	}
	return out
}
