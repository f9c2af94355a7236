// Package ru holds the request unit model of Binnacle in one place: what an operation is modelled to cost, how many
// physical partitions a throughput buys, how low it may be set, and its price. The charges of items up to 1 KB were
// recorded on an account. What no recording shows is assumed, and said so. None is a promise of the service.
//
// It is pure arithmetic: no I/O, no clock, and it knows nothing of items, containers or telemetry.
// Sources, measurements and errors are listed in docs/reference/cost.md.
package ru

import (
	"fmt"
	"math"
	"sort"
)

// Unit is what charges of writes are whole multiples of, in RU.
const Unit = 4.0 / 21

// Model is how operations are charged. The zero value is Stepped. Models differ in what items are charged that are
// larger than one row of the official table of sizes and smaller than the next.
type Model struct {
	sloped  bool
	factors Factors
}

var (
	// Stepped charges an item as the next larger row of the table. It is the default: the published charges of items
	// between two rows, 7.05 RU for a write and 1.05 and 4.76 RU for reads, come from rows.
	Stepped = Model{}
	// Sloped draws straight lines between the rows, rounded up to whole units.
	Sloped = Model{sloped: true}
)

// Other returns the model that is not this one, with the same factors.
func (m Model) Other() Model {
	m.sloped = !m.sloped
	return m
}

// Corrected returns the model with each charge multiplied by what was measured of a real account. A factor of zero
// changes nothing.
func (m Model) Corrected(by Factors) Model {
	m.factors = by
	return m
}

// String returns the name that command lines use.
func (m Model) String() string {
	if m.sloped {
		return "slope"
	}
	return "step"
}

// MarshalText returns the model's name, as String.
func (m Model) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads a model's name.
func (m *Model) UnmarshalText(text []byte) error {
	for _, known := range []Model{Stepped, Sloped} {
		if string(text) == known.String() {
			*m = known
			return nil
		}
	}
	return fmt.Errorf("%q is neither %s nor %s", text, Stepped, Sloped)
}

// The official table of sizes (Azure Cosmos DB docs, "Understand request units consumption", April 2026), which counts
// in the same units: reads in 21sts of an RU, writes without an index in units.
var (
	tableKB    = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048}
	tableRead  = []float64{21, 22, 24, 28, 35, 46, 100, 209, 426, 861, 3064, 6128}
	tableWrite = []float64{26, 33, 35, 37, 50, 59, 119, 253, 516, 969, 3281, 6562}
)

// Read returns the charge of a point read of an item of that many bytes of minified JSON, under session or
// weaker consistency. Less than 1 KB counts as 1 KB.
func (m Model) Read(bytes int) float64 { return m.size(tableRead, bytes) / 21 * factor(m.factors.Read) }

// NoIndex is the index of an item in a container of the indexing mode none.
const NoIndex = -1

// Scalar is the index units of an indexed scalar property at the top level of an item: a path and a value. The id is
// always indexed. A level of a hierarchical partition key that the policy includes is assumed to take as many: recorded
// is a key of one level.
const Scalar = 2

// Write returns the charge of a create, or of an upsert of what is new, of an item with that many index units.
func (m Model) Write(bytes, index int) float64 { return m.writes(m.whole(bytes, index)) }

// Replace returns the charge of a replace, which the service does as a delete and a create: both sizes, and the
// index units that go and come. What stays in the index costs nothing.
func (m Model) Replace(oldBytes, newBytes, index int) float64 {
	return m.writes(m.whole(oldBytes, min(index, 0)) + m.whole(newBytes, index))
}

// Delete returns the charge of a delete of an item: that of its create.
func (m Model) Delete(bytes, index int) float64 { return m.Write(bytes, index) }

// Patch returns the charge of a patch of n operations in addition to the replace that it amounts to.
func (m Model) Patch(n int) float64 { return patchOperation * float64(n) * factor(m.factors.Write) }

// patchOperation is recorded with all its digits in the answer to a batch.
const patchOperation = 0.1245882

// Charges that do not depend on what is written or read.
const (
	// Refused is the charge of a write that is refused with 400, 404 or 412.
	Refused = 26.0 / 21
	// Exists is the charge of a create of what exists.
	Exists = 31.0 / 21
	// NotUnique is the charge of a write that would break a unique key.
	NotUnique = 1.94
	// Throttled is the charge that an answer 429 names.
	Throttled = 2 * Unit
	// Again is what a batch takes off the charge of a write to an item that it has written before.
	Again = Unit
	// MetadataCreate is the charge of the making of a database or container.
	MetadataCreate = 1
	// MetadataRead is the charge of a read or list of databases or containers, and of one that is not found.
	MetadataRead = 2
	// MetadataChange is the charge of a change or removal of a database or container: a write without an index.
	MetadataChange = 26 * Unit
)

func (m Model) writes(units float64) float64 { return units * Unit * factor(m.factors.Write) }

// whole returns the units of a write with its index, which takes one more.
func (m Model) whole(bytes, index int) float64 {
	units := m.size(tableWrite, bytes)
	if index >= 0 {
		units += 1 + float64(index)
	}
	return units
}

// size reads a column of the table; beyond the last row it grows in proportion. An item's system properties, up to 230
// bytes, are assumed to count for nothing: no item above 1 KB is recorded.
func (m Model) size(column []float64, bytes int) float64 {
	kb := kilobytes(bytes)
	last := len(tableKB) - 1
	if kb > tableKB[last] {
		return math.Ceil(column[last] * kb / tableKB[last])
	}
	i := sort.SearchFloat64s(tableKB, kb)
	if !m.sloped || tableKB[i] == kb {
		return column[i]
	}
	part := (kb - tableKB[i-1]) / (tableKB[i] - tableKB[i-1])
	return math.Ceil(column[i-1] + part*(column[i]-column[i-1]))
}

func kilobytes(bytes int) float64 { return max(1, float64(bytes)/1024) }

// Shown returns a charge as answers name it: to the hundredth.
func Shown(rus float64) float64 { return math.Round(rus*100) / 100 }

// QueryWork is what one page of a query did in one physical partition.
type QueryWork struct {
	// Seeks counts the places of the index that the conditions of the query go to: one for each value or range that a
	// property is held against, one for a partition key, one for each property or array that must be there.
	Seeks int
	// Columns counts the columns of a row; 0 is whole items.
	Columns int
	// Docs counts the items that were loaded: the ones that the index could not rule out.
	Docs int
	// Scattered counts those of them that were not made right after the one loaded before, apart from one for each
	// seek.
	Scattered int
	// ExtraKB is the sum over the loaded items of max(0, size in KB - 1).
	ExtraKB float64
	// Counted reports that items were counted from the index: those loaded cost nothing then.
	Counted bool
}

// Add counts one loaded item of that many bytes.
func (w *QueryWork) Add(bytes int) {
	w.Docs++
	w.ExtraKB += kilobytes(bytes) - 1
}

// The recorded parts of a query's charge, in RU.
const (
	page     = 2.245
	seek     = 0.5575
	row      = 0.011066
	column   = 0.001925
	wholeRow = 0.014358
	counting = 0.0875
)

// The parts that are assumed, in RU. Assumed besides: a count reads the index alone (recorded of a whole range; an
// article of 2019 was charged as for loading); a query of a prefix of a hierarchical key reads the physical partitions
// that it touches (documented); a unique key costs nothing beyond its paths (two creates are recorded, without a rule:
// 1.48 and 1.71 RU); an included path that an item lacks costs as if it were there (documented); a delete or replace
// above 1 KB costs as the creates of both (recorded up to 1 KB).
const (
	// nextSeek is recorded between 0.1 and 0.2.
	nextSeek = 0.1
	// scattered is for a hit that was not made right after the one before. A hit of published queries costs 0.14 in all.
	scattered = 0.125
	// extraKB is for a loaded KB: one published query has 3.19 RU for 9.7 KB. A point read has 0.03 to 0.09.
	extraKB = 0.04
	// feedPage is recorded once, of one item.
	feedPage = 1
)

// Query returns the charge of one page of a query in one physical partition. Stepped and Sloped agree on it.
func (m Model) Query(w QueryWork) float64 {
	charge := page
	if w.Seeks > 0 || w.Counted {
		charge += seek + nextSeek*float64(max(0, w.Seeks-1))
	}
	if w.Counted {
		return (charge + counting) * factor(m.factors.Query)
	}
	perRow := wholeRow
	if w.Columns > 0 {
		perRow = row + column*float64(w.Columns)
	}
	charge += perRow*float64(w.Docs) + scattered*float64(w.Scattered) + extraKB*w.ExtraKB
	return charge * factor(m.factors.Query)
}

// Feed returns the charge of one page of the change feed of a physical partition. Its first item costs nothing more.
func (m Model) Feed(w QueryWork) float64 {
	return (feedPage + wholeRow*float64(max(0, w.Docs-1)) + extraKB*w.ExtraKB) * factor(m.factors.Query)
}
