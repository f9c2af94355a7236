package broker_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"binnacle/internal/lab/broker"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

const source = "source"

// commitFor commits of the source with metadata.
func commitFor(t *testing.T, c *kafka.Client, group string, partition int, metadata string) {
	t.Helper()
	answer, err := c.OffsetCommit(t.Context(), &kafka.OffsetCommitRequest{
		GroupID: group, GenerationID: -1,
		Topics: map[string][]kafka.OffsetCommit{source: {{Partition: partition, Offset: 1, Metadata: metadata}}},
	})
	require.NoError(t, err)
	require.NoError(t, answer.Topics[source][0].Error)
}

// A journal is trimmed up to what a commit of its source needs, and no further, also behind a restart; what no commit
// speaks of is bounded by its size.
func TestRunTrimsJournalBySourceCommits(t *testing.T) {
	const bound, records = 64 << 10, 400
	cfg := config(t)
	cfg.Topics, cfg.Journals = []string{source, topic}, map[string]string{topic: source}
	cfg.RetentionBytes, cfg.Groups, cfg.TrimEvery = bound, []string{"g", "other"}, time.Millisecond
	cfg.Needed = func(metadata string) (int64, bool) {
		from, err := strconv.ParseInt(metadata, 10, 64)
		return from, err == nil
	}
	b := open(t, cfg)
	c := client(t, b)
	value := strings.Repeat("v", 1<<10)
	for range records {
		for partition := range 4 {
			produce(t, c, partition, 0, value)
		}
	}
	commitFor(t, c, "g", 0, "300")
	commitFor(t, c, "other", 0, "200")
	commitFor(t, c, "g", 1, "399") // its last record is needed
	commitFor(t, c, "g", 2, "of somebody else")
	commitFor(t, c, "g", 3, "400") // none is; one stays, for kfake would begin an empty one at 0 again
	runs := func(b *broker.Broker, c *kafka.Client) {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- b.Run(ctx) }()
		require.Eventually(t, func() bool {
			first, end := offsets(t, c, 2)
			return end == records && first >= records-bound>>10 && first < records
		}, time.Minute, time.Millisecond)
		for partition, want := range map[int]int64{0: 200, 1: 399, 3: 399} {
			require.Eventually(t, func() bool {
				first, end := offsets(t, c, partition)
				require.LessOrEqual(t, first, want, "what is needed stays")
				return end == records && first == want
			}, time.Minute, time.Millisecond, partition)
		}
		stop()
		require.NoError(t, <-ended)
	}
	runs(b, c)
	require.NoError(t, b.Close())
	again := open(t, cfg)
	c = client(t, again)
	for partition, want := range map[int]int64{0: 200, 1: 399, 3: 399} {
		first, end := offsets(t, c, partition)
		require.LessOrEqual(t, first, want)
		require.EqualValues(t, records, end, "a journal goes on where it was")
	}
	runs(again, c)
}

func TestJournalNeedsSourceTopic(t *testing.T) {
	cfg := config(t)
	cfg.Journals = map[string]string{topic: "missing"}
	require.ErrorContains(t, cfg.Validate(), `journal "telemetry" of "missing"`)
	require.ErrorContains(t, cfg.Validate(), "no function for what")
}
