package journal_test

import (
	"encoding/hex"
	"math"
	"testing"

	"binnacle/ingest/journal"
	"binnacle/internal/kafka"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

func sample() journal.Record {
	return journal.Record{
		Nonce: 0x0123456789abcdef, Before: journal.Link{Offset: 1 << 40, Nonce: math.MaxUint64}, Linked: true,
		Stream: 7, Tenant: "acme", Device: "truck-0042", Day: 20777, First: 100, Through: 163, Rows: 64, Values: 640,
		From: 1795183200123, To: 1795183830123,
		Tail: journal.Tail{Known: true, Chunks: 3, Through: 99, From: 1795180000000, To: 1795183200000}, Data: []byte("rows"),
	}
}

// The bytes of version 1, which docs/internals/format/journal.md describes: they never change.
func TestGoldenRecord(t *testing.T) {
	r := sample()
	const golden = "01efcdab8967452301" + "03" + "808080808020" + "ffffffffffffffff" + "07" + "a9a201" + "64" + "3f" +
		"40" + "8005" + "fb8e87ca9f34" + "f0b926" + "03" + "63" + "80e6c3c89f34" + "80a8c301" +
		"0461636d65" + "0a747275636b2d30303432" + "726f7773"
	require.Equal(t, golden, hex.EncodeToString(r.Append(nil)))
}

func TestRecordRoundTrip(t *testing.T) {
	plain := sample()
	plain.Linked, plain.Before, plain.Data = false, journal.Link{}, []byte{}
	last := sample()
	last.Tail = journal.Tail{Known: true}
	last.First, last.Through, last.Day = math.MaxInt64, math.MaxInt64, telemetry.DayOf(telemetry.MaxMillis-1)
	for _, r := range []journal.Record{sample(), plain, last} {
		got, err := journal.ParseRecord(r.Append(nil))
		require.NoError(t, err)
		require.Equal(t, r, got)
	}
}

func TestParseRecordErrors(t *testing.T) {
	r := sample()
	good := r.Append(nil)
	for n := range len(good) - len(r.Data) {
		_, err := journal.ParseRecord(good[:n])
		require.ErrorIs(t, err, journal.ErrNotWhole, "the first %d bytes", n)
	}
	other := append([]byte{9}, good[1:]...)
	_, err := journal.ParseRecord(other)
	require.ErrorContains(t, err, "its version is 9")
	r.Rows = 0
	_, err = journal.ParseRecord(r.Append(nil))
	require.ErrorContains(t, err, "it claims to have no rows")
	r.Data, r.Values = nil, 0
	times, err := journal.ParseRecord(r.Append(nil))
	require.NoError(t, err)
	require.Equal(t, r.To, times.To, "times without rows")
}

func FuzzParseRecord(f *testing.F) {
	r := sample()
	f.Add(r.Append(nil))
	r.Linked = false
	f.Add(r.Append(nil))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, value []byte) {
		r, err := journal.ParseRecord(value)
		if err != nil {
			require.ErrorIs(t, err, journal.ErrNotWhole)
			return
		}
		require.LessOrEqual(t, r.First, r.Through)
		again, err := journal.ParseRecord(r.Append(nil))
		require.NoError(t, err)
		require.Equal(t, r, again)
	})
}

func TestMetadataRoundTrip(t *testing.T) {
	c := journal.Commit{Stream: 3, F: 1_000_000, From: 17, To: 9_000, Mark: 0xfeed}
	require.Equal(t, "binnacle-journal/1 stream=3 f=1000000 from=17 to=9000 mark=000000000000feed", c.Metadata())
	got, ok := journal.ParseCommit(c.Metadata())
	require.True(t, ok)
	require.Equal(t, c, got)
	most := journal.Commit{Stream: math.MaxUint32, F: math.MaxInt64, From: math.MaxInt64 - 1, To: math.MaxInt64,
		Mark: math.MaxUint64}
	require.Less(t, len(most.Metadata()), kafka.MaxMetadata)
	got, ok = journal.ParseCommit(most.Metadata())
	require.True(t, ok)
	require.Equal(t, most, got)
}

// A process that finds metadata of another version starts at the committed offset.
func TestParseForeignMetadata(t *testing.T) {
	none := journal.Commit{Stream: 3, F: 5}.Metadata()
	require.Equal(t, "binnacle-journal/1 stream=3", none)
	require.True(t, journal.IsOfAnother(none, 2))
	require.False(t, journal.IsOfAnother(none, 3) || journal.IsOfAnother("", 3) || journal.IsOfAnother("stream=2", 3))
	for _, m := range []string{
		"", "hello", none, "binnacle-journal/2 stream=3 f=1 from=1 to=2 mark=1",
		"binnacle-journal/1 stream=3 f=1 from=2 to=2 mark=1",
		"binnacle-journal/1 stream=3 f=-1 from=1 to=2 mark=1", "binnacle-journal/1 stream=3 f=1 from=1 to=2 mark=x",
		"binnacle-journal/1 stream=3 f=1 from=1 to=2", "binnacle-journal/1 f=1 stream=3 from=1 to=2 mark=1",
		"binnacle-journal/1 stream=4294967296 f=1 from=1 to=2 mark=1",
	} {
		_, ok := journal.ParseCommit(m)
		require.False(t, ok, m)
	}
}

func FuzzParseCommit(f *testing.F) {
	f.Add(journal.Commit{Stream: 3, F: 10, From: 1, To: 2, Mark: 7}.Metadata())
	f.Fuzz(func(t *testing.T, metadata string) {
		if c, ok := journal.ParseCommit(metadata); ok {
			again, ok := journal.ParseCommit(c.Metadata())
			require.True(t, ok)
			require.Equal(t, c, again)
		}
	})
}
