//go:build unix

package worker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"binnacle/binning"
	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/internal/lab/fleet"
	"binnacle/internal/store"

	"github.com/stretchr/testify/require"
)

// trucks returns n messages of ten metrics, from a fleet that reports once a second.
func trucks(fleetSize, n int) (log []admit.Record) {
	c := newConvoy(fleetSize, time.UnixMilli(start).Add(time.Minute), time.Second)
	for len(log) < n {
		log = append(log, c.next()...)
	}
	return log
}

// BenchmarkWorker takes a million messages of a thousand trucks: feeding alone, and with cutting and encoding into a
// store that keeps nothing, without and with a journal that keeps nothing either.
func BenchmarkWorker(b *testing.B) {
	const messages = 1_000_000
	log := trucks(1000, messages)
	for _, c := range []struct {
		name          string
		hold          time.Duration
		blocks        *blockLog
		cut, finishes bool
	}{
		{name: "feed"},
		{name: "journal=off", cut: true},
		{name: "journal=on", cut: true, blocks: &blockLog{forgets: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			ctx, used, bytes := context.Background(), time.Duration(0), 0
			for b.Loop() {
				w := newWorld(b, nil)
				w.blocks, w.now = c.blocks, time.UnixMilli(start).Add(time.Minute)
				discard, l := w.alone(func(c *ingest.Config) {
					c.Hold, c.Linger, c.CatalogEvery, c.CommitEvery = 0, 2*time.Second, 6*time.Hour, time.Second
					c.MemoryBytes = 4 << 30
				})
				from := processTime(b)
				for i, r := range log {
					w.now = time.UnixMilli(r.Time)
					if err := l.Take(ctx, r); err != nil {
						b.Fatal(err)
					}
					if c.cut && i%256 == 0 {
						require.NoError(b, l.Step(ctx))
						l.Committed(l.Floor(), w.now)
					}
				}
				if c.cut {
					require.NoError(b, l.Finish(ctx))
				}
				used, bytes = used+processTime(b)-from, discard.Bytes
			}
			const values = messages * valuesEach
			b.ReportMetric(float64(used)/float64(b.N)/values, "CPU-ns/value")
			if c.cut {
				b.ReportMetric(float64(bytes)/values, "B/value")
			}
			if c.blocks != nil {
				b.ReportMetric(float64(c.blocks.taken)/float64(b.N)/values, "journal-B/value")
			}
		})
	}
}

// held is a worker that holds the readings of trucks, each of which reports every ten seconds.
type held struct {
	*world
	l      *ingest.Local
	values int
	decode time.Duration // CPU of decoding what it holds
}

// A day begins, and devices report for some hours; what they say is in a journal at the end.
func holding(b *testing.B, devices int, hours float64, change func(*ingest.Config)) *held {
	ctx, day := context.Background(), time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	h := &held{world: withJournal(newWorld(b, nil))}
	_, h.l = h.alone(func(c *ingest.Config) {
		c.Hold, c.JournalEvery, c.MemoryBytes, c.CommitEvery = 0, 0, 4<<30, time.Second
		change(c)
	})
	decoder := decode.New(decode.Options{})
	for c := newConvoy(devices, day, 10*time.Second); h.now.Before(day.Add(time.Duration(hours * float64(time.Hour)))); {
		records := c.next()
		h.now = time.UnixMilli(records[0].Time)
		from := processTime(b)
		for _, r := range records {
			decoder.Decode(decode.Record{Value: r.Value, Timestamp: r.Time})
		}
		h.decode += processTime(b) - from
		for _, r := range records {
			require.NoError(b, h.l.Take(ctx, r))
		}
		require.NoError(b, h.l.Step(ctx))
		h.values += valuesEach * len(records)
	}
	h.l.Flush()
	for h.l.Loose() {
		require.NoError(b, h.l.Step(ctx))
	}
	h.commit, h.meta = h.l.Floor(), h.l.JournalCommit()
	require.Zero(b, h.commit)
	return h
}

// BenchmarkRestart has a worker load what another one held: 500 devices of ten metrics that have reported for six
// hours. Beside it stands what decoding their messages takes.
func BenchmarkRestart(b *testing.B) {
	const devices, hours = 500, 6
	h := holding(b, devices, hours, func(*ingest.Config) {})
	for _, spilled := range []bool{false, true} {
		b.Run(fmt.Sprintf("spilled=%v", spilled), func(b *testing.B) {
			used := time.Duration(0)
			for b.Loop() {
				from := processTime(b)
				_, l := h.alone(func(c *ingest.Config) {
					c.Hold, c.MemoryBytes = 0, 4<<30
					if spilled {
						c.MemoryBytes, c.Shelf = 8<<20, shelf(b)
					}
				})
				require.Equal(b, h.l.Position(), l.Position())
				used += processTime(b) - from
			}
			each := float64(used) / float64(b.N) / float64(h.values)
			b.ReportMetric(each, "CPU-ns/value")
			b.ReportMetric(each*100_000*10*360*6/1e9, "CPU-s-for-100k-devices")
			b.ReportMetric(float64(h.decode)/float64(h.values)/each, "x-cheaper-than-decoding")
			b.ReportMetric(float64(h.blocks.taken)/float64(h.values), "journal-B/value")
		})
	}
}

// BenchmarkHeads asks a worker for what it holds of devices that have reported every ten seconds for twelve hours: of
// one device all metrics, and of all devices one metric.
func BenchmarkHeads(b *testing.B) {
	const devices, hours = 100, 12
	one := fleet.NewTruck(1, 0, time.Time{}).ID()
	for _, spilled := range []bool{false, true} {
		h := holding(b, devices, hours, func(c *ingest.Config) {
			if spilled {
				c.MemoryBytes, c.Shelf = 3<<20, shelf(b)
			}
		})
		for _, c := range []struct {
			name    string
			request store.HeadRequest
			rows    int
		}{
			{"device", store.HeadRequest{Devices: []string{one}}, h.values / devices / valuesEach},
			{"metric", store.HeadRequest{Metrics: []string{"velocity"}}, h.values / valuesEach},
		} {
			c.request.Tenant, c.request.Range = "acme", binning.All
			b.Run(fmt.Sprintf("%s/spilled=%v", c.name, spilled), func(b *testing.B) {
				from := processTime(b)
				for b.Loop() {
					rows := 0
					for r, err := range h.l.HeadRead(c.request).Rows {
						require.NoError(b, err)
						for _, g := range r.Frame.Groups {
							rows += len(g.Times)
						}
					}
					require.Equal(b, c.rows, rows)
				}
				used := float64(processTime(b)-from) / float64(b.N)
				b.ReportMetric(used/1e6, "CPU-ms")
				b.ReportMetric(used/float64(c.rows), "CPU-ns/row")
			})
		}
	}
}
