package control

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
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

func (b Limit) stored() any {
	if b == Unset {
		return nil
	}
	return b
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

// QueryLimits are what the queries of one tenant may take. Its tags are package settings's, and those of the tenant
// document.
type QueryLimits struct {
	Rate        Limit `name:"query-rate" json:"requestsPerSecond,omitempty" help:"Queries a second of a tenant, averaged over ten seconds." default:"${tenantlimit=none}"`
	Concurrency Limit `name:"query-concurrency" json:"concurrent,omitempty" help:"Queries of a tenant that run at the same time; others wait in the queue. At most half of --max-queries." default:"${tenantlimit=none}"`
	RUs         Limit `name:"query-rus" json:"rusPerSecond,omitempty" help:"Request units a second of a tenant's queries, averaged over a minute." default:"${tenantlimit=none}"`
	RUsOfDay    Limit `name:"query-rus-day" json:"rusPerDay,omitempty" help:"Request units of a tenant's queries in a UTC day." default:"${tenantlimit=none}"`
	Samples     Limit `name:"query-samples" json:"samples,omitempty" help:"Values that a query of a tenant may read." default:"${tenantlimit=none}"`
}

// Or returns the limits of a tenant: those of byDefault where l says nothing.
func (l QueryLimits) Or(byDefault QueryLimits) QueryLimits { return orDefaults(l, byDefault) }

// Changes returns what has to be set so that a tenant document says what l says, in the order of the fields.
func (l QueryLimits) Changes() []Change { return changesOf(reflect.ValueOf(l), "limits", "query") }

// Bounds returns what is bounded, by the name of its flag: numbers, lengths of time in seconds, and the action above a
// rate.
func (l QueryLimits) Bounds() map[string]any { return boundsOf(reflect.ValueOf(l)) }

func boundsOf(limits reflect.Value) map[string]any {
	into := map[string]any{}
	for _, f := range limitFields(limits) {
		stored := f.value.Interface().(limitField).stored()
		if stored != nil && !f.value.IsZero() && fmt.Sprint(stored) != Unbounded.String() {
			into[f.Tag.Get("name")] = stored
		}
	}
	return into
}

// fieldValue is a field of a struct and its value.
type fieldValue struct {
	reflect.StructField
	value reflect.Value
}

// limitFields returns the fields of a struct of limits, in their order.
func limitFields(limits reflect.Value) (out []fieldValue) {
	for i := range limits.NumField() {
		field, value := limits.Type().Field(i), limits.Field(i)
		if field.Anonymous {
			out = append(out, limitFields(value)...)
		} else {
			out = append(out, fieldValue{field, value})
		}
	}
	return out
}

// limitField is the type of each field of QueryLimits, IngestLimits and TenantIngest. A limit is declared by its field
// alone: its flag, its help, its property in the tenant document and its default are the field's tags.
type limitField interface {
	// isDefault reports whether the field leaves the limit to the role.
	isDefault() bool
	// stored returns the value in the tenant document; nil takes it out.
	stored() any
}

// orDefaults returns limits with each field that says nothing taken from byDefault.
func orDefaults[T any](limits, byDefault T) T {
	to, from := reflect.ValueOf(&limits).Elem(), reflect.ValueOf(byDefault)
	for i := range to.NumField() {
		if to.Field(i).Interface().(limitField).isDefault() {
			to.Field(i).Set(from.Field(i))
		}
	}
	return limits
}

// changesOf returns a change for each field of a struct of limits that says something.
func changesOf(limits reflect.Value, path ...string) (out []Change) {
	for _, f := range limitFields(limits) {
		if !f.value.IsZero() {
			property, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			out = append(out, Change{path: append(slices.Clone(path), property), named: f.Tag.Get("name"),
				value: f.value.Interface().(limitField).stored()})
		}
	}
	return out
}

// limitsBody is the limits in a tenant document: docs/internals/format/control.md.
type limitsBody struct {
	Query  QueryLimits  `json:"query"`
	Ingest TenantIngest `json:"ingest"`
}

// Change is something about a tenant that an operator sets.
type Change struct {
	path  []string // in the tenant document
	value any      // nil takes it out
	named string
	none  string // how a change that takes something out is shown; empty: default

	update func(body map[string]any) error // in place of setting the value; nil for none
}

// String returns the property and its new value.
func (c Change) String() string {
	if c.value == nil {
		return c.named + " " + cmp.Or(c.none, Unset.String())
	}
	return fmt.Sprintf("%s %v", c.named, c.value)
}
