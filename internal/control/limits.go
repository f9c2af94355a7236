package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// Limit is how much of something there may be. It is spelt as a number, none, or default; unchanged is a change to
// nothing.
type Limit float64

// Bounds that are no numbers.
const (
	Default   Limit = 0  // nothing is said: what the role is set to
	Unbounded Limit = -1 // none
	Unset     Limit = -2 // default, said of what may have been something else before: it is to be as if nothing was said
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

// String is b as it is spelt.
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

// Or is b, or what there is by default.
func (b Limit) Or(byDefault Limit) Limit {
	if b == Default || b == Unset {
		return byDefault
	}
	return b
}

// Of returns the number, and whether there is one.
func (b Limit) Of() (n float64, bounded bool) { return float64(b), b > 0 }

// QueryLimits are what the queries of one tenant may take. Its tags are package settings's, and those of the tenant
// document.
type QueryLimits struct {
	Rate        Limit `name:"query-rate" json:"requestsPerSecond,omitempty" help:"Queries a second of one tenant, over ten seconds: a number, or none." default:"${tenantlimit=none}"`
	Concurrency Limit `name:"query-concurrency" json:"concurrent,omitempty" help:"Queries of one tenant that run at the same time; others wait for their turn. In any case half of --max-queries." default:"${tenantlimit=none}"`
	RUs         Limit `name:"query-rus" json:"rusPerSecond,omitempty" help:"Request units a second that queries of one tenant may cost, over a minute." default:"${tenantlimit=none}"`
	RUsOfDay    Limit `name:"query-rus-day" json:"rusPerDay,omitempty" help:"Request units that queries of one tenant may cost in a day, UTC." default:"${tenantlimit=none}"`
	Samples     Limit `name:"query-samples" json:"samples,omitempty" help:"Values that one query of a tenant may read." default:"${tenantlimit=none}"`
}

// Or is the limits of a tenant, where nothing is said those by default.
func (l QueryLimits) Or(byDefault QueryLimits) QueryLimits {
	return QueryLimits{
		Rate: l.Rate.Or(byDefault.Rate), Concurrency: l.Concurrency.Or(byDefault.Concurrency),
		RUs: l.RUs.Or(byDefault.RUs), RUsOfDay: l.RUsOfDay.Or(byDefault.RUsOfDay), Samples: l.Samples.Or(byDefault.Samples),
	}
}

// limitsBody is the limits in a tenant document: docs/format/control.md.
type limitsBody struct {
	Query  QueryLimits  `json:"query"`
	Ingest TenantIngest `json:"ingest"`
}

// Change is something about a tenant that an operator sets.
type Change struct {
	path  []string // in the tenant document
	value any      // nil takes it out
	named string
}

// String is what is set to what.
func (c Change) String() string {
	if c.value == nil {
		return c.named + " default"
	}
	return fmt.Sprintf("%s %v", c.named, c.value)
}

// LimitChange sets a bound in a tenant document, by its path there; Unset takes it out. The second result is false
// where nothing is said.
func LimitChange(b Limit, path ...string) (c Change, said bool) {
	c = Change{path: path, named: path[len(path)-1]}
	if b != Unset {
		c.value = b
	}
	return c, b != Default
}

// Changes are what has to be set so that these are the limits, but for those of which nothing is said.
func (l QueryLimits) Changes() (out []Change) {
	for _, one := range []struct {
		name string
		is   Limit
	}{
		{"requestsPerSecond", l.Rate}, {"concurrent", l.Concurrency}, {"rusPerSecond", l.RUs},
		{"rusPerDay", l.RUsOfDay}, {"samples", l.Samples},
	} {
		if c, said := LimitChange(one.is, "limits", "query", one.name); said {
			out = append(out, c)
		}
	}
	return out
}
