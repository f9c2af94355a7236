package chunk_test

import (
	"testing"
	"time"

	"binnacle/binning/chunk"

	"github.com/stretchr/testify/require"
)

// benchFrame is 1,000 rows of the ten metrics of a simulated truck.
func benchFrame() chunk.Frame { return frameOf(truckPoints(1, 1000)) }

func BenchmarkEncode(b *testing.B) {
	f := benchFrame()
	h := headerOf(f)
	var doc []byte
	var err error
	b.ReportAllocs()
	from := cpuTime()
	for b.Loop() {
		if doc, err = chunk.Encode(h, f); err != nil {
			b.Fatal(err)
		}
	}
	perValue(b, from, f)
	b.ReportMetric(float64(len(doc))/float64(f.Values()), "docB/value")
	b.ReportMetric(float64(binarySize(b, doc))/float64(f.Values()), "B/value")
}

// BenchmarkEncodeCold encodes a chunk at a time between work that needs the caches itself, as between the messages of a
// pipeline.
func BenchmarkEncodeCold(b *testing.B) {
	f := benchFrame()
	h := headerOf(f)
	work := make([]byte, 64<<20)
	spent := time.Duration(0)
	for b.Loop() {
		for i := 0; i < len(work); i += 64 {
			work[i]++
		}
		from := cpuTime()
		if _, err := chunk.Encode(h, f); err != nil {
			b.Fatal(err)
		}
		spent += cpuTime() - from
	}
	b.ReportMetric(float64(spent)/float64(b.N)/float64(f.Values()), "CPU-ns/value")
}

func BenchmarkDecode(b *testing.B) {
	f := benchFrame()
	doc, err := chunk.Encode(headerOf(f), f)
	require.NoError(b, err)
	b.ReportAllocs()
	from := cpuTime()
	for b.Loop() {
		c, err := chunk.Parse(doc)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := c.Frame(nil); err != nil {
			b.Fatal(err)
		}
	}
	perValue(b, from, f)
}

// BenchmarkDecodeOne decodes one metric of ten.
func BenchmarkDecodeOne(b *testing.B) {
	f := benchFrame()
	doc, err := chunk.Encode(headerOf(f), f)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		c, err := chunk.Parse(doc)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := c.Frame([]string{"velocity"}); err != nil {
			b.Fatal(err)
		}
	}
}

func perValue(b *testing.B, from time.Duration, f chunk.Frame) {
	b.ReportMetric(float64(cpuTime()-from)/float64(b.N)/float64(f.Values()), "CPU-ns/value")
}

// BenchmarkBlock encodes and decodes blocks of 64 rows of a truck.
func BenchmarkBlock(b *testing.B) {
	var runs []chunk.Run
	var blocks [][]byte
	for i := range 20 {
		for _, f := range split(truckPoints(i, 640), 64) {
			runs = append(runs, runOf(f))
			data, err := chunk.AppendRows(nil, &runs[len(runs)-1])
			require.NoError(b, err)
			blocks = append(blocks, data)
		}
	}
	schema, err := chunk.ParseSchema(chunk.AppendSchema(nil, &runs[0]))
	require.NoError(b, err)
	one := chunk.Frame{Groups: []chunk.Group{{Times: runs[0].Times, Columns: runs[0].Columns}}}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		from, i := cpuTime(), 0
		var data []byte
		for b.Loop() {
			if data, err = chunk.AppendRows(data[:0], &runs[i%len(runs)]); err != nil {
				b.Fatal(err)
			}
			i++
		}
		perValue(b, from, one)
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		from, i := cpuTime(), 0
		for b.Loop() {
			if _, err := schema.Rows(blocks[i%len(blocks)], nil); err != nil {
				b.Fatal(err)
			}
			i++
		}
		perValue(b, from, one)
	})
}
