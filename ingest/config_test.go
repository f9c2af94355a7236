package ingest_test

import (
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/worker"
	"binnacle/internal/kafka"

	"github.com/stretchr/testify/require"
)

func TestValidateNamesEveryFault(t *testing.T) {
	_, err := ingest.New(ingest.Config{
		Config: worker.Config{Hold: -1, MaxWrites: -1, MaxBehind: -1},
		Topics: []string{"a"}, DeadLetters: "a", DrainBudget: time.Minute,
	}, ingest.Stores{})
	for _, what := range []string{"own dead letters", "hold", "max-writes", "max-behind", "drain-budget"} {
		require.ErrorContains(t, err, what)
	}
	_, err = ingest.New(ingest.Config{}, ingest.Stores{})
	require.EqualError(t, err, "there is no cluster to read from")
	cluster, err := kafka.New(kafka.Config{Brokers: []string{"a:1"}})
	require.NoError(t, err)
	_, err = ingest.New(ingest.Config{Kafka: cluster}, ingest.Stores{})
	require.NoError(t, err)
}
