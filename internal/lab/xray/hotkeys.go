package xray

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"binnacle/internal/cosmos"

	"github.com/valyala/fastjson"
)

// hotKey is a full key with the documents of the sample that have it.
type hotKey struct {
	of     int
	key    []component
	weight float64
}

// countHotKeys counts the documents of the fullest keys, where the index can do it, and corrects the weights of the
// sample by it. Keys that contain the time are many and small.
func (s *sampler) countHotKeys(ctx context.Context) error {
	for _, path := range s.about.Key {
		if !s.about.Indexed(path) {
			return nil
		}
	}
	keys := map[string]*hotKey{}
	for _, d := range s.docs {
		at := time.Unix(d.at, 0).UTC()
		if slices.ContainsFunc(d.key, func(c component) bool { return c.marked(at).timed() }) {
			return nil
		}
		id := fmt.Sprint(d.of, spell(d.key))
		if keys[id] == nil {
			keys[id] = &hotKey{of: d.of, key: d.key}
		}
		keys[id].weight += d.weight
	}
	all := slices.SortedFunc(maps.Values(keys), func(a, b *hotKey) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), strings.Compare(spell(a.key), spell(b.key)))
	})
	for _, k := range all[:min(len(all), hotKeys)] {
		if s.left() < hotKeyRUs {
			return nil
		}
		if err := s.countKey(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

// countKey counts one key. What it has more or less, the other keys of its physical partition have less or more.
func (s *sampler) countKey(ctx context.Context, k *hotKey) error {
	var conditions []string
	var q cosmos.ForeignQuery
	for i, c := range k.key {
		v, ok := c.value()
		if !ok {
			return nil
		}
		conditions = append(conditions, fmt.Sprintf(`c%s = @p%d`, accessor(s.about.Key[i]), i))
		q.Values = append(q.Values, v)
	}
	exact := 0.0
	q.SQL = "SELECT VALUE COUNT(1) FROM c WHERE " + strings.Join(conditions, " AND ")
	err := s.ask(ctx, s.ranges[k.of], q, func(v *fastjson.Value) error { exact = v.GetFloat64(); return nil })
	total := s.counts[k.of]
	if err != nil || exact <= 0 || exact > total {
		return err
	}
	for i := range s.docs {
		d := &s.docs[i]
		switch {
		case d.of != k.of:
		case slices.Equal(d.key, k.key):
			d.weight *= exact / k.weight
		case total > k.weight:
			d.weight *= (total - exact) / (total - k.weight)
		}
	}
	return nil
}

// accessor returns a path as SQL has it.
func accessor(path string) (out string) {
	for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		out += `["` + strings.Trim(part, `"`) + `"]`
	}
	return out
}
