package tenant

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// Limit is how much of something there may be. It is spelt as a number, none, or default; unchanged is a change to
// nothing.
type Limit float64

// Limits that are no numbers.
const (
	// Default leaves the limit as it is: to the role, unless the tenant has one.
	Default Limit = 0
	// Unbounded is no limit.
	Unbounded Limit = -1
	// Unset leaves the limit to the role, whatever the tenant had before.
	Unset Limit = -2
)

var errLimit = errors.New("a number above 0, none, or default is needed")

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *Limit) UnmarshalText(text []byte) error {
	switch string(text) {
	case "unchanged":
		*b = Default
		return nil
	case "none":
		*b = Unbounded
		return nil
	case "default":
		*b = Unset
		return nil
	}
	n, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(n > 0) || n > math.MaxInt64/2 {
		return errLimit
	}
	*b = Limit(n)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (b Limit) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// String returns b as flags have it.
func (b Limit) String() string {
	switch b {
	case Default, Unset:
		return "default"
	case Unbounded:
		return "none"
	}
	return strconv.FormatFloat(float64(b), 'f', -1, 64)
}

// MarshalJSON implements json.Marshaler: in documents bounds are numbers, and -1 is none.
func (b Limit) MarshalJSON() ([]byte, error) { return json.Marshal(float64(b)) }

// UnmarshalJSON implements json.Unmarshaler. What no version writes counts as nothing said.
func (b *Limit) UnmarshalJSON(text []byte) error {
	var n float64
	if err := json.Unmarshal(text, &n); err != nil {
		return err
	}
	if *b = Limit(n); n < 0 && *b != Unbounded {
		*b = Default
	}
	return nil
}

func (b Limit) isDefault() bool { return b == Default || b == Unset }

func (b *Limit) says() Limit { return *b }

func (b *Limit) value() any { return *b }

// take sets b to another *Limit. store.Documents do not distinguish Unset from Default.
func (b *Limit) take(from limitField) {
	if *b = *from.(*Limit); *b == Unset {
		*b = Default
	}
}

// Or returns b, or byDefault where b says nothing.
func (b Limit) Or(byDefault Limit) Limit {
	if b.isDefault() {
		return byDefault
	}
	return b
}

// Of returns the number, and whether there is one.
func (b Limit) Of() (n float64, bounded bool) { return float64(b), b > 0 }

// QueryLimits are the limits of one tenant's queries. The tags serve package settings and the tenant document.
type QueryLimits struct {
	Rate        Limit `name:"query-rate" json:"requestsPerSecond,omitempty" help:"Queries a second of a tenant, averaged over ten seconds." default:"${tenantlimit=none}"`
	Concurrency Limit `name:"query-concurrency" json:"concurrent,omitempty" help:"Queries of a tenant that run at the same time; others wait in the queue. At most half of --max-queries." default:"${tenantlimit=none}"`
	RUs         Limit `name:"query-rus" json:"rusPerSecond,omitempty" help:"Request units a second of a tenant's queries, averaged over a minute." default:"${tenantlimit=none}"`
	RUsOfDay    Limit `name:"query-rus-day" json:"rusPerDay,omitempty" help:"Request units of a tenant's queries in a UTC day." default:"${tenantlimit=none}"`
	Samples     Limit `name:"query-samples" json:"samples,omitempty" help:"Values that a query of a tenant may read." default:"${tenantlimit=none}"`
}

// Or returns the limits of a tenant: where l says nothing, the limit of byDefault.
func (l QueryLimits) Or(byDefault QueryLimits) QueryLimits {
	queryLimits.fill(&l, &byDefault)
	return l
}

// Bounds returns the limits that are set, by the names of their flags: numbers, durations in seconds, and the action
// above a rate.
func (l QueryLimits) Bounds() map[string]any { return queryLimits.bounds(&l) }

var queryLimits = limitTable[QueryLimits]{
	{"query-rate", func(l *QueryLimits) limitField { return &l.Rate }},
	{"query-concurrency", func(l *QueryLimits) limitField { return &l.Concurrency }},
	{"query-rus", func(l *QueryLimits) limitField { return &l.RUs }},
	{"query-rus-day", func(l *QueryLimits) limitField { return &l.RUsOfDay }},
	{"query-samples", func(l *QueryLimits) limitField { return &l.Samples }},
}

// limitTable lists the limits of a struct by the names of their flags.
type limitTable[T any] []struct {
	name  string
	field func(*T) limitField
}

// limitField is a field in a limitTable: *Limit, *Period or *OnExcess.
type limitField interface {
	encoding.TextUnmarshaler
	fmt.Stringer

	// says returns Default, Unset or Unbounded; for a limit that is set a number above 0.
	says() Limit
	// value returns the limit as the tenant document has it.
	value() any
	// take sets the field to one of the same type, as the tenant document has it.
	take(from limitField)
}

// fill sets the limits that say nothing to those of byDefault.
func (t limitTable[T]) fill(limits, byDefault *T) {
	for _, l := range t {
		if to := l.field(limits); to.says().isDefault() {
			to.take(l.field(byDefault))
		}
	}
}

func (t limitTable[T]) bounds(limits *T) map[string]any {
	out := map[string]any{}
	for _, l := range t {
		if f := l.field(limits); f.says() > 0 {
			out[l.name] = f.value()
		}
	}
	return out
}
