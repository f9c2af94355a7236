package ingest_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"binnacle/ingest"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// Where the role that makes journals starts together with ingest, or a topic has just been made, its journal is still
// to come: that is no error. One that is missing minutes later is, once.
func TestMissingJournalIsLoggedFromTheThirdCheck(t *testing.T) {
	r := newRig(t, 1)
	made, err := r.client().CreateTopics(context.Background(), &kafkago.CreateTopicsRequest{
		Topics: []kafkago.TopicConfig{{Topic: "bare", NumPartitions: 1, ReplicationFactor: 1}}})
	require.NoError(t, err)
	require.NoError(t, made.Errors["bare"])
	require.Eventually(t, func() bool {
		_, err := r.cluster.Topic("bare").Partitions(context.Background())
		return err == nil
	}, patience, 5*time.Millisecond)
	var said bytes.Buffer
	in := r.ingester(func(c *ingest.Config, _ *ingest.Stores) { c.Logger = slog.New(slog.NewTextHandler(&said, nil)) })
	look := ingest.LookAtJournals(in)
	errors := func() int { return strings.Count(said.String(), "level=ERROR") }
	for range 2 {
		look(t.Context(), "bare")
		require.Zero(t, errors(), said.String())
	}
	for range 3 {
		look(t.Context(), "bare")
		require.Equal(t, 1, errors(), said.String())
	}
	require.Contains(t, said.String(), "provision --journal-of bare")
}
