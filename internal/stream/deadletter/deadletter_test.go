package deadletter_test

import (
	"strconv"
	"testing"

	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/ingest/write"
	"binnacle/internal/stream/deadletter"

	"github.com/stretchr/testify/require"
)

// What a worker says of a record that it has refused is read back, whatever headers the record has of its own.
func TestParseRoundTrip(t *testing.T) {
	own := []decode.Header{
		{Key: "content-type", Value: []byte("application/json")}, {Key: "binnacle-reason", Value: []byte("made up")},
		{Key: "binnacle-offset", Value: []byte("x")}, {Key: "binnacle-backfill", Value: []byte("grant")},
		{Key: "binnacle-through", Value: []byte("999")}, {Key: "binnacle-truncated", Value: []byte("7")},
		{Key: "binnacle-timestamp", Value: []byte("1")},
	}
	for _, c := range []struct {
		name   string
		letter write.DeadLetter
		want   deadletter.DeadLetter
		id     string
	}{
		{"an element",
			write.DeadLetter{Topic: "telemetry", Partition: 3,
				Record: admit.Record{Offset: 812, Time: 1795183200123, Headers: own},
				Bad:    decode.Bad{Index: 2, Reason: decode.Future, Detail: "why"}},
			deadletter.DeadLetter{Topic: "telemetry", Partition: 3, Offset: 812, Index: 2, Published: 1795183200123, Through: -1,
				Elements: deadletter.Elements{{First: 2, Last: 2}}, Reason: decode.Future, Detail: "why"},
			"3/812/2@1795183200123"},
		{"elements",
			write.DeadLetter{Topic: "telemetry", Record: admit.Record{Offset: 812, Headers: own},
				Bad:      decode.Bad{Index: 2, Reason: decode.Future, Detail: "why"},
				Elements: deadletter.Elements{{First: 2, Last: 4}, {First: 7, Last: 7}}},
			deadletter.DeadLetter{Topic: "telemetry", Offset: 812, Index: 2, Through: -1,
				Elements: deadletter.Elements{{First: 2, Last: 4}, {First: 7, Last: 7}}, Reason: decode.Future, Detail: "why"},
			"0/812/2@0#3152348d"},
		{"a record",
			write.DeadLetter{Topic: "t", Record: admit.Record{Offset: 0, Time: -1, Headers: own},
				Bad: decode.Bad{Index: decode.Whole, Reason: decode.Undecodable}},
			deadletter.DeadLetter{Topic: "t", Index: decode.Whole, Published: -1, Through: -1, Reason: decode.Undecodable},
			"0/0/-1"},
		{"a stretch",
			write.DeadLetter{Topic: "t", Record: admit.Record{Offset: 5, Time: 7, Headers: own},
				Bad:        decode.Bad{Index: decode.Whole, Reason: decode.Unreadable},
				Unreadable: &admit.Unreadable{First: 5, Through: 9}},
			deadletter.DeadLetter{Topic: "t", Offset: 5, Index: decode.Whole, Published: 7, Through: 9,
				Reason: decode.Unreadable},
			"0/5/-1@7"},
	} {
		got, ok := deadletter.Parse([]byte("key"), []byte("value"), c.letter.Headers())
		require.True(t, ok, c.name)
		c.want.Key, c.want.Value, c.want.Truncated = []byte("key"), []byte("value"), -1
		c.want.Headers = []decode.Header{own[0], own[3]}
		require.Equal(t, c.want, got, c.name)
		require.Equal(t, c.id, got.ID().String(), c.name)
		id, err := deadletter.ParseID(c.id)
		require.NoError(t, err)
		require.Equal(t, got.ID(), id)
	}
}

// The readings of a record that the store does not take are a dead letter for each device and day, all of one position.
func TestIDsOfOneRecordDiffer(t *testing.T) {
	headers := []decode.Header{
		{Key: deadletter.HeaderReason, Value: []byte(decode.Unstorable)}, {Key: deadletter.HeaderTopic, Value: []byte("t")},
		{Key: deadletter.HeaderPartition, Value: []byte("1")}, {Key: deadletter.HeaderOffset, Value: []byte("2")},
		{Key: deadletter.HeaderIndex, Value: []byte("-1")},
	}
	seen := map[string]bool{}
	for _, value := range []string{"[a]", "[b]", "[a]"} {
		l, ok := deadletter.Parse([]byte("acme/m1"), []byte(value), headers)
		require.True(t, ok)
		id, err := deadletter.ParseID(l.ID().String())
		require.NoError(t, err)
		require.Equal(t, l.ID(), id)
		seen[l.ID().String()] = true
	}
	require.Len(t, seen, 2)
}

func TestParseRefusesOtherRecords(t *testing.T) {
	whole := map[string]string{deadletter.HeaderReason: "time", deadletter.HeaderTopic: "t",
		deadletter.HeaderPartition: "1", deadletter.HeaderOffset: "2", deadletter.HeaderIndex: "0"}
	parse := func(change, value string) bool {
		var headers []decode.Header
		for name, v := range whole {
			if name == change {
				v = value
			}
			if v != "" {
				headers = append(headers, decode.Header{Key: name, Value: []byte(v)})
			}
		}
		_, ok := deadletter.Parse(nil, nil, headers)
		return ok
	}
	require.True(t, parse("", ""))
	for name := range whole {
		require.False(t, parse(name, ""), name)
	}
	for _, n := range []string{"-1", "x", strconv.Itoa(1 << 40)} {
		require.False(t, parse(deadletter.HeaderPartition, n), n)
	}
	require.False(t, parse(deadletter.HeaderOffset, "-1"))
	require.False(t, parse(deadletter.HeaderIndex, "-2"))
	for _, id := range []string{"", "1/2", "1/2/x", "1/2/3@", "1/2/3#g", "1/2/3/4", "99999999999/2/3"} {
		_, err := deadletter.ParseID(id)
		require.Error(t, err, id)
	}
}
