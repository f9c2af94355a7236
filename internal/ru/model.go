// Package ru holds the request unit model of Binnacle in one place: what an operation is modelled to
// cost, how many physical partitions a throughput buys, how low it may be set, and what it is priced
// at. All figures are modelled from published material; none is a promise of the service.
//
// It is pure arithmetic: no I/O, no clock, and it knows nothing of items, containers or telemetry.
// Sources, measurements and errors are listed in docs/request-units.md.
package ru

import (
	"fmt"
	"sort"
)

// Model is how operations are charged. The zero value is TableT.
type Model struct {
	linear  bool
	factors Factors
}

var (
	// TableT interpolates Microsoft's table "Understand request units consumption" (April 2026).
	// Its cheapest size per KB is 32 KB. It is the default.
	TableT = Model{}
	// Linear draws straight lines through the documented points of 1 KB and 100 KB: reads of 1 and
	// 10 RU, writes without indexing of 5 and 50 RU (Azure Cosmos DB docs, key-value-store-cost).
	Linear = Model{linear: true}
)

// Other is the model that is not this one, with the same factors.
func (m Model) Other() Model { return Model{!m.linear, m.factors} }

// Corrected is the model with each charge multiplied by what was measured of a real account. Of factors that are zero
// nothing is known: they change nothing.
func (m Model) Corrected(by Factors) Model {
	m.factors = by
	return m
}

// String is the name that command lines use.
func (m Model) String() string {
	if m.linear {
		return "linear"
	}
	return "table"
}

// MarshalText is the model's name, as String.
func (m Model) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads a model's name.
func (m *Model) UnmarshalText(text []byte) error {
	for _, known := range []Model{TableT, Linear} {
		if string(text) == known.String() {
			*m = known
			return nil
		}
	}
	return fmt.Errorf("%q is neither %s nor %s", text, TableT, Linear)
}

// TermCharge is what one unique indexed term adds to a write, in RU. Fitted to published inserts of
// 5 to 129 terms; the documentation's own figure is 0.2 (docs/request-units.md).
const TermCharge = 0.32

// The sizes and charges of table T, in KB and RU.
var (
	tableKB    = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048}
	tableRead  = []float64{1.00, 1.04, 1.14, 1.33, 1.67, 2.19, 4.76, 9.95, 20.3, 41.0, 145.9, 291.8}
	tableWrite = []float64{4.95, 6.29, 6.67, 7.04, 9.52, 11.23, 22.67, 48.19, 98.3, 184.6, 625, 1250}
)

// Read is the charge of a point read of an item of that many bytes of minified JSON, under session or
// weaker consistency. Less than 1 KB counts as 1 KB.
func (m Model) Read(bytes int) float64 {
	charge := interpolate(tableRead, kilobytes(bytes))
	if m.linear {
		charge = 1 + (kilobytes(bytes)-1)*9/99
	}
	return charge * factor(m.factors.Read)
}

// Write is the charge of an insert of an item with that many unique indexed terms, id and _ts
// included. A replace is two of these: see Replace.
func (m Model) Write(bytes, terms int) float64 {
	return (m.size(bytes) + TermCharge*float64(terms)) * factor(m.factors.Write)
}

// Replace is the charge of a replace, which the service does as a delete and an insert: both sizes,
// and the terms that were removed plus those that were added.
func (m Model) Replace(oldBytes, newBytes, termsChanged int) float64 {
	return (m.size(oldBytes) + m.size(newBytes) + TermCharge*float64(termsChanged)) * factor(m.factors.Write)
}

// Delete is the charge of a delete of an item: that of its insert. No figure is published.
func (m Model) Delete(bytes, terms int) float64 { return m.Write(bytes, terms) }

func (m Model) size(bytes int) float64 {
	if m.linear {
		return 5 + (kilobytes(bytes)-1)*45/99
	}
	return interpolate(tableWrite, kilobytes(bytes))
}

// QueryWork is what one page of a query did in one physical partition.
type QueryWork struct {
	// Filtered reports whether the query has a WHERE clause.
	Filtered bool
	// Docs counts the items that were loaded: those that the index could not rule out.
	Docs int
	// ExtraKB is the sum over these items of max(0, size in KB - 1).
	ExtraKB float64
}

// Add counts one loaded item of that many bytes.
func (w *QueryWork) Add(bytes int) {
	w.Docs++
	w.ExtraKB += kilobytes(bytes) - 1
}

// The parts of a query's charge: fitted to published single-partition queries (docs/request-units.md).
const (
	queryFiltered = 2.75
	queryPlain    = 2.4
	queryFloor    = 2.5
	queryDoc      = 0.14
	queryExtraKB  = 0.04
)

// Query is the charge of one page of a query in one physical partition. Both models agree on it.
func (m Model) Query(w QueryWork) float64 {
	if w.Docs == 0 {
		return queryFloor * factor(m.factors.Query)
	}
	base := queryPlain
	if w.Filtered {
		base = queryFiltered
	}
	return (base + queryDoc*float64(w.Docs) + queryExtraKB*w.ExtraKB) * factor(m.factors.Query)
}

func kilobytes(bytes int) float64 { return max(1, float64(bytes)/1024) }

// interpolate reads a column of table T at kb; beyond the last row it goes on in proportion.
func interpolate(column []float64, kb float64) float64 {
	last := len(tableKB) - 1
	if kb >= tableKB[last] {
		return column[last] * kb / tableKB[last]
	}
	i := sort.SearchFloat64s(tableKB, kb)
	if tableKB[i] == kb {
		return column[i]
	}
	part := (kb - tableKB[i-1]) / (tableKB[i] - tableKB[i-1])
	return column[i-1] + part*(column[i]-column[i-1])
}
