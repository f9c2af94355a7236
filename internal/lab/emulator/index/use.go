// Package index has the indexing policy of a container: which paths it covers, how many terms an item has under it,
// which orders and conditions of a query it serves. It must not know how items are stored or found.
package index

import (
	"encoding/json"
	"slices"
	"strings"

	"binnacle/internal/lab/emulator/sql"
)

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
