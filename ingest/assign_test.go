package ingest_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/internal/store"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

func TestParseAssignment(t *testing.T) {
	for _, c := range []struct {
		text, host string
		want       []int // of 7 partitions
		wrong      string
	}{
		{"0/3", "any", []int{0, 3, 6}, ""},
		{"2/3", "any", []int{2, 5}, ""},
		{"auto/3", "binnacle-ingest-1", []int{1, 4}, ""},
		{"0/1", "any", []int{0, 1, 2, 3, 4, 5, 6}, ""},
		{"8/9", "any", nil, ""},
		{"3/3", "any", nil, "ordinal 3 of 3"},
		{"auto/3", "binnacle-ingest-3", nil, "ordinal 3 of 3"},
		{"auto/3", "laptop", nil, `"laptop" does not end in an ordinal`},
		{"auto/3", "ip-10-0-0-", nil, "does not end"},
		{"0/0", "any", nil, "ordinal 0 of 0"},
		{"-1/3", "any", nil, "is not ORDINAL/COUNT"},
		{"1", "any", nil, "is not ORDINAL/COUNT"},
		{"1/3/4", "any", nil, "is not ORDINAL/COUNT"},
		{"1/99999999999999999999", "any", nil, "is not ORDINAL/COUNT"},
	} {
		got, err := ingest.AssignedOf(c.text, c.host, map[string][]int{topic: {0, 1, 2, 3, 4, 5, 6}}, true)
		if c.wrong != "" {
			require.ErrorContains(t, err, c.wrong)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, got[topic], c.text)
	}
	err := ingest.Config{Assign: "five"}.Validate()
	require.ErrorContains(t, err, `--assign "five"`)
	require.EqualError(t, ingest.CheckAssign("five"), `--assign "five" is not ORDINAL/COUNT, such as 0/3, nor auto/COUNT`)
}

// has is which partitions a process has.
func has(in *ingest.Ingester) []int {
	heads, err := in.Heads(context.Background(), store.HeadRequest{Tenant: "acme"})
	if err != nil {
		return nil
	}
	all := []int{}
	for _, h := range heads {
		all = append(all, int(h.Partition))
	}
	slices.Sort(all)
	return all
}

// flow publishes some records to each of the partitions.
func (r *rig) flow(n *int64, partitions int) {
	for p := range partitions {
		r.publish(p, r.message(fmt.Sprintf("d%d", p), past+*n, float64(*n)), r.message(fmt.Sprintf("d%d", p), past+*n+1, 1))
		*n += 2
	}
}

// Processes that are set to their partitions read those and no others, however their neighbours come and go, and those
// that the topic gets.
func TestAssignedPartitionsByOrdinal(t *testing.T) {
	r := newRig(t, 4)
	n := int64(0)
	process := func(assign string) *ingest.Ingester {
		return r.ingester(func(c *ingest.Config, _ *ingest.Stores) { c.Assign = assign })
	}
	even, odd := process("0/2"), process("1/2")
	r.run(even)
	stop := r.run(odd)
	r.flow(&n, 4)
	r.settled()
	r.whole()
	require.Equal(t, []int{0, 2}, has(even))
	require.Equal(t, []int{1, 3}, has(odd))
	require.True(t, even.CaughtUp())

	stop()
	r.flow(&n, 4) // nobody takes over what a neighbour leaves
	require.Eventually(t, func() bool { return r.committed(2) == 4 }, patience, time.Millisecond)
	require.Equal(t, []int{0, 2}, has(even))
	require.EqualValues(t, 2, r.committed(1))

	odd = process("1/2")
	r.run(odd)
	res, err := r.client().CreatePartitions(context.Background(),
		&kafkago.CreatePartitionsRequest{Topics: []kafkago.TopicPartitionsConfig{{Name: topic, Count: 8}}})
	require.NoError(t, err)
	require.NoError(t, res.Errors[topic])
	r.flow(&n, 8)
	r.settled()
	r.whole()
	require.Equal(t, []int{0, 2, 4, 6}, has(even))
	require.Equal(t, []int{1, 3, 5, 7}, has(odd))
}

// syncBuffer is a log that others may look at.
type syncBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *syncBuffer) has(text string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Contains(b.Bytes(), []byte(text))
}

// While the group has a member, only that commits; a process that is set to its partitions says so, reads on, and
// commits when the member has gone. Nothing is doubled by the two.
func TestAssignedWithLeftoverGroupMember(t *testing.T) {
	r := newRig(t, 2)
	n := int64(0)
	stop := r.run(r.ingester(nil))
	r.flow(&n, 2)
	r.settled()
	var said syncBuffer
	r.run(r.ingester(func(c *ingest.Config, _ *ingest.Stores) {
		c.Assign, c.Logger = "0/1", slog.New(slog.NewTextHandler(&said, nil))
	}))
	require.Eventually(t, func() bool {
		r.flow(&n, 2)
		return said.has("group binnacle has members, which commit alone")
	}, patience, 10*time.Millisecond)
	stop()
	r.flow(&n, 2)
	r.settled()
	r.whole()
}
