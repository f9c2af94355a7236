package box_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"binnacle/internal/ops"
	"binnacle/internal/ops/erase"
	"binnacle/internal/provision"
	"binnacle/internal/store"
)

// startSweeper starts a process that sweeps what orders erase, as `provision` does.
func (b *box) startSweeper() {
	o := &b.operating
	o.sweeps++
	a := b.newActor(fmt.Sprintf("sweep.%d", o.sweeps))
	catalogs := provision.NewCatalogMerger(provision.CatalogMergerConfig{Catalog: pages{a}, Now: a.now,
		Logger: a.logger()})
	var s *erase.Sweeper
	directory := a.directory(func(ctx context.Context) { _ = s.Run(ctx) })
	s = erase.NewSweeper(erase.Config{Chunks: chunks{a}, Rollups: noRollups{}, Purge: catalogs.Purge, Orders: a.orders(),
		Snapshot: ops.FreshSnapshots(directory), By: a.name, Every: o.sweepEvery, Now: a.now, Logger: a.logger()})
	o.sweepers = append(o.sweepers, a)
	b.event("box", "start", a.name, "")
}

// noRollups is a store without containers of rollups.
type noRollups struct{ store.RollupWriter }

// ScanRollups implements store.RollupReader.
func (noRollups) ScanRollups(context.Context, store.RollupScan, func([]byte) error) (store.Usage, error) {
	return store.Usage{}, store.ErrNoContainer
}

// endErasures waits until each order is void or cleared, while nobody asks anything.
func (b *box) endErasures() bool {
	if !b.operating.erasures {
		return true
	}
	for _, q := range b.queriers {
		q.quits = true
	}
	for _, a := range b.operating.sweepers {
		b.die(a)
	}
	b.startSweeper() // with a clock that is right
	b.profile.pace = 10 * time.Second
	ended := b.await("commands have ended", b.commandsEnded) &&
		b.await("erasures are void or cleared", b.oracle.erasuresEnded)
	b.profile.pace = time.Second
	return ended
}

func (b *box) commandsEnded() bool {
	return !slices.ContainsFunc(b.operating.commands, func(c *command) bool { return !c.isOver })
}
