package ingest_test

import (
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/worker"

	"github.com/stretchr/testify/require"
)

func TestValidateNamesEveryFault(t *testing.T) {
	_, err := ingest.New(ingest.Config{
		Config:      worker.Config{Topic: "a", Hold: -1, MaxWrites: -1, MaxBehind: -1},
		DeadLetters: "a", MemoryBytes: -1, WatchEvery: -1, DrainBudget: time.Minute,
	}, ingest.Stores{})
	for _, what := range []string{"address of a broker", "own dead letters", "hold", "max-writes", "memory", "max-behind", "watch-every", "drain-budget"} {
		require.ErrorContains(t, err, what)
	}
	_, err = ingest.New(ingest.Config{Kafka: "a:1"}, ingest.Stores{})
	require.NoError(t, err)
}
