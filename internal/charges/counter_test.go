package charges_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"binnacle/internal/charges"

	"github.com/stretchr/testify/require"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// stored is documents as the store has them: the last one of each id.
type stored map[string][]byte

func (s stored) put(t *testing.T, docs []charges.Document) {
	for _, d := range docs {
		s[d.Month.String()+"/"+d.ID] = d.Body
	}
	require.LessOrEqual(t, len(docs), 1000)
}

func (s stored) sum(t *testing.T, month string) *charges.Sum {
	sum := charges.NewSum()
	for id, body := range s {
		if strings.HasPrefix(id, month) {
			require.NoError(t, sum.Add(body))
		}
	}
	return sum
}

func take(t *testing.T, c *charges.Counter, now time.Time, own float64) []charges.Document {
	docs, err := c.Take(now, func(int) float64 { return own })
	require.NoError(t, err)
	return docs
}

// A clock may be set back into a month that is over, stored and forgotten.
func TestMonthComesBack(t *testing.T) {
	c, all := charges.NewCounter("a"), stored{}
	for i, now := range []time.Time{noon, noon.AddDate(0, 1, 0), noon, noon.AddDate(0, 1, 0), noon} {
		c.Count(now, charges.Charge{Tenant: "t", Kind: charges.Chunks, RUs: 10})
		for range 2 {
			all.put(t, take(t, c, now, 0))
		}
		require.Equal(t, float64(10*(i/2+1)), all.sum(t, charges.MonthOf(now).String()).Rows[charges.Key{Tenant: "t",
			Kind: charges.Chunks}].RUs, "step %d", i)
	}
}

// Whatever is counted, taken, put back and stored in any order, the stored documents add up to what was counted, once
// the last taken are stored.
func TestDocumentsAddUp(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	counters := []*charges.Counter{charges.NewCounter("a"), charges.NewCounter("b")}
	all, want := stored{}, map[charges.Key]charges.Amount{}
	queries := map[string]float64{}
	for range 5000 {
		c := counters[rng.IntN(2)]
		x := charges.Charge{Container: fmt.Sprint("chunks-", rng.IntN(3)), Kind: charges.Chunks,
			RUs: float64(rng.IntN(1e4)) / 100, Bytes: rng.IntN(1000)}
		if rng.IntN(3) > 0 {
			x.Tenant = fmt.Sprint("t", rng.IntN(400))
		}
		if x.Tenant != "" && rng.IntN(2) == 0 {
			x.Kind = charges.Queries
			x.Source = &charges.Source{Query: fmt.Sprint("q", rng.IntN(300))}
			queries[x.Tenant] += x.RUs
		}
		c.Count(noon, x)
		key := charges.Key{Tenant: x.Tenant, Container: x.Container, Kind: x.Kind}
		sum := want[key]
		sum.RUs, sum.Requests, sum.Bytes = sum.RUs+x.RUs, sum.Requests+1, sum.Bytes+int64(x.Bytes)
		want[key] = sum
		if rng.IntN(500) == 0 {
			docs := take(t, c, noon, 0)
			if n := rng.IntN(len(docs) + 1); n < len(docs) { // the store has failed
				c.PutBack(docs[n:])
				docs = docs[:n]
			}
			all.put(t, docs)
		}
	}
	for _, c := range counters {
		all.put(t, take(t, c, noon, 0))
	}
	got := all.sum(t, "2026-11")
	require.Equal(t, 2, got.Writers)
	for key, a := range want {
		require.InDelta(t, a.RUs, got.Rows[key].RUs, 1e-6, key)
		require.Equal(t, a.Requests, got.Rows[key].Requests, key)
		require.Equal(t, a.Bytes, got.Rows[key].Bytes, key)
	}
	for tenant, rus := range queries {
		sum := 0.0
		for _, r := range got.Sources[tenant] {
			sum += r.RUs
		}
		require.InDelta(t, rus, sum, 0.05, tenant) // others are rounded
	}
}

// What storing takes is counted beforehand, so that a process that ends leaves nothing out.
func TestOwnCharge(t *testing.T) {
	c := charges.NewCounter("a")
	c.Count(noon, charges.Charge{Container: "control", Kind: charges.Control, RUs: 1})
	all := stored{}
	all.put(t, take(t, c, noon, 11.5))
	require.InDelta(t, 11.5, all.sum(t, "2026-11").Rows[charges.Key{Container: "heat", Kind: charges.Control}].RUs, 1e-9)
	require.Empty(t, take(t, c, noon, 11.5), "nothing has changed")
}

// A month is stored a last time when the next one has begun, and forgotten.
func TestMonthsEnd(t *testing.T) {
	c := charges.NewCounter("a")
	december := noon.AddDate(0, 0, 8)
	c.Count(noon, charges.Charge{Tenant: "acme", RUs: 1})
	c.Count(december, charges.Charge{Tenant: "acme", RUs: 2})
	all := stored{}
	all.put(t, take(t, c, december, 0))
	require.Empty(t, take(t, c, december, 0))
	c.Count(december, charges.Charge{Tenant: "acme", RUs: 4})
	all.put(t, take(t, c, december, 0))
	require.InDelta(t, 1, all.sum(t, "2026-11").Rows[charges.Key{Tenant: "acme"}].RUs, 0)
	require.InDelta(t, 6, all.sum(t, "2026-12").Rows[charges.Key{Tenant: "acme"}].RUs, 0)
}

// A tenant that has ever new queries takes no more memory, and no RU gets lost.
func TestManySources(t *testing.T) {
	c := charges.NewCounter("a")
	for i := range 3000 {
		rus := 1.0
		if i%100 == 0 {
			rus = 50
		}
		query := fmt.Sprint(i, strings.Repeat("ü", 200))
		if rus > 1 {
			query = "dear"
		}
		c.Count(noon, charges.Charge{Tenant: "acme", Kind: charges.Queries, RUs: rus,
			Source: &charges.Source{Query: query, Agent: fmt.Sprint(i % 7)}})
	}
	docs := take(t, c, noon, 0)
	for _, d := range docs {
		require.Less(t, len(d.Body), 64<<10)
	}
	all := stored{}
	all.put(t, docs)
	sum := all.sum(t, "2026-11")
	require.InDelta(t, 30*50, sum.Breakdown("acme", 3).Queries[0].RUs, 1e-6)
	total := 0.0
	for _, d := range sum.Breakdown("acme", 3).Queries {
		total += d.RUs
	}
	require.InDelta(t, 2970+30*50, total, 1e-6)
}

func TestBadDocuments(t *testing.T) {
	require.ErrorContains(t, charges.NewSum().Add([]byte(`{"v":2}`)), "has version 2; this binary reads 1")
	require.Error(t, charges.NewSum().Add([]byte(`{`)))
	_, err := charges.DecodeHour([]byte(`{"v":9}`))
	require.ErrorContains(t, err, "version 9")
}

// The path of a request, which is a part of its request line, is kept without the rest.
func TestSourcesKeepPathsAlone(t *testing.T) {
	c := charges.NewCounter("w")
	held := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := held()
	for i := range 50 {
		line := fmt.Sprintf("/api/v1/readings?%d&%s", i, strings.Repeat("x", 1<<20))
		c.Count(noon, charges.Charge{Tenant: "acme", Container: "c", Kind: charges.Queries, RUs: 1,
			Source: &charges.Source{Agent: fmt.Sprint(i), Query: line[:len("/api/v1/readings")]}})
	}
	require.Less(t, held(), before+10<<20)
	runtime.KeepAlive(c)
}
