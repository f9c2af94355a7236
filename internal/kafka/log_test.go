package kafka_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"binnacle/internal/kafka"

	"github.com/pierrec/lz4/v4"
	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const bound = 4 << 20

// set is what kafka-go writes of records, in a version and by a codec, beginning at an offset.
func set(t testing.TB, version int8, codec compress.Compression, base int64, records ...protocol.Record) []byte {
	t.Helper()
	var out bytes.Buffer
	s := protocol.RecordSet{Version: version, Attributes: protocol.Attributes(codec),
		Records: protocol.NewRecordReader(records...)}
	_, err := s.WriteTo(&out)
	require.NoError(t, err)
	b := out.Bytes()[4:]
	if version == 2 {
		binary.BigEndian.PutUint64(b, uint64(base)) // beside what the checksum is of
	}
	return b
}

// randomRecords have keys, values and headers of every kind, at offsets from base on.
func randomRecords(rnd *rand.Rand, base int64, n int) []protocol.Record {
	some := func() protocol.Bytes {
		switch rnd.IntN(8) {
		case 0:
			return nil
		case 1:
			return protocol.NewBytes([]byte{})
		}
		return protocol.NewBytes([]byte(strings.Repeat(fmt.Sprint(rnd.Uint32()), 1+rnd.IntN(20))))
	}
	out := make([]protocol.Record, n)
	for i := range out {
		out[i] = protocol.Record{Offset: base + int64(i), Time: time.UnixMilli(1730000000000 + rnd.Int64N(100_000)),
			Key: some(), Value: some()}
		for h := rnd.IntN(4); h > 0; h-- {
			out[i].Headers = append(out[i].Headers, protocol.Header{Key: fmt.Sprintf("h%d", h), Value: []byte("v")})
		}
	}
	return out
}

// plain is a record without its reader, to be compared.
func plain(offset int64, at time.Time, key, value []byte, headers []protocol.Header) string {
	return fmt.Sprintf("%d %d %q %t %q %t %v", offset, at.UnixMilli(), key, key == nil, value, value == nil, headers)
}

// byKafkaGo is how kafka-go reads a set.
func byKafkaGo(t *testing.T, set []byte) (out []string) {
	t.Helper()
	var s protocol.RecordSet
	_, err := s.ReadFrom(bytes.NewReader(append(binary.BigEndian.AppendUint32(nil, uint32(len(set))), set...)))
	require.NoError(t, err)
	for {
		r, err := s.Records.ReadRecord()
		if err == io.EOF {
			return out
		}
		require.NoError(t, err)
		key, err := protocol.ReadAll(r.Key)
		require.NoError(t, err)
		value, err := protocol.ReadAll(r.Value)
		require.NoError(t, err)
		out = append(out, plain(r.Offset, r.Time, key, value, r.Headers))
	}
}

// byFranzGo is how franz-go reads a set.
func byFranzGo(t *testing.T, set []byte) (out []string) {
	t.Helper()
	got, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{},
		&kmsg.FetchResponseTopicPartition{RecordBatches: set}, kgo.DefaultDecompressor(), nil)
	require.NoError(t, got.Err)
	for _, r := range got.Records {
		var headers []protocol.Header
		for _, h := range r.Headers {
			headers = append(headers, protocol.Header{Key: h.Key, Value: h.Value})
		}
		out = append(out, plain(r.Offset, r.Timestamp, r.Key, r.Value, headers))
	}
	return out
}

func ours(b kafka.Batch) (out []string) {
	for _, r := range b.Records {
		var headers []protocol.Header
		for _, h := range r.Headers {
			headers = append(headers, protocol.Header{Key: h.Key, Value: h.Value})
		}
		out = append(out, plain(r.Offset, time.UnixMilli(r.Time), r.Key, r.Value, headers))
	}
	return out
}

// What is read here is what kafka-go and franz-go read, by every codec, several batches after each other.
func TestLogReaderAgreesWithOtherClients(t *testing.T) {
	const seed = 7
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for codec := range compress.Compression(5) {
		t.Run(codec.String(), func(t *testing.T) {
			for range 20 {
				var all []byte
				next := int64(0)
				for range 1 + rnd.IntN(3) {
					n := 1 + rnd.IntN(30)
					all = append(all, set(t, 2, codec, next, randomRecords(rnd, next, n)...)...)
					next += int64(n)
				}
				got, err := kafka.ReadLog(bound, all, nil, 0)
				require.NoError(t, err)
				require.Nil(t, got.Refused)
				require.Equal(t, byFranzGo(t, all), ours(got))
				require.Equal(t, byKafkaGo(t, all), ours(got))
				require.Equal(t, next, got.Next)

				from := rnd.Int64N(next)
				later, err := kafka.ReadLog(bound, all, nil, from)
				require.NoError(t, err)
				require.Equal(t, ours(got)[from:], ours(later))

				cut, err := kafka.ReadLog(bound, all[:len(all)-1], nil, 0) // brokers leave off the end of the last batch
				require.NoError(t, err)
				require.Equal(t, ours(got)[:len(cut.Records)], append([]string{}, ours(cut)...))
				require.Less(t, len(cut.Records), len(got.Records))
			}
		})
	}
}

// Frames of lz4 are read however they are made: of several blocks, some of them stored as they are, with or without
// checksums and sizes. So is one that needs more room than the one before, and no damaged one is read.
func TestFramesOfLZ4(t *testing.T) {
	value := append(bytes.Repeat([]byte("telemetry "), 20_000), make([]byte, 100_000)...)
	random := rand.NewChaCha8([32]byte{7})
	_, _ = random.Read(value[200_000:])
	for name, options := range map[string][]lz4.Option{
		"with a checksum": {lz4.ChecksumOption(true)}, "without": {lz4.ChecksumOption(false)},
		"of blocks": {lz4.BlockChecksumOption(true)}, "with a size": {lz4.SizeOption(1)},
	} {
		t.Run(name, func(t *testing.T) {
			read := kafka.LogReader(bound)
			for _, n := range []int{10, 200_000, len(value)} {
				record := one(0, nil, value[:n], 0)
				if name == "with a size" {
					options = []lz4.Option{lz4.SizeOption(uint64(len(record)))}
				}
				var frame bytes.Buffer
				w := lz4.NewWriter(&frame)
				require.NoError(t, w.Apply(append(options, lz4.BlockSizeOption(lz4.Block64Kb))...))
				_, err := w.Write(record)
				require.NoError(t, err)
				require.NoError(t, w.Close())
				for range 3 {
					got, err := read(batch{count: 1, attributes: 3, records: frame.Bytes()}.bytes(), nil, 0)
					require.NoError(t, err)
					require.Len(t, got.Records, 1)
					require.True(t, bytes.Equal(value[:n], got.Records[0].Value))
				}
				for _, at := range []int{5, 12, frame.Len() - 1} {
					got, err := read(batch{count: 1, attributes: 3, records: frame.Bytes()[:at]}.bytes(), nil, 0)
					require.NoError(t, err)
					require.NotNil(t, got.Refused, at)
				}
			}
		})
	}
}

// messageV0 is a message as Kafka 0.8 kept it.
func messageV0(offset int64, attributes int8, key, value []byte) []byte {
	m := kmsg.MessageV0{Offset: offset, Attributes: attributes, Key: key, Value: value}
	b := m.AppendTo(nil)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[12:], crc32.ChecksumIEEE(b[16:]))
	return b
}

// A log with messages from before Kafka 0.11 is read up to them, and not behind them.
func TestOldFormatsAreRefused(t *testing.T) {
	new := batch{base: 3, count: 1, records: one(0, nil, []byte("new"), 0)}.bytes()
	for version, old := range [][]byte{
		messageV0(4, 0, []byte("k"), []byte("old")), set(t, 1, 0, 0, protocol.Record{Offset: 4}),
	} {
		binary.BigEndian.PutUint64(old, 4)
		got, err := kafka.ReadLog(bound, append(slices.Clone(new), old...), nil, 3)
		require.NoError(t, err)
		require.Len(t, got.Records, 1)
		require.EqualValues(t, 4, got.Next)
		_, err = kafka.ReadLog(bound, append(slices.Clone(old), new...), nil, 4)
		require.ErrorContains(t, err, fmt.Sprintf("the message at offset 4 is in format %d", version))
		require.ErrorContains(t, err, "copy the topic")
		b, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic))
		require.NoError(t, err)
		t.Cleanup(b.Close)
		answer(b, func(p *kmsg.FetchResponseTopicPartition) { p.RecordBatches = old })
		_, err = connect(t, kafka.Config{Brokers: b.ListenAddrs()}).Topic(topic).Fetch(t.Context(), 0, 4)
		require.ErrorContains(t, err, fmt.Sprintf("fetch %s/0 from offset 4: the message", topic))
	}
}

// answer makes a broker answer the next fetch with a partition.
func answer(b *kfake.Cluster, with func(*kmsg.FetchResponseTopicPartition)) {
	b.ControlKey(kmsg.Fetch.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		res := r.ResponseKind().(*kmsg.FetchResponse)
		p := kmsg.NewFetchResponseTopicPartition()
		with(&p)
		of := kmsg.NewFetchResponseTopic()
		of.Topic, of.Partitions = topic, []kmsg.FetchResponseTopicPartition{p}
		res.Topics = append(res.Topics, of)
		return res, nil, true
	})
}

// batch is a record batch as somebody made it by hand.
type batch struct {
	base       int64
	last       int32
	attributes int16
	producer   int64
	count      int32
	epoch      int32
	records    []byte
}

func (b batch) bytes() []byte {
	r := kmsg.RecordBatch{
		FirstOffset: b.base, PartitionLeaderEpoch: b.epoch, Magic: 2, Attributes: b.attributes, LastOffsetDelta: b.last,
		FirstTimestamp: 1730000000000, MaxTimestamp: 1730000000777, ProducerID: b.producer, ProducerEpoch: -1,
		FirstSequence: -1,
		NumRecords:    b.count, Records: b.records,
	}
	out := r.AppendTo(nil)
	binary.BigEndian.PutUint32(out[8:], uint32(len(out)-12))
	binary.BigEndian.PutUint32(out[17:], crc32.Checksum(out[21:], crc32.MakeTable(crc32.Castagnoli)))
	return out
}

// one is a record with a value and no more.
func one(delta int64, key, value []byte, headers int) []byte {
	body := binary.AppendVarint([]byte{0}, 0)
	body = binary.AppendVarint(body, delta)
	for _, part := range [][]byte{key, value} {
		if part == nil {
			body = binary.AppendVarint(body, -1)
			continue
		}
		body = append(binary.AppendVarint(body, int64(len(part))), part...)
	}
	body = binary.AppendVarint(body, int64(headers))
	body = append(body, bytes.Repeat([]byte{0, 1}, headers)...) // keys that are empty, values that are none
	return append(binary.AppendVarint(nil, int64(len(body))), body...)
}

func pack(t testing.TB, codec compress.Compression, plain []byte) []byte {
	t.Helper()
	if codec == 0 {
		return plain
	}
	var out bytes.Buffer
	w := codec.Codec().NewWriter(&out)
	_, err := w.Write(plain)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

// A batch that would take more memory than a batch may is skipped and reported, whatever makes it large; reading goes
// on behind it, and memory stays bounded meanwhile.
func TestDecompressionBombIsRefused(t *testing.T) {
	zeros := one(0, nil, make([]byte, 16<<20), 0)
	bombs := map[string]batch{
		"headers": {count: 1, attributes: 1, records: pack(t, compress.Gzip, one(0, nil, nil, 1<<20))},
		"records": {count: 1 << 20, last: 1<<20 - 1, attributes: 1,
			records: pack(t, compress.Gzip, bytes.Repeat(one(0, nil, nil, 0), 1<<20))},
		"a count":                   {count: 1 << 30, last: 1<<30 - 1, records: one(0, nil, nil, 0)},
		"a long record, not packed": {count: 1, records: zeros[:9<<20]},
	}
	for codec := compress.Gzip; codec <= compress.Zstd; codec++ {
		bombs[codec.String()] = batch{count: 1, attributes: int16(codec), records: pack(t, codec, zeros)}
	}
	after := batch{count: 1, records: one(0, nil, []byte("after"), 0)}
	for name, bomb := range bombs {
		t.Run(name, func(t *testing.T) {
			bomb.base, after.base = 100, 101+int64(bomb.last)
			packed := bomb.bytes()
			log := append(set(t, 2, 0, 99, protocol.Record{Value: protocol.NewBytes([]byte("before"))}), packed...)
			log = append(log, after.bytes()...)
			var began, ended runtime.MemStats
			runtime.ReadMemStats(&began)
			var values []string
			var refused *kafka.Refusal
			for next := int64(99); next <= after.base; {
				got, err := kafka.ReadLog(bound, log, nil, next)
				require.NoError(t, err)
				require.Greater(t, got.Next, next)
				for _, r := range got.Records {
					values = append(values, string(r.Value))
				}
				if got.Refused != nil {
					require.Nil(t, refused, "it is refused once")
					require.EqualValues(t, 100, next)
					refused = got.Refused
				}
				next = got.Next
			}
			runtime.ReadMemStats(&ended)
			require.Equal(t, []string{"before", "after"}, values)
			require.NotNil(t, refused)
			require.Equal(t, kafka.Refusal{
				First: 100, Through: 100 + int64(bomb.last), Time: 1730000000777, Bytes: len(packed),
				TooLarge: true, Why: refused.Why,
			}, *refused)
			require.Less(t, ended.TotalAlloc-began.TotalAlloc, uint64(64<<20), "bytes allocated by reading it three times")
		})
	}
}

// Damage that the checksum does not show is the sender's own: it is skipped. Damage that it shows is read again.
func TestDamagedBatches(t *testing.T) {
	good := one(0, nil, []byte("x"), 0)
	for name, b := range map[string]batch{
		"a record that is cut off":      {count: 1, records: good[:len(good)-1]},
		"fewer records than it says":    {count: 2, last: 1, records: good},
		"a negative count":              {count: -1, records: good},
		"more records than bytes":       {count: 1000, records: good},
		"offsets that go back":          {count: 2, last: 1, records: append(one(1, nil, nil, 0), one(0, nil, nil, 0)...)},
		"an offset behind the last one": {count: 1, records: one(5, nil, nil, 0)},
		"what is not gzip":              {count: 1, attributes: 1, records: good},
		"what is not snappy":            {count: 1, attributes: 2, records: good},
		"what is not lz4":               {count: 1, attributes: 3, records: good},
		"what is not zstd":              {count: 1, attributes: 4, records: good},
		"a codec that is unknown":       {count: 1, attributes: 6, records: good},
	} {
		t.Run(name, func(t *testing.T) {
			b.base = 7
			got, err := kafka.ReadLog(bound, b.bytes(), nil, 7)
			require.NoError(t, err)
			require.NotNil(t, got.Refused)
			require.False(t, got.Refused.TooLarge)
			require.Equal(t, [2]int64{7, 7 + int64(b.last)}, [2]int64{got.Refused.First, got.Refused.Through})
			require.Equal(t, got.Refused.Through+1, got.Next)
		})
	}
	flipped := batch{count: 1, records: good}.bytes()
	flipped[len(flipped)-2] ^= 1
	_, err := kafka.ReadLog(bound, flipped, nil, 0)
	require.ErrorIs(t, err, kafka.ErrChecksum)
	got, err := kafka.ReadLog(bound, append(batch{count: 1, records: good}.bytes(), flipped...), nil, 0)
	require.NoError(t, err)
	require.Len(t, got.Records, 1, "what comes before the damage is read")
}

// A batch of which the log's compaction left only the head takes up its offsets.
func TestCompactedBatch(t *testing.T) {
	got, err := kafka.ReadLog(bound, batch{base: 3, last: 4}.bytes(), nil, 5)
	require.NoError(t, err)
	require.Equal(t, kafka.Batch{Next: 8}, got)
}

// A reader that begins in the middle of an unreadable batch gets only the rest of it.
func TestDamagedRecordRefusesRestOfBatch(t *testing.T) {
	b := batch{base: 7, last: 9, count: 10, attributes: 6, records: one(0, nil, []byte("x"), 0)}
	got, err := kafka.ReadLog(bound, b.bytes(), nil, 12)
	require.NoError(t, err)
	require.NotNil(t, got.Refused)
	require.Equal(t, [2]int64{12, 16}, [2]int64{got.Refused.First, got.Refused.Through})
	require.EqualValues(t, 17, got.Next)
}

// A batch that says that it ends before it begins has its first record at least: reading goes on behind that.
func TestBatchWithNegativeOffsetDelta(t *testing.T) {
	b := batch{base: 7, last: -3, count: 1, records: one(0, nil, []byte("x"), 0)}
	got, err := kafka.ReadLog(bound, b.bytes(), nil, 7)
	require.NoError(t, err)
	require.Nil(t, got.Refused)
	require.Len(t, got.Records, 1)
	require.EqualValues(t, 8, got.Next)
}

// A broker without transactions has no last stable offset: what may be read ends at the high watermark.
func TestBrokerWithoutLastStableOffset(t *testing.T) {
	b, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic))
	require.NoError(t, err)
	t.Cleanup(b.Close)
	for stable, end := range map[int64]int64{-1: 9, 0: 0, 4: 4} {
		answer(b, func(p *kmsg.FetchResponseTopicPartition) {
			p.HighWatermark, p.LastStableOffset, p.LogStartOffset = 9, stable, 2
		})
		got, err := connect(t, kafka.Config{Brokers: b.ListenAddrs()}).Topic(topic).Fetch(t.Context(), 0, 3)
		require.NoError(t, err)
		require.Equal(t, kafka.Batch{Next: 3, First: 2, End: end}, got)
	}
}

// Transactions of two producers, one of them aborted and followed by another of the same producer.
func TestAbortedTransactionsAreSkipped(t *testing.T) {
	const transactional, control = 0x10, 0x30
	marker := func(commit byte) []byte { return one(0, []byte{0, 0, 0, commit}, []byte{0, 0, 0, 0, 0, 0}, 0) }
	var log []byte
	for i, b := range []batch{
		{producer: 1, attributes: transactional, records: one(0, nil, []byte("aborted"), 0)},
		{producer: 2, attributes: transactional, records: one(0, nil, []byte("committed"), 0)},
		{producer: -1, records: one(0, nil, []byte("plain"), 0)},
		{producer: 1, attributes: transactional, records: one(0, nil, []byte("aborted too"), 0)},
		{producer: 1, attributes: control, records: marker(0)},
		{producer: 1, attributes: transactional, records: one(0, nil, []byte("second try"), 0)},
		{producer: 2, attributes: control, records: marker(1)},
		{producer: 1, attributes: control, records: marker(1)},
	} {
		b.base, b.count = int64(i), 1
		log = append(log, b.bytes()...)
	}
	aborted := []kafka.Aborted{kafka.AbortedBy(1, 0)}
	got, err := kafka.ReadLog(bound, log, aborted, 0)
	require.NoError(t, err)
	var values []string
	for _, r := range got.Records {
		values = append(values, string(r.Value))
	}
	require.Equal(t, []string{"committed", "plain", "second try"}, values)
	require.EqualValues(t, 8, got.Next, "markers take up offsets, at the end as well")
}

// Many batches that unpack to much each are not all unpacked at once.
func TestFetchUnpacksBatchByBatch(t *testing.T) {
	var log []byte
	packed := pack(t, compress.Gzip, one(0, nil, make([]byte, 3<<20), 0))
	for i := range int64(50) {
		log = append(log, batch{base: i, count: 1, attributes: 1, records: packed}.bytes()...)
	}
	next, rounds := int64(0), 0
	for ; next < 50; rounds++ {
		got, err := kafka.ReadLog(bound, log, nil, next)
		require.NoError(t, err)
		require.Greater(t, got.Next, next)
		require.Less(t, got.Bytes, 16<<20+bound+1<<20)
		next = got.Next
	}
	require.Greater(t, rounds, 5)
}

// Whatever is in a log, reading it ends, stays within the bound, and neither goes back nor makes offsets up.
func FuzzLog(f *testing.F) {
	f.Add([]byte("x"), int16(0), int32(1), int32(0), int64(0))
	f.Add(one(0, nil, []byte("value"), 2), int16(0), int32(1), int32(0), int64(0))
	for codec := compress.Gzip; codec <= compress.Zstd; codec++ {
		f.Add(pack(f, codec, one(0, []byte("k"), []byte("value"), 1)), int16(codec), int32(1), int32(3), int64(2))
	}
	f.Fuzz(func(t *testing.T, records []byte, attributes int16, count, last int32, from int64) {
		if from < 0 || from > 1<<40 {
			return
		}
		by := batch{base: max(0, from-1), attributes: attributes, count: count, last: last, records: records}.bytes()
		for _, log := range [][]byte{records, by, append(by, records...), messageV0(from, int8(attributes), nil, records)} {
			got, err := kafka.ReadLog(1<<20, log, nil, from)
			if err != nil {
				continue
			}
			require.GreaterOrEqual(t, got.Next, from)
			require.Less(t, got.Bytes, 18<<20)
			at := from - 1
			for _, r := range got.Records {
				require.Greater(t, r.Offset, at)
				at = r.Offset
			}
			require.Less(t, at, max(got.Next, 1))
			if got.Refused != nil {
				require.Empty(t, got.Records)
				require.Equal(t, got.Refused.Through+1, got.Next)
				require.GreaterOrEqual(t, got.Refused.First, from)
			}
		}
	})
}
