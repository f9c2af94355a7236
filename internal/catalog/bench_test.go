//go:build unix

package catalog_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"binnacle/internal/catalog"
	"binnacle/internal/charges/ru"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// million is a fleet of a million devices, half of them with ids of chance, each with eight tags, one of them unique.
var million = sync.OnceValue(func() []catalog.Entry {
	r := rand.New(rand.NewPCG(1, 1))
	const n = 1_000_000
	metrics := []catalog.Metric{{Name: "fuel", Kind: telemetry.Float},
		{Name: "velocity", Kind: telemetry.Float, Unit: "km/h"}}
	out := make([]catalog.Entry, n)
	for i := range out {
		id := fmt.Sprintf("truck-%07d", i)
		if i >= n/2 {
			id = fmt.Sprintf("dev-%016x", r.Uint64())
		}
		at := 1795183200000 + int64(i)
		told := 1795183200000 + int64(i/4096)*1000
		tags := []catalog.Tag{
			{Name: "device_version", Value: fmt.Sprintf("v%d", r.IntN(6))},
			{Name: "driver", Value: fmt.Sprintf("driver-%04d", r.IntN(5000))},
			{Name: "fleet", Value: []string{"East", "West", "North", "South"}[r.IntN(4)]},
			{Name: "fuel_capacity", Value: fmt.Sprintf("v%d", r.IntN(6))},
			{Name: "load_capacity", Value: fmt.Sprintf("v%d", r.IntN(6))},
			{Name: "model", Value: fmt.Sprintf("v%d", r.IntN(6))}, {Name: "site", Value: fmt.Sprintf("site-%03d", r.IntN(300))},
			{Name: "vin", Value: fmt.Sprintf("%010X", r.Uint64()&0xFFFFFFFFFF)},
		}
		of := telemetry.Source{Stream: 3, Partition: r.Int32N(32), Through: int64(i / 32)} // one record has set all
		for k := range tags {
			tags[k].Source, tags[k].Updated = of, told
		}
		out[i] = catalog.Entry{Device: id, First: at, Last: at + 7, Metrics: metrics, Tags: tags}
	}
	return out
})

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkMillion makes the pages of a million devices, reads them, and matches.
func BenchmarkMillion(b *testing.B) {
	var pages []catalog.EncodedPage
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			pages = nil
			for from := 0; from < len(million()); from += 4096 { // as an ingester writes them
				more, err := catalog.Pages(million()[from:min(from+4096, len(million()))], 1795183200000, "")
				require.NoError(b, err)
				pages = append(pages, more...)
			}
		}
		size := 0
		write, read := 0.0, 0.0
		for some := range slices.Chunk(pages, 100) { // as they are read, by their ids
			w := ru.QueryWork{Seeks: 1 + len(some)}
			for _, p := range some {
				size += len(p.Doc)
				write += ru.Stepped.Write(len(p.Doc), 1*ru.Scalar)
				w.Add(len(p.Doc))
			}
			read += ru.Stepped.Query(w)
		}
		b.ReportMetric(float64(size)/1e6, "B/device")
		b.ReportMetric(float64(len(pages)), "pages")
		b.ReportMetric(write, "write-RU")
		b.ReportMetric(read, "read-RU")
	})
	var x *catalog.Index
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			x = nil
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			x = catalog.NewIndex()
			for _, p := range pages {
				read, err := catalog.Decode(p.ID, p.Doc)
				require.NoError(b, err)
				x.Add(read)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB")
			b.ReportMetric(float64(x.Bytes())/1e6, "MB-counted")
		}
	})
	if x == nil {
		return // only writing was asked for
	}
	require.Equal(b, 1_000_000, x.Len())
	re := func(s string) func(string) bool { return regexp.MustCompile("^(?:" + s + ")$").MatchString }
	is := func(want string) func(string) bool { return func(s string) bool { return s == want } }
	for _, m := range []struct {
		name string
		catalog.Matcher
	}{
		{"fleet=South", catalog.Matcher{Of: catalog.OfName, Name: "fleet", Match: is("South"), Values: []string{"South"}}},
		{"driver!=driver-0001", catalog.Matcher{Of: catalog.OfName, Name: "driver",
			Match: func(s string) bool { return s != "driver-0001" }}},
		{"site=~site-0.*", catalog.Matcher{Of: catalog.OfName, Name: "site", Match: re("site-0.*")}},
		{"vin=~.*AB.*", catalog.Matcher{Of: catalog.OfName, Name: "vin", Match: re(".*AB.*")}},
		{"vin=~A[0-9]+B.*", catalog.Matcher{Of: catalog.OfName, Name: "vin", Match: re("A[0-9]+B.*")}},
		{"vin=one", catalog.Matcher{Of: catalog.OfName, Name: "vin", Match: is("0123456789"),
			Values: []string{"0123456789"}}},
		{"device=one", catalog.Matcher{Of: catalog.OfDevice, Match: is("truck-0000007"), Values: []string{"truck-0000007"}}},
		{"device=~truck-0000.*", catalog.Matcher{Of: catalog.OfDevice, Match: re("truck-0000.*")}},
		{"device=~.*7[0-9]{2}1", catalog.Matcher{Of: catalog.OfDevice, Match: re(".*7[0-9]{2}1")}},
		{"metric=velocity", catalog.Matcher{Of: catalog.OfMetric, Match: is("velocity")}},
	} {
		b.Run(m.name, func(b *testing.B) {
			n := 0
			began := cpu(b)
			for b.Loop() {
				n = x.Select([]catalog.Matcher{m.Matcher}, 0, x.Blocks()).Len()
			}
			b.ReportMetric((cpu(b)-began).Seconds()*1e3/float64(b.N), "CPU-ms")
			b.ReportMetric(float64(n), "devices")
		})
	}
	whole := x.Select(nil, 0, x.Blocks())
	b.Run("facet-site", func(b *testing.B) {
		for b.Loop() {
			whole.TagValues("site", 10)
		}
	})
	b.Run("cardinality", func(b *testing.B) {
		for b.Loop() {
			whole.Metrics()
			whole.Tags()
			whole.Labels()
		}
	})
}
