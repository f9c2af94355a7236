package worker_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/ingest/ingesttest"

	"github.com/klauspost/compress/s2"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
)

func field(b []byte, number protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), v)
}

// byReference is a record of remote write 2.0 with series of device d0 that all have three labels of the same text, by
// reference, and one of their own.
func byReference(series int, text string, at int64) admit.Record {
	var body []byte
	symbols := []string{"", "__name__", "m", "tenant", "acme", "instance", "d0", "a", "b", "c", "k", text}
	first := len(symbols)
	for i := range series {
		symbols = append(symbols, fmt.Sprint(i))
	}
	for _, s := range symbols {
		body = field(body, 4, []byte(s))
	}
	for i := range series {
		var refs []byte
		for _, r := range []int{1, 2, 3, 4, 5, 6, 7, 11, 8, 11, 9, 11, 10, first + i} {
			refs = binary.AppendUvarint(refs, uint64(r))
		}
		sample := binary.LittleEndian.AppendUint64([]byte{1<<3 | 1}, math.Float64bits(1))
		sample = binary.AppendUvarint(append(sample, 2<<3), uint64(at))
		body = field(body, 5, field(field(nil, 1, refs), 2, sample))
	}
	return admit.Record{Time: start, Value: s2.EncodeSnappyBest(nil, body), Headers: []admit.Header{
		{Key: "content-type", Value: []byte("application/x-protobuf;proto=io.prometheus.write.v2.Request")}}}
}

// labelled is a message of device d0 with one label.
func labelled(offset int64, label string) admit.Record {
	return admit.Record{Offset: offset, Time: start, Value: fmt.Appendf(nil,
		`{"tenant":"acme","device":"d0","ts":%d,"values":{"a":1},"labels":{"l":"%s"}}`, start+offset, label)}
}

// A record is judged by what its readings take in a document, not by its own bytes: labels by reference are written out
// for each series, and a control character takes six bytes. What fits no document is refused, and what follows is
// stored.
func TestReadingsThatFitNoDocumentAreRefused(t *testing.T) {
	for name, rec := range map[string]admit.Record{
		"labels by reference, of 1 KB":                 byReference(37, strings.Repeat("x", 20_000), start),
		"labels by reference, escaped":                 byReference(10, strings.Repeat("\x01", 10_000), start),
		"a label of the delete character":              labelled(0, strings.Repeat("\x7f", 370_000)),
		"a label of quotes":                            labelled(0, strings.Repeat(`\"`, 600_000)),
		"a label that is longer than a block's may be": labelled(0, strings.Repeat("x", 1_100_000)),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, []admit.Record{rec, values(1, `{"a":2}`)})
			l, ctx := w.worker(func(c *ingest.Config) { c.Decode = decode.Options{} }), ingesttest.Deadline(t)
			for _, r := range w.log {
				require.NoError(t, l.Take(ctx, r))
			}
			require.NoError(t, l.Finish(ctx))
			require.NotEmpty(t, w.deadLetters)
			for _, d := range w.deadLetters {
				require.Equal(t, decode.TooLarge, d.Bad.Reason)
				require.Zero(t, d.Record.Offset)
			}
			require.Len(t, w.Stored(), 1)
			require.EqualValues(t, 2, l.Floor())
		})
	}
}

// Rows that make no document, which an earlier release took and left in the journal, become dead letters at the cut.
// Those of other records are stored.
func TestRowsThatMakeNoDocumentBecomeDeadLetters(t *testing.T) {
	w := withJournal(newWorld(t, []admit.Record{
		values(0, `{"a":1}`), labelled(1, strings.Repeat("x", 400_000)), values(2, `{"a":3}`),
	}))
	ctx := ingesttest.Deadline(t)
	l := w.worker(long)
	for _, r := range w.log {
		require.NoError(t, l.Take(ctx, r))
	}
	l.Flush()
	require.NoError(t, l.Step(ctx))
	w.commitFloor(l)
	plain, escaped := bytes.Repeat([]byte("x"), 400_000), bytes.Repeat([]byte("\x01"), 400_000)
	for i, v := range w.blocks.values {
		w.blocks.values[i] = bytes.ReplaceAll(v, plain, escaped)
	}

	l = w.worker(long)
	require.Equal(t, 1, w.whole)
	require.NoError(t, l.Finish(ctx))
	require.Len(t, w.deadLetters, 1)
	letter := w.deadLetters[0]
	require.Equal(t, decode.Unstorable, letter.Bad.Reason)
	require.EqualValues(t, 1, letter.Record.Offset)
	require.Contains(t, letter.Bad.Detail, "too large for one chunk")
	require.Contains(t, string(letter.Record.Value), `"values":{"a":1},"labels":{"l":"\u0001`)
	require.Len(t, w.Stored(), 2)
	require.EqualValues(t, 3, l.Floor())
	w.CheckChains()
}
