package loadtest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"binnacle/internal/cosmos"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/store"
)

// account is an embedded Cosmos DB, the client to it, and the clock that both go by.
type account struct {
	clock  *clock
	server *emulator.Server
	client *cosmos.Client
}

// warm is how long Binnacle has been up when the fleet begins to report. It knows then that the chains of the fleet's
// first day have no chunks yet, as it knows of all days that begin while it is up.
const warm = time.Minute

// evening is how long before the fleet's first day its account is made, and epochs of that day are stored.
const evening = 4 * time.Hour

// eveningBefore is how long before a day the balancer decides on it.
const eveningBefore = 4 * time.Hour

// open makes an account with the database and Binnacle's own containers in it. Unlimited, it counts what
// is charged and answers no 429.
func open(ctx context.Context, cfg Config, unlimited bool) (*account, error) {
	a := &account{clock: newClock(time.UnixMilli(cfg.firstDay().Start()).Add(-evening))}
	var err error
	a.server, err = emulator.Open(emulator.Config{
		InMemory: true, Now: a.clock.now, PhysicalPartitions: cfg.Partitions, Unlimited: unlimited, Model: cfg.Model,
	})
	if err != nil {
		return nil, err
	}
	a.client, err = cosmos.New(cosmos.Config{
		Endpoint: a.server.Endpoint(), Credential: cosmos.FixedKey(emulator.Key), Transport: a.server.Transport(),
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
func (a *account) partitions(container string) ([]emulator.PartitionStats, error) {
	parts, err := a.server.Partitions(store.Database, container)
	if err != nil {
		return nil, fmt.Errorf("physical partitions of %s: %w", container, err)
	}
	return parts, nil
}

// aligned adds up the figures of the physical partitions of containers that are alike: one row a partition,
// over all containers together. Peak is the highest peak among them.
func (a *account) aligned(containers []string) (out []emulator.PartitionStats, err error) {
	for _, name := range containers {
		parts, err := a.partitions(name)
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = parts
			continue
		}
		for i, p := range parts {
			out[i].RUs += p.RUs
			out[i].Requests += p.Requests
			out[i].Throttled += p.Throttled
			out[i].Peak = max(out[i].Peak, p.Peak)
		}
	}
	return out, nil
}

// calm returns the least RU/s with which none of these partitions would have answered 429, or 0 where one of the base
// containers would.
func (a *account) calm(of []emulator.PartitionStats) (rus float64) {
	for _, name := range []string{store.ControlContainer, store.CatalogContainer} {
		parts, err := a.partitions(name)
		if err != nil {
			return 0
		}
		for _, p := range parts {
			if p.Peak > p.Budget {
				return 0
			}
		}
	}
	for _, p := range of {
		rus = max(rus, p.Peak*float64(len(of)))
	}
	return rus
}

// clock is fleet time. One goroutine moves it; any may read it, since the SDK looks after its account
// in the background.
type clock struct{ nanos atomic.Int64 }

func newClock(at time.Time) *clock {
	c := &clock{}
	c.nanos.Store(at.UnixNano())
	return c
}

func (c *clock) now() time.Time { return time.Unix(0, c.nanos.Load()).UTC() }

// reach moves the clock to an instant, unless it is there already.
func (c *clock) reach(at time.Time) {
	if n := at.UnixNano(); n > c.nanos.Load() {
		c.nanos.Store(n)
	}
}

// sleep waits out a 429 for the adapter: it moves the clock.
func (c *clock) sleep(ctx context.Context, d time.Duration) error {
	c.nanos.Add(int64(d))
	return ctx.Err()
}
