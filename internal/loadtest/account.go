package loadtest

import (
	"context"
	"fmt"
	"time"

	"binnacle/internal/cosmos"
	"binnacle/internal/cosmosemu"
	"binnacle/internal/store"
)

// account is an embedded Cosmos DB, the client to it, and the clock that both go by.
type account struct {
	clock  *clock
	server *cosmosemu.Server
	client *cosmos.Client
}

// warm is how long Binnacle has been up when the fleet begins to report. It knows then that the chains of the fleet's
// first day have no chunks yet, as it knows of all days that begin while it is up.
const warm = time.Minute

// evening is how long before the fleet's first day its account is made, and epochs of that day are stored.
const evening = 4 * time.Hour

// open makes an account with the database and Binnacle's own containers in it. Unlimited, it counts what
// is charged and answers no 429.
func open(ctx context.Context, cfg Config, unlimited bool) (*account, error) {
	a := &account{clock: newClock(midnight.Add(-evening))}
	var err error
	a.server, err = cosmosemu.Open(cosmosemu.Config{
		InMemory: true, Now: a.clock.now, PhysicalPartitions: cfg.Partitions, Unlimited: unlimited, Model: cfg.Model,
	})
	if err != nil {
		return nil, err
	}
	a.client, err = cosmos.New(cosmos.Config{
		Endpoint: a.server.Endpoint(), Credential: cosmos.FixedKey(cosmosemu.Key), Transport: a.server.Transport(),
		Now: a.clock.now, Sleep: a.clock.sleep, Jitter: func() float64 { return 0 },
		Patience: time.Hour, // there is one caller, and nothing else that it could do
	})
	if err == nil {
		err = a.client.EnsureBase(ctx)
	}
	if err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

func (a *account) close() {
	if a.client != nil {
		a.client.Close()
	}
	_ = a.server.Close() // it is in memory: nothing can be lost
}

// partitions returns what the physical partitions of a container have done since the last reset.
func (a *account) partitions(container string) ([]cosmosemu.PartitionStats, error) {
	parts, err := a.server.Partitions(store.Database, container)
	if err != nil {
		return nil, fmt.Errorf("physical partitions of %s: %w", container, err)
	}
	return parts, nil
}

// charged returns what the containers have been charged since the last reset.
func (a *account) charged(containers ...string) (rus float64, err error) {
	for _, container := range containers {
		parts, err := a.partitions(container)
		if err != nil {
			return 0, err
		}
		for _, p := range parts {
			rus += p.RUs
		}
	}
	return rus, nil
}
