package worker_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/ingest/ingesttest"

	"github.com/stretchr/testify/require"
)

// unusual returns a record of some format that is wide, long, deep, repetitive, escaped or packed.
func unusual(rnd *rand.Rand) admit.Record {
	size := func(most int) int { return 1 + rnd.IntN(1<<rnd.IntN(most)) }
	letters := []string{"x", "é", `\"`, `\u0001`, `\u007f`, "<"}
	text := func(n int) string { return strings.Repeat(letters[rnd.IntN(len(letters))], n) }
	plain := func(n int) string { return strings.Repeat("x", n) }
	repeat := func(n int, what func(i int) string) string {
		var b strings.Builder
		for i := 0; i < n && b.Len() < 300_000; i++ {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(what(i))
		}
		return b.String()
	}
	elements, width, long := size(12), size(8), size(15)
	long = min(long, 400_000/elements+1)
	device := func(i int) string { return fmt.Sprint("d", i%(1+rnd.IntN(50))) }
	kind, value := "application/json", ""
	switch rnd.IntN(7) {
	case 0:
		value = "[" + repeat(elements, func(i int) string {
			return fmt.Sprintf(`{"tenant":"acme","device":%q,"ts":%d,"labels":{"l":"%s"},"values":{%s}}`, device(i), start+i,
				text(long), repeat(width, func(k int) string { return fmt.Sprintf(`"m%d":%d`, k, i) }))
		}) + "]"
	case 1:
		kind = "application/json; format=flat"
		value = fmt.Sprintf(`{"tenant":"acme","device":"d0","ts":%d,"%s":{%s}}`, start, plain(size(8)),
			repeat(elements, func(i int) string { return fmt.Sprintf(`"%x":1`, i) }))
	case 2:
		value = "[" + repeat(elements, func(int) string {
			return []string{"0", "{}", "[]", `"` + text(9) + `"`}[rnd.IntN(4)]
		}) + "]"
	case 3:
		kind = "text/plain; format=influx"
		value = strings.ReplaceAll(repeat(elements, func(i int) string {
			return fmt.Sprintf("%s;device=%s;l=%s f=%d %d000000", plain(size(8)), device(i), plain(long), i, start+i)
		}), ",", "\n")
		value = strings.ReplaceAll(value, ";", ",")
	case 4:
		value = fmt.Sprintf(`{"resourceMetrics":[{"resource":{"attributes":[{"key":"device","value":{"stringValue":"d0"}},`+
			`{"key":"service.name","value":{"stringValue":"%s"}}]},"scopeMetrics":[{"metrics":[{"name":"m",`+
			`"gauge":{"dataPoints":[%s]}}]}]}]}`,
			text(long), repeat(elements, func(i int) string {
				return fmt.Sprintf(`{"asInt":%d,"timeUnixNano":"%d000000","attributes":[{"key":"i","value":{"intValue":%d}}]}`,
					i, start+i, i)
			}))
	case 5:
		kind = "application/senml+json"
		value = fmt.Sprintf(`[{"bn":"d0/%s","bt":%d},%s]`, plain(size(8)), start/1000,
			repeat(elements, func(i int) string { return fmt.Sprintf(`{"n":"%d","v":1,"u":"%s"}`, i, plain(size(6))) }))
	default:
		return byReference(size(10), strings.Repeat([]string{"x", "\x01"}[rnd.IntN(2)], size(15)), start)
	}
	return admit.Record{Time: start, Value: []byte(value),
		Headers: []admit.Header{{Key: "content-type", Value: []byte(kind)}}}
}

// An unusual record of any format is stored or refused, takes a bounded multiple of its bytes and of 16 MB, ends
// nothing, and does not touch what follows it.
func FuzzUnusualRecords(f *testing.F) {
	for seed := range uint64(ingesttest.Rounds(40, 10)) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		rec := unusual(rand.New(rand.NewPCG(seed, 33)))
		w := newWorld(t, nil)
		l := w.worker(func(c *ingest.Config) {
			c.Decode = decode.Options{Tenant: "acme", Lines: decode.Lines{DeviceTag: "device"}}
		})
		ctx := ingesttest.Deadline(t)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		require.NoError(t, l.Take(ctx, rec))
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(12*(16<<20+8*len(rec.Value))))
		require.Less(t, l.Held(), int64(3*(16<<20+8*len(rec.Value))))
		require.NoError(t, l.Take(ctx, one(1, "last")))
		require.NoError(t, l.Finish(ctx))
		require.EqualValues(t, 2, l.Floor())
		w.CheckChains()
		last, readings := 0, 0
		for s := range w.Stored() {
			if readings++; s.Device == "last" {
				last++
			}
		}
		require.Equal(t, 1, last)
		require.True(t, readings > 1 || len(w.deadLetters) > 0)
		for _, d := range w.deadLetters {
			require.Zero(t, d.Record.Offset)
			require.NotContains(t, d.Bad.Detail, "the decoder has failed")
		}
	})
}
