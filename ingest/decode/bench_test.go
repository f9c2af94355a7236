package decode_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/lab/fleet"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

const truck = `{"tenant":"acme","device":"truck-0042","ts":1763640000000,"values":{"latitude":82.70029,` +
	`"longitude":41.67129,"elevation":120,"velocity":13.5,"heading":328,"grade":0,"fuel_consumption":25.3,` +
	`"fuel_state":0.9,"current_load":2114,"status":5}}`

const truckLine = `readings,name=truck-0042,fleet=East,driver=Seth latitude=82.70029,longitude=41.67129,elevation=120,` +
	`velocity=13.5,heading=328,grade=0,fuel_consumption=25.3,fuel_state=0.9,current_load=2114,status=5i 1763640000000000000`

// BenchmarkJSON has simulated trucks with numbers that change: no branch is foretold because the last message took it.
func BenchmarkJSON(b *testing.B) {
	now, trucks, records := time.UnixMilli(noonMillis), [60]*fleet.Truck{}, []decode.Record(nil)
	for i := range 100 * len(trucks) {
		t := &trucks[i%len(trucks)]
		if *t == nil {
			*t = fleet.NewTruck(1, i, now)
		}
		r := telemetry.Reading{Tenant: "acme", Device: (*t).ID(), Time: now.UnixMilli(), Fields: (*t).Next(now)}
		records = append(records, decode.Record{Value: decode.AppendJSON(nil, r), ContentType: "application/json"})
		now = now.Add(time.Second / time.Duration(len(trucks)))
	}
	benchmark(b, decode.New(decode.Options{}), records...)
}

func BenchmarkLine(b *testing.B) {
	benchmark(b, decode.New(decode.Options{Tenant: "acme", Lines: decode.Lines{DeviceTag: "name",
		Tags: []string{"driver"}}}),
		decode.Record{Value: []byte(truckLine), ContentType: "text/plain; format=influx"})
}

func benchmark(b *testing.B, d *decode.Decoder, records ...decode.Record) {
	b.ReportAllocs()
	b.SetBytes(int64(len(records[0].Value)))
	for i := 0; b.Loop(); i++ {
		if got := d.Decode(records[i%len(records)]); len(got.Readings) != 1 {
			b.Fatal(got.Bad)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10, "ns/value")
}

func BenchmarkAppendJSON(b *testing.B) {
	got := decode.New(decode.Options{}).Decode(decode.Record{Value: []byte(truck)})
	require.Empty(b, got.Bad)
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = decode.AppendJSON(buf[:0], got.Readings[0])
	}
}

// BenchmarkDevices has many devices in one partition, each of which reports in its turn and has a tag of its own.
func BenchmarkDevices(b *testing.B) {
	opts := decode.Options{Tenant: "acme", Lines: decode.Lines{DeviceTag: "name", Tags: []string{"vin"}}}
	for _, format := range []struct{ name, message, kind string }{
		{"json", strings.Replace(truck, `"values"`, `"tags":{"vin":"truck-0042"},"values"`, 1), "application/json"},
		{"line", strings.Replace(truckLine, "fleet=East", "vin=truck-0042", 1), "text/plain; format=influx"},
	} {
		for _, n := range []int{1_000, 20_000, 50_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", format.name, n), func(b *testing.B) {
				d := decode.New(opts)
				r := decode.Record{
					Value: []byte(strings.ReplaceAll(format.message, "-0042", "-00000000")), ContentType: format.kind,
				}
				first, last := bytes.Index(r.Value, []byte("-0")), bytes.LastIndex(r.Value, []byte("-0"))
				one := func(i int) {
					digits := fmt.Appendf(nil, "-%08d", i%n)
					copy(r.Value[first:], digits)
					copy(r.Value[last:], digits)
					if got := d.Decode(r); len(got.Readings) != 1 {
						b.Fatal(got.Bad)
					}
				}
				before := heap()
				for i := range n {
					one(i)
				}
				kept := float64(heap()-before) / float64(n)
				b.ReportAllocs()
				began := cpu(b)
				for i := 0; b.Loop(); i++ {
					one(i)
				}
				b.ReportMetric(float64((cpu(b)-began).Nanoseconds())/float64(b.N)/10, "cpu-ns/value")
				b.ReportMetric(kept, "B/device")
			})
		}
	}
}

// heap is how many bytes live.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
