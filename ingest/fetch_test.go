package ingest_test

import (
	"context"
	"net"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/ingesttest"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// answers is a broker that answers every fetch with batches of these offsets, and then a batch of markers.
type answers struct {
	batches [][]int64
	markers []int64
}

// RoundTrip is kafka.RoundTripper.
func (a answers) RoundTrip(context.Context, net.Addr, kafka.Request) (kafka.Response, error) {
	stream := &protocol.RecordStream{}
	for _, b := range a.batches {
		stream.Records = append(stream.Records, recordsAt(b))
	}
	if len(a.markers) > 0 {
		stream.Records = append(stream.Records, &protocol.ControlBatch{BaseOffset: a.markers[0], Records: recordsAt(a.markers)})
	}
	return &fetch.Response{Topics: []fetch.ResponseTopic{{Topic: topic, Partitions: []fetch.ResponsePartition{{
		HighWatermark: 100, RecordSet: protocol.RecordSet{Version: 2, Records: stream},
	}}}}}, nil
}

func recordsAt(offsets []int64) protocol.RecordReader {
	var out []protocol.Record
	for _, o := range offsets {
		out = append(out, protocol.Record{Offset: o, Time: time.UnixMilli(past), Value: protocol.NewBytes([]byte("x"))})
	}
	return protocol.NewRecordReader(out...)
}

func TestWhatAFetchAnswers(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer answers
		want   []int64
		next   int64
	}{
		{"nothing", answers{}, nil, 5},
		{"records", answers{batches: [][]int64{{5, 6}}}, []int64{5, 6}, 7},
		{"a batch that begins before", answers{batches: [][]int64{{3, 4, 5, 6}, {7}}}, []int64{5, 6, 7}, 8},
		{"offsets without records between", answers{batches: [][]int64{{4, 9}}}, []int64{9}, 10},
		{"markers of transactions alone", answers{markers: []int64{7, 8}}, nil, 9},
		{"records, then markers", answers{batches: [][]int64{{5, 6}}, markers: []int64{7}}, []int64{5, 6}, 7},
		// The log was compacted: the batch that offset 5 lies in ends without a record. It must be got past.
		{"a batch that has no record any more", answers{batches: [][]int64{{2, 3}}}, nil, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			offsets, next, err := ingest.Fetch(context.Background(), ingest.NewBroker("unused:1", topic, c.answer), 0, 5)
			require.NoError(t, err)
			require.Equal(t, c.want, offsets)
			require.Equal(t, c.next, next)
		})
	}
}

// Markers of transactions take up offsets: the position passes them, also at the end of the log.
func TestTransactions(t *testing.T) {
	r := newRig(t, 1)
	ctx := ingesttest.Soon(t)
	producer, err := kgo.NewClient(kgo.SeedBrokers(r.broker.Addr()), kgo.DefaultProduceTopic(topic), kgo.TransactionalID("t"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer producer.Close()
	for i := range int64(3) {
		require.NoError(t, producer.BeginTransaction())
		for k := range int64(5) {
			m := r.message("d0", past+i*10+k, 1)
			require.NoError(t, producer.ProduceSync(ctx, &kgo.Record{Key: m.Key, Value: m.Value, Timestamp: m.Time}).FirstErr())
		}
		require.NoError(t, producer.EndTransaction(ctx, kgo.TryCommit))
	}
	in := r.ingester(nil)
	stop := r.run(in)
	r.settled()
	require.EqualValues(t, 18, r.committed(0))
	require.True(t, in.CaughtUp())
	stop()
	r.whole()
}
