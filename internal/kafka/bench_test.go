package kafka_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"testing"
	"time"

	"binnacle/internal/kafka"

	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/stretchr/testify/require"
)

// BenchmarkRead is what a record of a batch of 1,000 costs from the bytes of an answer to its key and value, here and
// as kafka-go reads it.
func BenchmarkRead(b *testing.B) {
	for _, codec := range []compress.Compression{0, compress.Lz4, compress.Zstd} {
		var records []protocol.Record
		for i := range 1000 {
			value := fmt.Sprintf(`{"tenant":"acme","device":"truck-%04d","ts":%d,"values":{"temp":%d.5,"hum":40.2,"rpm":1800}}`,
				i%50, 1763640000000+i, i%30)
			records = append(records, protocol.Record{
				Time: time.UnixMilli(1763640000000), Key: protocol.NewBytes([]byte("acme/truck")),
				Value: protocol.NewBytes([]byte(value)),
			})
		}
		log := set(b, 2, codec, 0, records...)
		b.Run("here/"+codec.String(), func(b *testing.B) {
			read := kafka.LogReader(64 << 20)
			for b.Loop() {
				got, err := read(log, nil, 0)
				if err != nil || len(got.Records) != 1000 {
					b.Fatal(err, len(got.Records))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/record")
		})
		whole := append(binary.BigEndian.AppendUint32(nil, uint32(len(log))), log...)
		b.Run("kafka-go/"+codec.String(), func(b *testing.B) {
			for b.Loop() {
				var s protocol.RecordSet
				_, err := s.ReadFrom(bytes.NewReader(whole))
				require.NoError(b, err)
				for {
					r, err := s.Records.ReadRecord()
					if err == io.EOF {
						break
					}
					_, err = protocol.ReadAll(r.Key)
					require.NoError(b, err)
					_, err = protocol.ReadAll(r.Value)
					require.NoError(b, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/record")
		})
	}
}
