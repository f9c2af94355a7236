// Package charges counts what the store charges, by tenant, container and kind of work, and makes bills of it.
//
// Each process counts in one Counter. Counters only grow, and are stored in full, so that a document that is written
// twice, or late, counts once. docs/internals/format/charges.md describes the documents.
package charges

import (
	"fmt"
	"time"
)

// Kind is the kind of work that a request served. Its text is part of documents and bills.
type Kind string

// The kinds.
const (
	Chunks   Kind = "chunks"   // creates of chunks
	Backfill Kind = "backfill" // creates of chunks of days long past
	// LookUps are requests of ingesters for tails of chains, and for chunks that exist.
	LookUps Kind = "lookups"
	Rollups Kind = "rollups" // reads and writes of the role that makes them
	Catalog Kind = "catalog" // names of devices and metrics, written by ingesters and merged
	Queries Kind = "queries" // whatever a query reads
	Erase   Kind = "erase"   // sweeps, and their certificates
	Reads   Kind = "reads"   // reads of commands and roles that are none of the above
	// Control is for settings, leases, metadata and heat, which have no tenant.
	Control Kind = "control"
)

// Kinds are all kinds, in the order of bills.
var Kinds = []Kind{Chunks, Backfill, LookUps, Rollups, Catalog, Queries, Erase, Reads, Control}

// Charge is what one answer of the store cost, and for what.
type Charge struct {
	// Tenant is "" for a request without one.
	Tenant    string
	Container string // "" for the account's own
	Kind      Kind
	RUs       float64
	// Bytes is the size of the stored document; 0 if none was stored.
	Bytes int
	// Source is the source of a query; nil for other requests.
	Source *Source
}

// Source says where a query came from.
type Source struct {
	Dashboard string // uid, as Grafana's header X-Dashboard-Uid says; "" where it is not said
	Panel     string // id, as X-Panel-Id says
	Agent     string // User-Agent
	Caller    string // such as "token 3fk2"
	Query     string // its text, or its path
}

// Month is a calendar month, UTC.
type Month struct {
	Year  int
	Month time.Month
}

// MonthOf returns the month of a time.
func MonthOf(t time.Time) Month {
	t = t.UTC()
	return Month{t.Year(), t.Month()}
}

// ParseMonth reads a month such as 2026-11 that has begun at a time; "" is the month of that time.
func ParseMonth(s string, now time.Time) (Month, error) {
	if s == "" {
		return MonthOf(now), nil
	}
	t, err := time.Parse("2006-01", s)
	switch {
	case err != nil:
		return Month{}, fmt.Errorf("the month %q is not in the form 2026-11", s)
	case t.After(now):
		return Month{}, fmt.Errorf("the month %s has not begun", s)
	}
	return MonthOf(t), nil
}

func (m Month) compare(other Month) int { return m.Begin().Compare(other.Begin()) }

// String returns the month in the form 2026-11.
func (m Month) String() string { return m.Begin().Format("2006-01") }

// Begin returns the first instant of the month.
func (m Month) Begin() time.Time { return time.Date(m.Year, m.Month, 1, 0, 0, 0, 0, time.UTC) }

// End returns the first instant after the month.
func (m Month) End() time.Time { return m.Begin().AddDate(0, 1, 0) }
