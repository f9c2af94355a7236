package decode_test

import (
	"testing"

	"binnacle/ingest/decode"

	"github.com/stretchr/testify/require"
)

const truck = `{"tenant":"acme","device":"truck-0042","ts":1763640000000,"values":{"latitude":82.70029,` +
	`"longitude":41.67129,"elevation":120,"velocity":13.5,"heading":328,"grade":0,"fuel_consumption":25.3,` +
	`"fuel_state":0.9,"current_load":2114,"status":5}}`

const truckLine = `readings,name=truck-0042,fleet=East,driver=Seth latitude=82.70029,longitude=41.67129,elevation=120,` +
	`velocity=13.5,heading=328,grade=0,fuel_consumption=25.3,fuel_state=0.9,current_load=2114,status=5i 1763640000000000000`

func BenchmarkJSON(b *testing.B) {
	benchmark(b, decode.New(decode.Options{}), decode.Record{Value: []byte(truck), ContentType: "application/json"})
}

func BenchmarkLine(b *testing.B) {
	benchmark(b, decode.New(decode.Options{Tenant: "acme", Lines: decode.Lines{DeviceTag: "name",
		Tags: []string{"driver"}}}),
		decode.Record{Value: []byte(truckLine), ContentType: "text/plain; format=influx"})
}

func benchmark(b *testing.B, d *decode.Decoder, r decode.Record) {
	b.ReportAllocs()
	b.SetBytes(int64(len(r.Value)))
	for b.Loop() {
		if got := d.Decode(r); len(got.Readings) != 1 {
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
