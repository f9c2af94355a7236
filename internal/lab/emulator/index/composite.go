// Package index has the indexing policy of a container: which paths it covers, how many terms an item has under it,
// which orders and conditions of a query it serves. It must not know how items are stored or found.
package index

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"binnacle/internal/lab/emulator/refusal"
	"binnacle/internal/lab/emulator/sql"
)

// Limits of composite indexes (Azure Cosmos DB docs, concepts-limits).
const (
	maxComposites     = 100
	maxCompositePaths = 8
)

// compositePath is one property of a composite index.
type compositePath struct {
	steps      []string
	descending bool
}

// setComposites reads the compositeIndexes of a policy. Their paths name scalars: they end neither in
// ? nor in *, and pass through no array.
func (p *Policy) setComposites(raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	var in [][]struct {
		Path  string `json:"path"`
		Order string `json:"order"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return refusal.BadRequest("compositeIndexes is not a list of lists of paths: %v", err)
	}
	if len(in) > maxComposites {
		return refusal.BadRequest("the indexing policy has %d composite indexes: at most %d", len(in), maxComposites)
	}
	for _, index := range in {
		if len(index) < 2 || len(index) > maxCompositePaths {
			return refusal.BadRequest("a composite index has 2 to %d paths, not %d", maxCompositePaths, len(index))
		}
		var paths []compositePath
		for _, j := range index {
			steps, ok := SplitPath(j.Path)
			if !ok || len(steps) == 0 || slices.ContainsFunc(steps, wildcard) {
				return refusal.BadRequest("the path %q of a composite index is not a property", j.Path)
			}
			if slices.ContainsFunc(paths, func(c compositePath) bool { return slices.Equal(c.steps, steps) }) {
				return refusal.BadRequest("a composite index has the path %q twice", j.Path)
			}
			if j.Order != "" && j.Order != "ascending" && j.Order != "descending" {
				return refusal.BadRequest("the order %q of a composite index is neither ascending nor descending", j.Order)
			}
			paths = append(paths, compositePath{steps, j.Order == "descending"})
		}
		p.composites = append(p.composites, paths)
	}
	return nil
}

func wildcard(step string) bool { return step == "?" || step == "*" || step == AnyElement }

// Order reports whether the index serves the ORDER BY of a query: a single property that is indexed, or
// several for which there is a composite index of just these, in this order or wholly reversed
// (Azure Cosmos DB docs, index-policy). keepUndefined reports that items without the property are given
// too, which they are when the policy names the path.
func (p *Policy) Order(q *sql.Query) (keepUndefined bool, err error) {
	switch len(q.Order) {
	case 0:
		return false, nil
	case 1:
		path := q.Paths()[q.Order[0].Path]
		steps := Steps(path)
		if !p.Indexed(steps) {
			return false, refusal.BadRequest(
				"The index path corresponding to the specified order-by item is excluded: %s.", path)
		}
		return p.explicit(steps), nil
	}
	if p.composite(q) < 0 {
		return false, refusal.BadRequest(
			"The order by query does not have a corresponding composite index that it can be served from: %s.",
			compositeSpec(orderPaths(q)))
	}
	return true, nil
}

// composite returns the composite index that serves an ORDER BY of several properties, or -1.
func (p *Policy) composite(q *sql.Query) int {
	want := orderPaths(q)
	return slices.IndexFunc(p.composites, func(have []compositePath) bool {
		if p.none || len(have) != len(want) {
			return false
		}
		reversed := have[0].descending != want[0].descending
		for i, h := range have {
			if !slices.Equal(h.steps, want[i].steps) || (h.descending != want[i].descending) != reversed {
				return false
			}
		}
		return true
	})
}

func orderPaths(q *sql.Query) []compositePath {
	out := make([]compositePath, len(q.Order))
	for i, o := range q.Order {
		out[i] = compositePath{Steps(q.Paths()[o.Path]), o.Descending}
	}
	return out
}

// explicit reports whether the policy includes exactly this scalar by name. ORDER BY then also gives
// the items that do not have it (Azure Cosmos DB docs, order-by).
func (p *Policy) explicit(steps []string) bool {
	return slices.ContainsFunc(p.included, func(i policyPath) bool { return i.exact && slices.Equal(i.steps, steps) })
}

// AnyElement is the step into every element of an array.
const AnyElement = "[]"

// stepPattern is one step of a path, which may be quoted.
var stepPattern = regexp.MustCompile(`/(?:"([^"]+)"|'([^']+)'|([^/"'][^/]*))`)

// SplitPath cuts a path of a policy or a partition key at its slashes; a step may be quoted.
func SplitPath(text string) (steps []string, ok bool) {
	for _, m := range stepPattern.FindAllStringSubmatch(text, -1) {
		step, whole := cmp.Or(m[1], m[2], m[3]), m[0]
		if text, ok = strings.CutPrefix(text, whole); !ok {
			return nil, false
		}
		steps = append(steps, step)
	}
	return steps, text == ""
}

// Steps returns a path of a query as the indexing policy names it.
func Steps(p sql.Path) []string {
	out := make([]string, len(p))
	for i, s := range p {
		out[i] = s.Name
		if s.Element {
			out[i] = AnyElement
		}
	}
	return out
}

// useJSON is which indexes a query has used, and which it could, as SDKs decode it.
type useJSON struct {
	Utilized           []singleIndex    `json:"UtilizedSingleIndexes"`
	Potential          []singleIndex    `json:"PotentialSingleIndexes"`
	UtilizedComposite  []compositeIndex `json:"UtilizedCompositeIndexes"`
	PotentialComposite []compositeIndex `json:"PotentialCompositeIndexes"`
}

type singleIndex struct {
	FilterExpression string
	IndexSpec        string
	FilterPreciseSet bool
	IndexPreciseSet  bool
	IndexImpactScore string
}

type compositeIndex struct {
	IndexSpecs       []string
	IndexPreciseSet  bool
	IndexImpactScore string
}

// Use returns, as JSON, whether the index serves each path that a query filters or sorts by. The potential
// paths leave out conditions that no index can serve. Composite indexes are used for sorting only. key are the
// paths of the partition key that the request itself names.
func (p *Policy) Use(b *sql.Bound, key [][]string) []byte {
	q := b.Query()
	out := useJSON{
		Utilized: []singleIndex{}, Potential: []singleIndex{},
		UtilizedComposite: []compositeIndex{}, PotentialComposite: []compositeIndex{},
	}
	note := func(steps []string) {
		entry := singleIndex{
			IndexSpec: indexSpec(steps) + "/?", FilterPreciseSet: true, IndexPreciseSet: true, IndexImpactScore: "High",
		}
		list := &out.Potential
		if p.Indexed(steps) {
			list = &out.Utilized
		}
		if len(steps) > 0 && !slices.Contains(*list, entry) {
			*list = append(*list, entry)
		}
	}
	for _, steps := range key {
		note(steps)
	}
	for _, c := range b.Conditions() {
		if !c.Servable {
			continue
		}
		for _, path := range c.Paths {
			note(Steps(q.Paths()[path]))
		}
		for _, path := range c.Elements {
			note(Steps(path))
		}
	}
	if len(q.Order) == 1 {
		note(Steps(q.Paths()[q.Order[0].Path]))
	}
	if i := p.composite(q); len(q.Order) > 1 && i >= 0 {
		out.UtilizedComposite = append(out.UtilizedComposite,
			compositeIndex{IndexSpecs: compositeSpecs(p.composites[i]), IndexPreciseSet: true, IndexImpactScore: "High"})
	}
	text, err := json.Marshal(out)
	if err != nil {
		panic("index: encode index metrics: " + err.Error()) // strings and booleans
	}
	return text
}

func indexSpec(steps []string) string { return "/" + strings.Join(steps, "/") }

func compositeSpecs(paths []compositePath) []string {
	out := make([]string, len(paths))
	for i, c := range paths {
		out[i] = indexSpec(c.steps) + " ASC"
		if c.descending {
			out[i] = indexSpec(c.steps) + " DESC"
		}
	}
	return out
}

func compositeSpec(paths []compositePath) string { return strings.Join(compositeSpecs(paths), ", ") }
