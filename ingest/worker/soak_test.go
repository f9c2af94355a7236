//go:build unix

package worker_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/bins"
	"binnacle/internal/text/report"

	"github.com/stretchr/testify/require"
)

// The soak's size; `make soak` gives the one that docs/reference/performance.md quotes.
var soak = struct {
	devices, metrics *int
	interval, hold   *time.Duration
	memory, limit    *int64
	journal, spill   *bool
	growth           *string
}{
	flag.Int("soak.devices", 300, "devices of the fleet"),
	flag.Int("soak.metrics", 10, "metrics of a reading"),
	flag.Duration("soak.interval", 10*time.Second, "between two readings of a device"),
	flag.Duration("soak.hold", 5*time.Minute, "longest wait of a reading in a bin"),
	flag.Int64("soak.memory", 8<<30, "bound of what is held, in bytes"),
	flag.Int64("soak.limit", 0, "what the garbage collector keeps the process below if it can, in bytes; 0: anything"),
	flag.Bool("soak.journal", false, "rows go to a journal"),
	flag.Bool("soak.spill", false, "blocks go to a spill file when the bound is near"),
	flag.String("soak.growth", "", "fleets of TestIngestGrows, by commas, each ten times as large as the last"),
}

// next is how much of the second hold after midnight belongs to a soak: devices in step at midnight are together there.
const next = 2 * time.Minute

// A fleet reports for two holds with a midnight between them, by a clock of its own, to one Worker with stores that
// keep nothing. What is printed is flat: memory, CPU per value, and creates per minute, but for the hold that follows
// midnight, in which every device has two bins to write: that of the day that is over, and the first of the new one.
func TestSoak(t *testing.T) {
	s := newSoaker(t)
	for s.now.Before(s.until) {
		s.second()
	}
	require.Empty(t, s.deadLetters, "all of it is taken")
	before, after, later := s.creates(-*soak.hold, 0), s.creates(0, *soak.hold), s.creates(*soak.hold, *soak.hold+next)
	each := float64(*soak.devices) / soak.hold.Minutes()
	t.Logf("%d devices x %d metrics every %s, hold %s, from a hold before midnight to %s into the second one after it",
		*soak.devices, *soak.metrics, *soak.interval, *soak.hold, next)
	t.Logf("RSS: %d MB at most, %d MB of it before the first device; live: %d MB at most; counted: %d MB at most",
		slices.Max(s.rss)>>20, s.base>>20, slices.Max(s.live)>>20, slices.Max(s.held)>>20)
	if w := s.world.blocks; w != nil {
		t.Logf("journal: %.2f B a value", float64(w.taken)/float64(s.offset)/float64(*soak.metrics))
	}
	t.Logf("CPU-ns per value, minute by minute, min / median / max: %s; making the messages is %.0f of it",
		spread(s.cpu), s.making)
	t.Logf("%d creates, per minute, min / median / max: %s before midnight, %s in the hold after, %s then; %.0f are even",
		s.discard.Chunks, spread(before), spread(after), spread(later), each)
	if *soak.hold >= bins.LongHold {
		return // what is cut before midnight is full, and the others wait for it
	}
	require.Less(t, slices.Max(before), 2*each+10)
	require.Less(t, slices.Max(after), 4*each+10)
	require.Positive(t, slices.Min(before))
	require.Positive(t, slices.Min(after))
	require.Less(t, slices.Max(later), 2*each+10)
	require.Positive(t, slices.Min(later))
}

// TestIngestGrows is a benchmark: half an hour of fleets that grow tenfold goes through Workers side by side, with a
// journal, and is stored at the end. Small fleets have several rounds, and their medians count.
func TestIngestGrows(t *testing.T) {
	if *soak.growth == "" {
		t.Skip("a benchmark: see make bench-growth")
	}
	const minutes = 30
	*soak.metrics, *soak.interval, *soak.hold, *soak.journal = 2, time.Minute, 12*time.Hour, true
	rows := [][]string{{"devices", "partitions", "CPU-ns/value", "growth", "bytes/device", "modelled RU/M values"}}
	before := map[int]float64{}
	for text := range strings.SplitSeq(*soak.growth, ",") {
		devices, err := strconv.Atoi(text)
		require.NoError(t, err)
		for _, partitions := range []int{1, 2, 4} {
			*soak.devices = devices / partitions
			values := float64(*soak.devices * partitions * *soak.metrics * minutes)
			var used, held, rus []float64
			for range min(5, max(1, 300_000/devices)) {
				t.Run(text, func(t *testing.T) {
					all := make([]*soaker, partitions)
					for i := range all {
						all[i] = newSoaker(t)
					}
					side := func(do func(*soaker) error) time.Duration {
						from, errs := processTime(t), make([]error, partitions)
						var wait sync.WaitGroup
						for i, s := range all {
							wait.Go(func() { errs[i] = do(s) })
						}
						wait.Wait()
						require.NoError(t, errors.Join(errs...))
						return processTime(t) - from
					}
					empty, making, charged := heap(), 0.0, 0.0
					cpu := side(func(s *soaker) error {
						for range minutes * 60 {
							s.second()
						}
						return nil
					})
					held = append(held, float64(heap()-empty)/float64(devices))
					cpu += side(func(s *soaker) error { return s.l.Finish(t.Context()) })
					for _, s := range all {
						making, charged = making+s.making/float64(partitions), charged+s.discard.RUs
						require.Empty(t, s.deadLetters)
						require.EqualValues(t, minutes**soak.devices, s.offset)
					}
					used, rus = append(used, float64(cpu)/values-making), append(rus, charged/values*1e6)
				})
			}
			growth := "-"
			cost := median(used)
			if of := before[partitions]; of > 0 {
				growth = fmt.Sprintf("%.2f", cost/of)
			}
			before[partitions] = cost
			rows = append(rows, []string{text, strconv.Itoa(partitions), fmt.Sprintf("%.0f", cost), growth,
				fmt.Sprintf("%.0f", median(held)), fmt.Sprintf("%.0f", median(rus))})
			t.Log(rows[len(rows)-1])
		}
	}
	var out bytes.Buffer
	require.NoError(t, report.Grid(&out, rows))
	t.Logf("%d values of each device\n%s", minutes**soak.metrics, out.String())
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

type soaker struct {
	*world
	l        *ingest.Local
	midnight time.Time
	until    time.Time
	messages [][]byte // of each device, to be written over
	stamps   []int    // where each one's time stands
	offset   int64
	noise    uint32

	discard *discard
	began   int // chunks at the minute's begin
	used    time.Duration
	values  int

	perMinute map[int]float64
	cpu       []float64
	making    float64

	base            int64 // memory of the process before there was a device
	rss, live, held []int64
}

func newSoaker(t *testing.T) *soaker {
	midnight := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	s := &soaker{world: newWorld(t, nil), midnight: midnight, perMinute: map[int]float64{}}
	s.now, s.until = s.midnight.Add(-*soak.hold), s.midnight.Add(*soak.hold+next)
	if *soak.journal {
		s.blocks = &blockLog{forgets: true}
	}
	if *soak.limit > 0 {
		t.Cleanup(func() { debug.SetMemoryLimit(math.MaxInt64) })
		debug.SetMemoryLimit(*soak.limit)
	}
	discard, l := s.alone(func(c *ingest.Config) {
		if *soak.spill {
			c.Shelf = shelf(t)
		}
		c.JournalEvery = 15 * time.Minute
		c.Hold, c.MemoryBytes = *soak.hold, *soak.memory
		c.CatalogEvery, c.CommitEvery, c.Linger = 6*time.Hour, time.Second, 2*time.Second
	})
	s.l, s.discard = l, discard
	for d := range *soak.devices {
		m := fmt.Appendf(nil, `{"tenant":"acme","device":"truck-%06d","ts":`, d)
		s.stamps = append(s.stamps, len(m))
		m = append(m, `0000000000000,"values":{`...)
		for k := range *soak.metrics {
			m = fmt.Appendf(m, `"metric%03d":%03d.5,`, k, (d+37*k)%900+100)
		}
		m[len(m)-1] = '}'
		s.messages = append(s.messages, append(m, '}'))
	}
	s.base = residentBytes()
	from := processTime(t)
	tries := max(10_000, *soak.devices)
	for i := range tries {
		s.message(i % *soak.devices)
	}
	s.making = float64(processTime(t)-from) / float64(tries**soak.metrics)
	s.used = processTime(t)
	return s
}

// message returns the next one of a device: each value goes a little up or down.
func (s *soaker) message(device int) []byte {
	m := s.messages[device]
	at := s.stamps[device]
	strconv.AppendInt(m[at:at], s.now.UnixMilli(), 10)
	const first, each = len(`0000000000000,"values":{`) + len(`"metric000":`), len(`"metric000":000.0,`)
	for k := range *soak.metrics {
		s.noise = s.noise*1664525 + 1013904223
		v := m[at+first+each*k:]
		v[4] = '0' + byte(s.noise>>8%10)
		v[2] = '0' + (v[2]-'0'+byte(s.noise>>16%3)+9)%10
	}
	return m
}

// second takes what the fleet reports in a second, and does what is due.
func (s *soaker) second() {
	ctx, every := context.Background(), int(soak.interval.Seconds())
	for d := int(s.now.Unix()) % every; d < *soak.devices; d += every {
		ms := s.now.UnixMilli()
		require.NoError(s.t, s.l.Take(ctx, admit.Record{Offset: s.offset, Time: ms, Value: s.message(d)}))
		s.offset++
		s.values += *soak.metrics
	}
	require.NoError(s.t, s.l.Step(ctx))
	s.l.Committed(s.l.Floor(), s.now)
	s.now = s.now.Add(time.Second)
	if s.now.Second() == 0 {
		s.minute()
	}
}

func (s *soaker) minute() {
	used, chunks := processTime(s.t), s.discard.Chunks
	minute := int(s.now.Sub(s.midnight)/time.Minute) - 1
	s.perMinute[minute] = float64(chunks - s.began)
	s.cpu = append(s.cpu, float64(used-s.used)/float64(s.values))
	s.rss, s.live, s.held = append(s.rss, residentBytes()), append(s.live, liveBytes()), append(s.held, s.l.Held())
	s.used, s.began, s.values = used, chunks, 0
}

// creates returns how many there were in each full minute of a time from midnight on.
func (s *soaker) creates(from, to time.Duration) (out []float64) {
	for m := int(from / time.Minute); m < int(to/time.Minute); m++ {
		out = append(out, s.perMinute[m])
	}
	return out
}

// spread returns the least, the middle one and the greatest.
func spread(x []float64) string {
	sorted := slices.Sorted(slices.Values(x))
	return fmt.Sprintf("%.0f / %.0f / %.0f", sorted[0], sorted[len(sorted)/2], sorted[len(sorted)-1])
}

func processTime(t testing.TB) time.Duration {
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// liveBytes returns what the last garbage collection has found.
func liveBytes() int64 {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64())
}

// residentBytes returns the memory of the process, 0 where the system does not tell.
func residentBytes() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kb, _ := strconv.ParseInt(fields[0], 10, 64)
	return kb << 10
}
