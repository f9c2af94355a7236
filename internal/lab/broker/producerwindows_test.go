package broker_test

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"binnacle/internal/lab/broker"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// idempotent is a producer that numbers its batches, and says itself what it sends.
type idempotent struct {
	t     *testing.T
	id    int64
	epoch int16
}

func ask[R kmsg.Response](t *testing.T, b *broker.Broker, request kmsg.Request) R {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.MaxVersions(kversion.V3_0_0())) // topics by name
	require.NoError(t, err)
	defer c.Close()
	answer, err := c.Broker(0).Request(t.Context(), request)
	require.NoError(t, err)
	return answer.(R)
}

func newIdempotent(t *testing.T, b *broker.Broker) *idempotent {
	t.Helper()
	request := kmsg.NewPtrInitProducerIDRequest()
	request.ProducerID, request.ProducerEpoch = -1, -1
	answer := ask[*kmsg.InitProducerIDResponse](t, b, request)
	require.NoError(t, kerr.ErrorForCode(answer.ErrorCode))
	return &idempotent{t, answer.ProducerID, answer.ProducerEpoch}
}

// send produces one record as the batch with a number, and returns its offset.
func (p *idempotent) send(b *broker.Broker, partition, sequence int32) (offset int64, err error) {
	p.t.Helper()
	value := fmt.Sprint("record ", sequence)
	body := append([]byte{0, 0, 0, 1, byte(2 * len(value))}, value...)
	body = append(body, 0)
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, FirstTimestamp: 1, MaxTimestamp: 1, ProducerID: p.id, ProducerEpoch: p.epoch,
		FirstSequence: sequence, NumRecords: 1, Records: append([]byte{byte(2 * len(body))}, body...),
	}
	raw := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	request := kmsg.NewPtrProduceRequest()
	request.Acks, request.TimeoutMillis = -1, 1000
	to, in := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	in.Partition, in.Records = partition, raw
	to.Topic, to.Partitions = topic, []kmsg.ProduceRequestTopicPartition{in}
	request.Topics = []kmsg.ProduceRequestTopic{to}
	answer := ask[*kmsg.ProduceResponse](p.t, b, request).Topics[0].Partitions[0]
	return answer.BaseOffset, kerr.ErrorForCode(answer.ErrorCode)
}

// A broker that was killed knows what idempotent producers have sent: a batch that is sent again is in the log once,
// and the next one follows. The folder is looked at as a process that was killed leaves it.
func TestKillKeepsProducerState(t *testing.T) {
	cfg := config(t)
	b := open(t, cfg)
	long, short := newIdempotent(t, b), newIdempotent(t, b)
	for sequence := range int32(9) {
		_, err := long.send(b, 2, sequence)
		require.NoError(t, err)
	}
	_, err := short.send(b, 2, 0)
	require.NoError(t, err)
	_, err = long.send(b, 3, 0)
	require.NoError(t, err)

	killed := cfg
	killed.DataDir = filepath.Join(t.TempDir(), "killed")
	require.NoError(t, os.CopyFS(killed.DataDir, os.DirFS(cfg.DataDir)))
	for range 2 { // the second time after an orderly end
		again := open(t, killed)
		for sequence, offset := range map[int32]int64{8: 8, 6: 6, 4: 4} {
			at, err := long.send(again, 2, sequence)
			require.NoError(t, err)
			require.Equal(t, offset, at)
		}
		at, err := short.send(again, 2, 0)
		require.NoError(t, err)
		require.EqualValues(t, 9, at)
		at, err = long.send(again, 3, 0)
		require.NoError(t, err)
		require.Zero(t, at)
		_, end := offsets(t, client(t, again), 2)
		require.EqualValues(t, 10, end, "nothing stands twice")
		_, err = long.send(again, 2, 11)
		require.ErrorIs(t, err, kerr.OutOfOrderSequenceNumber)
		require.NoError(t, again.Close())
	}
	again := open(t, killed)
	at, err := long.send(again, 2, 9)
	require.NoError(t, err)
	require.EqualValues(t, 10, at)
}

// What the log has lost with the machine's power is not taken for sent.
func TestTornBatchIsForgotten(t *testing.T) {
	cfg := config(t)
	b := open(t, cfg)
	p := newIdempotent(t, b)
	for sequence := range int32(3) {
		_, err := p.send(b, 0, sequence)
		require.NoError(t, err)
	}
	torn := cfg
	torn.DataDir = filepath.Join(t.TempDir(), "torn")
	require.NoError(t, os.CopyFS(torn.DataDir, os.DirFS(cfg.DataDir)))
	segment := filepath.Join(torn.DataDir, "log", "partitions", topic+"-0", "0.dat")
	info, err := os.Stat(segment)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(segment, info.Size()-1))
	again := open(t, torn)
	at, err := p.send(again, 0, 2)
	require.NoError(t, err)
	require.EqualValues(t, 2, at)
	_, end := offsets(t, client(t, again), 0)
	require.EqualValues(t, 3, end)
}
