package engine

import (
	"bytes"
	"encoding/hex"
	"slices"

	"binnacle/internal/lab/emulator/refusal"
	"binnacle/internal/lab/emulator/schema"
	"binnacle/internal/lab/emulator/sql"
	"binnacle/sharding/epk"
)

// span is a range of items of one container, half-open, as what follows the prefix in their keys:
// effective partition key, then id. A nil high has no end.
type span struct{ low, high []byte }

func (s span) empty() bool { return s.high != nil && bytes.Compare(s.low, s.high) >= 0 }

// intersect returns what both spans have in common.
func (s span) intersect(o span) span {
	if bytes.Compare(o.low, s.low) > 0 {
		s.low = o.low
	}
	if s.high == nil || o.high != nil && bytes.Compare(o.high, s.high) < 0 {
		s.high = o.high
	}
	return s
}

func (s span) holds(key []byte) bool {
	return bytes.Compare(s.low, key) <= 0 && (s.high == nil || bytes.Compare(key, s.high) < 0)
}

func keySpan(keys epk.Range) (s span, err error) {
	if s.low, err = hex.DecodeString(keys.Min); err == nil && keys.Max != epk.Max {
		s.high, err = hex.DecodeString(keys.Max)
	}
	return s, err
}

func prefixSpan(prefix []byte) span { return span{prefix, after(prefix)} }

// reach is where a query has to look: spans in key order, without overlap, and whether they lie in
// one logical partition.
type reach struct {
	spans  []span
	single bool
}

// maxAlternatives bounds how many ranges a WHERE clause is split into: ReadMany of azcosmos asks for
// up to 1,000 items in one query.
const maxAlternatives = 1024

// reachOf finds the items that a query can match: by the partition key of the request, and by the conditions of its
// WHERE clause on the key properties and on the id.
func reachOf(def *schema.Definition, b *sql.Bound, key schema.Key) reach {
	roles := keyRoles(def, b.Query().Paths())
	var out reach
	single := true
	var first []byte
	for i, alternative := range b.Alternatives(maxAlternatives) {
		s, logical, possible := alternativeSpan(def, roles, key, alternative)
		if i == 0 {
			first = logical
		}
		single = single && logical != nil && bytes.Equal(first, logical)
		if possible && !s.empty() {
			out.spans = append(out.spans, s)
		}
	}
	out.single = single
	out.spans = merge(out.spans)
	return out
}

// What a path means for the key of an item: its level in the partition key, or one of these.
const (
	roleNone = -1
	roleID   = -2
)

func keyRoles(def *schema.Definition, paths []sql.Path) []int {
	roles := make([]int, len(paths))
	for i, p := range paths {
		roles[i] = roleNone
		if !p.Whole() {
			continue
		}
		if at := def.Place(p); at >= 0 && at < def.Levels() {
			roles[i] = at // the key's paths come first among the covered paths
		} else if p.Key() == "/id" {
			roles[i] = roleID
		}
	}
	return roles
}

// alternativeSpan returns the span of the items that satisfy one alternative. logical is the effective
// partition key when all levels are known, else nil; possible is false when nothing can match.
func alternativeSpan(
	def *schema.Definition, roles []int, key schema.Key, comparisons []sql.Comparison,
) (s span, logical []byte, possible bool) {
	known := make([]*sql.Value, len(def.Keys))
	for i := range key {
		known[i] = &key[i]
	}
	for _, c := range comparisons {
		level := roles[c.Path]
		if level < 0 || c.Op != sql.Equal {
			continue
		}
		if c.Value.Kind() > sql.String || c.Value.Kind() == sql.Undefined {
			return span{}, nil, false // nothing equals undefined, and no key is an array or an object
		}
		if known[level] == nil {
			known[level] = &c.Value
		}
	}
	var prefix schema.Key
	for _, v := range known {
		if v == nil {
			break
		}
		prefix = append(prefix, *v)
	}
	bound := prefix.AppendEPK(nil)
	if len(prefix) < len(def.Keys) {
		return prefixSpan(bound), nil, true
	}
	s, possible = idSpan(bound, roles, comparisons)
	return s, bound, possible
}

// idSpan narrows a logical partition by what is said of the id.
func idSpan(logical []byte, roles []int, comparisons []sql.Comparison) (span, bool) {
	s := prefixSpan(logical)
	for _, c := range comparisons {
		if roles[c.Path] != roleID {
			continue
		}
		if c.Value.Kind() != sql.String {
			return span{}, false // an id is a string
		}
		at := append(slices.Clone(logical), c.Value.Bytes()...)
		next := append(slices.Clone(at), 0)
		switch c.Op {
		case sql.Equal:
			s = s.intersect(span{at, next})
		case sql.Less:
			s = s.intersect(span{nil, at})
		case sql.LessEqual:
			s = s.intersect(span{nil, next})
		case sql.Greater:
			s = s.intersect(span{next, nil})
		case sql.GreaterEqual:
			s = s.intersect(span{at, nil})
		case sql.Prefix:
			s = s.intersect(prefixSpan(at))
		}
	}
	return s, true
}

// merge sorts spans and joins overlapping ones.
func merge(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return bytes.Compare(a.low, b.low) })
	var out []span
	for _, s := range spans {
		if n := len(out); n > 0 && (out[n-1].high == nil || bytes.Compare(s.low, out[n-1].high) < 0) {
			last := &out[n-1]
			if s.high == nil || last.high != nil && bytes.Compare(s.high, last.high) > 0 {
				last.high = s.high
			}
			continue
		}
		out = append(out, s)
	}
	return out
}

func (r reach) within(keys epk.Range) (reach, error) {
	s, err := keySpan(keys)
	if err != nil {
		return r, refusal.BadRequest("the range %s to %s is not one of effective partition keys", keys.Min, keys.Max)
	}
	spans := r.spans
	r.spans = nil
	for _, have := range spans {
		if both := have.intersect(s); !both.empty() {
			r.spans = append(r.spans, both)
		}
	}
	return r, nil
}

// leg is the part of a reach that lies in one physical partition.
type leg struct {
	partition *partition
	spans     []span
}

// legs divides a reach over the physical partitions, in key order.
func (r reach) legs(parts []*partition) []leg {
	var out []leg
	for _, p := range parts {
		l := leg{partition: p}
		for _, s := range r.spans {
			if both := s.intersect(p.span); !both.empty() {
				l.spans = append(l.spans, both)
			}
		}
		if len(l.spans) > 0 {
			out = append(out, l)
		}
	}
	return out
}
