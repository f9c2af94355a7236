package httpapi_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"binnacle/ingest/decode"

	"github.com/stretchr/testify/require"
)

// What is answered as messages can be published again: decoded, and stored once more, it gives the same answer. Times
// of the first weeks of 1970 stay milliseconds.
func TestMessagesReadBack(t *testing.T) {
	const path = "/api/v1/readings?format=ndjson&layout=message&from=0"
	s := newServer(t, nil)
	s.fill()
	s.world.Chunk(record(5, "m3", time.UnixMilli(86_400_123), nil, float("early", 1)))
	first := s.get(t, path)
	require.Equal(t, 200, first.status, first.body)
	require.Contains(t, first.body, `{"tenant":"acme","device":"m3","ts":"1970-01-02T00:00:00.123Z","values":{"early":1}}`+"\n")
	require.Contains(t, first.body, `"temp":{"float":"NaN"}`)

	again := newServer(t, nil)
	d, at := decode.New(decode.Options{}), int64(0)
	for line := range strings.SplitSeq(strings.TrimSuffix(first.body, "\n"), "\n") {
		got := d.Decode(decode.Record{Value: []byte(line)})
		require.Empty(t, got.Bad, line)
		require.Len(t, got.Readings, 1, line)
		r := got.Readings[0]
		at++
		again.world.Chunk(record(at, r.Device, time.UnixMilli(r.Time), r.Labels, slices.Clone(r.Fields)...))
	}
	require.Equal(t, int64(5), at)
	second := again.get(t, path)
	require.Equal(t, first.body, second.body)
	require.NotEqual(t, 200, s.get(t, "/api/v1/readings?format=csv&layout=message").status)
	require.NotEqual(t, 200, s.get(t, "/api/v1/readings?format=ndjson&layout=wide").status)
}
