package chunk_test

import (
	"fmt"
	"testing"
	"time"

	"binnacle/binning/chunk"

	"github.com/stretchr/testify/require"
)

// fleetDocs are chunks of rows each of a fleet, so many that they don't stay in a core's cache.
func fleetDocs(b *testing.B, rows int) (docs [][]byte) {
	bytes, values := 0, 0
	for i := 0; bytes < 8<<20; i++ {
		for _, f := range split(truckPoints(i, 8*rows), rows) {
			doc, err := chunk.Encode(headerOf(f), f)
			require.NoError(b, err)
			docs, bytes, values = append(docs, doc), bytes+len(doc), values+f.Values()
		}
	}
	b.Logf("%d documents of %d rows, %d B each, %.3f B/value", len(docs), rows, bytes/len(docs),
		float64(bytes)/float64(values))
	return docs
}

// BenchmarkScan reads documents of a fleet as a query of one metric does, and as a listing of statistics does.
func BenchmarkScan(b *testing.B) {
	for _, rows := range []int{180, 360, 4320} {
		metric := []string{"velocity"}
		docs := fleetDocs(b, min(rows, 4320))
		for name, read := range map[string]func(doc []byte) error{
			"parse": func(doc []byte) error { _, err := chunk.Parse(doc); return err },
			"one": func(doc []byte) error {
				c, err := chunk.ParseColumns(doc, metric)
				if err == nil {
					_, err = c.Frame(nil)
				}
				return err
			},
			"all": func(doc []byte) error {
				c, err := chunk.Parse(doc)
				if err == nil {
					_, err = c.Frame(nil)
				}
				return err
			},
		} {
			b.Run(fmt.Sprintf("%s/%d", name, rows), func(b *testing.B) {
				b.ReportAllocs()
				from, i := cpuTime(), 0
				for b.Loop() {
					if err := read(docs[i%len(docs)]); err != nil {
						b.Fatal(err)
					}
					i++
				}
				b.ReportMetric(float64(cpuTime()-from)/float64(time.Microsecond)/float64(b.N), "CPU-us/doc")
			})
		}
	}
}
