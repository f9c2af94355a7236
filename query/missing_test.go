package query_test

import (
	"context"
	"testing"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/control"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// without returns a querier with a store that never returns one chunk of a chain.
func without(t *testing.T, w *querytest.World, number uint32) *query.Querier {
	return newQuerier(t, w, func(c *query.Config) {
		c.Log = w.Log
		c.Reader = &altered{w.Store, func(doc []byte) []byte {
			p, err := chunk.Parse(doc)
			require.NoError(t, err)
			if p.Header.ID.Number == number {
				return nil
			}
			return doc
		}}
	})
}

// An answer that may lack a stored chunk says so, also when it stops early, is of a part of a day, or lacks the last
// one (R4).
func TestMissingChunkIsIncomplete(t *testing.T) {
	day := telemetry.DayOf(noon.UnixMilli())
	whole := telemetry.Range{From: day.Start(), To: day.End()}
	part := telemetry.Range{From: noon.Add(-time.Minute).UnixMilli(), To: noon.Add(time.Hour).UnixMilli()}
	const gap = "the store answers 2 of 3 chunks of device m1, day 20261120"
	for _, c := range []struct {
		name     string
		without  uint32
		r        telemetry.Range
		limit    int
		desc     bool
		complete bool
	}{
		{"between others", 1, whole, 0, false, false},
		{"between others, under a limit", 1, whole, 2, false, false},
		{"between others, backwards under a limit", 1, whole, 2, true, false},
		{"behind the limit, as far as can be known", 1, whole, 1, false, false},
		{"of a part of the day", 1, part, 0, false, false},
		{"of a part of the day, under a limit", 1, part, 2, false, false},
		{"the last one", 2, whole, 0, false, false},
		{"the last one, of a part of the day", 2, part, 0, false, false},
		{"the last one, backwards under a limit", 2, whole, 1, true, false},
		{"the last one, of a part of the day, backwards under a limit", 2, part, 1, true, false},
		{"the last one, behind the limit", 2, part, 1, false, true},
		{"the first one", 0, whole, 1, false, false},
		{"the last one, outside the range", 2, telemetry.Range{From: part.From, To: noon.Add(90 * time.Second).UnixMilli()},
			0, false, true},
		{"none", 9, part, 0, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := querytest.New(t, noon)
			w.Log.Set(9)
			w.Heads.Set(head(0, 1, 9, 0))
			for i := range 3 {
				w.Chunk(record(int64(i), "m1", noon.Add(time.Duration(i)*time.Minute), float("x", float64(i))))
			}
			q := without(t, w, c.without)
			for _, devices := range [][]string{{"m1"}, nil} {
				r := query.Request{Tenant: "acme", Devices: devices, Range: c.r, Limit: c.limit, Descending: c.desc}
				_, res := ask(t, q, r)
				if devices == nil && c.limit > 0 && c.complete {
					continue // a day is read at once: what is behind the limit is missing, too
				}
				require.Equal(t, c.complete, res.Complete, "%v: %v", devices, res.Incomplete)
				if !c.complete {
					require.Equal(t, []string{gap}, res.Incomplete)
				}
			}
			r := query.Request{Tenant: "acme", Range: c.r}
			res, err := q.Series(t.Context(), r, func(query.Curve) error { return nil })
			require.NoError(t, err)
			if c.limit == 0 {
				require.Equal(t, c.complete, res.Complete, "series: %v", res.Incomplete)
			}
		})
	}
}

// A replica that lags shows a chunk later than it was stored, and no session token makes it hurry. The ingester that
// stored it shows its tail: what the first read lacks is read again, and as long as it lacks, the answer says so.
func TestLaggingReplicaIsReread(t *testing.T) {
	w := querytest.New(t, noon)
	w.Log.Set(9)
	w.Heads.Set(head(0, 1, 9, 0))
	for i := range 3 {
		w.Chunk(record(int64(i), "m1", noon.Add(time.Duration(i)*time.Minute), float("x", float64(i))))
	}
	lags := 0 // how often the last chunk does not show yet
	q := newQuerier(t, w, func(c *query.Config) {
		c.Log, c.CacheBytes = w.Log, -1
		c.Reader = &altered{w.Store, func(doc []byte) []byte {
			p, err := chunk.Parse(doc)
			require.NoError(t, err)
			if p.Header.ID.Number < 2 || lags == 0 {
				return doc
			}
			lags--
			return nil
		}}
	})
	for _, devices := range [][]string{{"m1"}, nil} {
		r := query.Request{Tenant: "acme", Devices: devices, Range: always}
		lags = 1
		rows, res := ask(t, q, r)
		require.Equal(t, 1, res.Stats.Reread)
		if devices == nil {
			require.True(t, res.Complete, "%v", res.Incomplete)
			require.Len(t, rows, 3, "by the second read")
		} else { // rows behind it may be out already
			require.Equal(t, []string{"the store returned a chunk of device m1, day 20261120, too late: repeat the query"},
				res.Incomplete)
		}
		lags = 1000
		rows, res = ask(t, q, r)
		require.False(t, res.Complete)
		require.Equal(t, []string{"the store answers 2 of 3 chunks of device m1, day 20261120"}, res.Incomplete)
		require.Len(t, rows, 2)
		lags = 0
		rows, res = ask(t, q, r)
		require.True(t, res.Complete, "%v", res.Incomplete)
		require.Len(t, rows, 3)
	}
}

// What nobody remembers can't be required, and what has expired is not.
func TestChunksOutsideRangeAreNotRequired(t *testing.T) {
	w := querytest.New(t, noon)
	w.Log.Set(9)
	w.Heads.Set(head(0, 1, 9, 0))
	for i := range 3 {
		w.Chunk(record(int64(i), "m1", noon.Add(time.Duration(i)*time.Minute), float("x", float64(i))))
	}
	r := query.Request{Tenant: "acme", Devices: []string{"m1"}, Range: always}
	_, res := ask(t, without(t, w, 2), r)
	require.False(t, res.Complete)
	w.Heads.Forget()
	_, res = ask(t, without(t, w, 2), r)
	require.True(t, res.Complete, "%v", res.Incomplete)
}

// dropping is a store with a container that is dropped after some documents.
type dropping struct {
	store.Reader
	after int // documents, -1 never
}

func (d *dropping) Scan(ctx context.Context, s store.Scan, yield func([]byte) error) (store.Usage, error) {
	n := 0
	usage, err := d.Reader.Scan(ctx, s, func(doc []byte) error {
		if n == d.after {
			return store.ErrNoContainer
		}
		n++
		return yield(doc)
	})
	usage.Documents = n
	return usage, err
}

// A container that vanishes while it is read, or that was there before, is no end of the data, unless it has expired.
func TestContainerVanishes(t *testing.T) {
	w := querytest.New(t, noon)
	w.Tenant("acme")
	days(w, []string{"m1"}, 3, 2)
	reader := &dropping{w.Store, 0}
	q := newQuerier(t, w, func(c *query.Config) { c.Reader = reader })
	request := query.Request{Tenant: "acme", Devices: []string{"m1"}, Range: always}
	for _, request.Devices = range [][]string{{"m1"}, nil} {
		reader.after = 0
		fresh := newQuerier(t, w, func(c *query.Config) { c.Reader = reader })
		rows, res := ask(t, fresh, request)
		require.Empty(t, rows)
		require.False(t, res.Complete, "it may not be made yet, but heads know of chunks in it")

		reader.after = 4
		_, _, err := tryAsk(t, fresh, request)
		require.ErrorIs(t, err, query.ErrUnavailable, "it goes while it is read")

		reader.after = -1
		rows, _ = ask(t, q, request)
		require.Len(t, rows, 18)
		reader.after = 0
		_, _, err = tryAsk(t, q, request)
		require.ErrorIs(t, err, query.ErrUnavailable, "it was there")
	}
	w.Heads.Forget()
	w.Heads.OnCall(func() {
		v, err := w.Directory.Refresh(t.Context())
		require.NoError(t, err)
		_, err = w.Directory.Mark(t.Context(), v.Month("chunks-2026-11"), control.MonthExpired)
		require.NoError(t, err)
	})
	d := control.NewDirectory(control.DirectoryConfig{Documents: w.Documents, Now: func() time.Time { return w.Now }})
	_, err := d.Refresh(t.Context())
	require.NoError(t, err)
	reader.after = 4
	q = newQuerier(t, w, func(c *query.Config) { c.Reader, c.Directory = reader, d })
	_, _, err = tryAsk(t, q, request)
	require.NoError(t, err)
}

// A map that was read before a container was asked for is read again when a head knows it.
func TestHeadContainersRefreshSnapshot(t *testing.T) {
	w := querytest.New(t, noon)
	w.Heads.Set(head(0, 1, 9, 0))
	w.Tenant("acme")
	q, d := elsewhere(t, w)
	_, err := d.Refresh(t.Context())
	require.NoError(t, err)
	read := d.Snapshot().ReadAt
	w.Now = w.Now.Add(time.Second)
	w.Chunk(record(1, "m1", noon.AddDate(-1, 0, 0), float("x", 1)))
	rows, _ := ask(t, q, query.Request{Tenant: "acme", Range: lastHour()})
	require.Empty(t, rows)
	require.Equal(t, read, d.Snapshot().ReadAt, "of another month")
	rows, _ = ask(t, q, query.Request{Tenant: "acme", Range: always})
	require.Len(t, rows, 1)
	require.Greater(t, d.Snapshot().ReadAt, read)
}
