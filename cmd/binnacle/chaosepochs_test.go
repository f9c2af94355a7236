package main_test

import (
	"context"
	"testing"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

// addEpochs gives acme other keys from each of the days on that producers write to all at once, before any reading
// comes: as if the balancer had decided then. One of its devices has several keys.
func addEpochs(t *testing.T, storeAt string) {
	client := storeClient(t, storeAt)
	defer client.Close()
	before := control.NewDirectory(control.DirectoryConfig{Documents: client.Documents(),
		Now: func() time.Time { return time.Now().AddDate(0, 0, -100) }})
	_, err := before.Register(t.Context(), "acme")
	require.NoError(t, err)
	last := telemetry.DayOf(noon())
	for i, epoch := range []sharding.Epoch{{From: last - 31}, {From: last - 1}, {From: last}} {
		epoch.Slots = sharding.Spread("acme", 5*(i+1)+i)
		epoch.Heavy = map[string][]sharding.Slot{"p0-1": sharding.Spread("acme", 3+i)}
		require.NoError(t, before.AddEpoch(t.Context(), "acme", epoch))
	}
}

func storeClient(t *testing.T, storeAt string) *cosmos.Client {
	client, err := cosmos.New(cosmos.Config{Endpoint: "http://" + storeAt + "/", Credential: cosmos.FixedKey(publicKey)})
	require.NoError(t, err)
	return client
}

// split buys so much throughput for a container of chunks that a physical partition splits, if the store is there.
func (c *chaos) split() {
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	client := storeClient(c.t, c.storeAt)
	defer client.Close()
	days := c.truth.days
	day := telemetry.DayOf(noon()) - telemetry.Day(days[c.rnd.IntN(len(days))])
	container := sharding.Container("", sharding.Month.Of(day))
	if c.splits > 5 { // enough
		return
	}
	if client.Containers().SetThroughput(ctx, container, store.Throughput{RUs: 10_000 * (6 + c.splits)}) == nil {
		c.splits++
	}
}
