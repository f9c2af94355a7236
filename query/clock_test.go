package query_test

import (
	"testing"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// The querier's clock decides nothing about which chunks a read has seen: those that were stored after it are found by
// the next one, whatever the clock said at either.
func TestCacheIgnoresQuerierClock(t *testing.T) {
	for name, ahead := range map[string]struct{ first, later time.Duration }{
		"right":             {},
		"behind":            {-10 * time.Minute, -10 * time.Minute},
		"slightly ahead":    {4 * time.Minute, 4 * time.Minute},
		"ahead":             {10 * time.Minute, 10 * time.Minute},
		"far ahead":         {48 * time.Hour, 48 * time.Hour},
		"ahead and back":    {10 * time.Minute, 0},
		"behind and back":   {-10 * time.Minute, 0},
		"stepped ahead":     {0, 10 * time.Minute},
		"stepped backwards": {10 * time.Minute, -10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			w := querytest.New(t, noon)
			days(w, []string{"m1", "m2"}, 1, 2)
			step := ahead.first
			q := newQuerier(t, w, func(c *query.Config) {
				c.Now = func() time.Time { return w.Now.Add(step) }
			})
			w.Now = w.Now.Add(10 * time.Minute)
			r := query.Request{Tenant: "acme", Metrics: []string{"x"}, Range: telemetry.Range{
				From: noon.Add(-time.Hour).UnixMilli(), To: noon.Add(time.Hour).UnixMilli()}}
			seriesOf(t, q, r)
			w.Now = w.Now.Add(2 * time.Minute)
			w.Chunk(record(1000, "m1", noon.Add(5*time.Minute), float("x", 7)))
			w.Heads.Forget() // another ingester has the partition by now: it knows of no chain
			w.Now, step = w.Now.Add(40*time.Minute), ahead.later
			got, res := seriesOf(t, q, r)
			uncached, _ := seriesOf(t, newQuerier(t, w, nil), r)
			require.True(t, res.Complete)
			require.Equal(t, uncached, got)
		})
	}
}

// A chunk expires by the service's clock too: a querier with a clock that is ahead shows it as long as it is stored.
func TestCacheExpiresByServiceClock(t *testing.T) {
	w := querytest.New(t, noon)
	days(w, []string{"m1"}, 1, 2)
	w.Heads.Forget()
	docs := w.Store.Documents()
	last := docs[len(docs)-1]
	c, err := chunk.Parse(last.Doc)
	require.NoError(t, err)
	f, err := c.Frame(nil)
	require.NoError(t, err)
	c.Header.TTL, c.Header.Cut = 3600, w.Now.UnixMilli()
	expiring, err := chunk.Encode(c.Header, f)
	require.NoError(t, err)
	w.Store.Damage(last.Key, last.ID, expiring)
	q := newQuerier(t, w, func(c *query.Config) {
		c.Now = func() time.Time { return w.Now.Add(10 * time.Minute) }
	})
	r := query.Request{Tenant: "acme", Range: lastHour()}
	first, _ := seriesOf(t, q, r)
	require.NotEmpty(t, first)
	w.Now = w.Now.Add(55 * time.Minute)
	again, _ := seriesOf(t, q, r)
	require.Equal(t, first, again)
	w.Now = w.Now.Add(5 * time.Minute)
	gone, _ := seriesOf(t, q, r)
	require.NotEqual(t, first, gone)
}
