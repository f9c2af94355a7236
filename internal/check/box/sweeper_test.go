package box_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"binnacle/internal/erasure"
	"binnacle/internal/ops"
	"binnacle/internal/ops/erase"
	"binnacle/internal/provision"
	"binnacle/internal/tenant"
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
	s = erase.NewSweeper(erase.Config{Chunks: chunks{a}, Rollups: rollupStore{a}, Catalog: pages{a},
		Purge: catalogs.Purge, Orders: a.orders(), Annotations: tenant.NewAnnotations(documents{a}, documents{a},
			func(name string) erasure.List { return directory.Snapshot().Erasures(name) }),
		Snapshot: ops.FreshSnapshots(directory), By: a.name, Every: o.sweepEvery, Now: a.now, Logger: a.logger()})
	o.sweepers = append(o.sweepers, a)
	b.event("box", "start", a.name, "")
}

// settleSweepers starts one sweeper anew, with a clock that is right: bins wait until it voids the order of a dead one.
func (b *box) settleSweepers() {
	if b.operating.erasures {
		for _, a := range b.operating.sweepers {
			b.die(a)
		}
		b.startSweeper()
	}
}

// endErasures waits until each order is void or cleared, while nobody asks anything.
func (b *box) endErasures() bool {
	if !b.operating.erasures {
		return true
	}
	for _, q := range b.queriers {
		q.quits = true
	}
	b.profile.pace = 10 * time.Second
	ended := b.await("commands have ended", b.commandsEnded) &&
		b.await("erasures are void or cleared", b.oracle.erasuresEnded)
	b.profile.pace = time.Second
	return ended && b.certify()
}

// certify makes the certificates of all orders that are cleared, and holds that they are true.
func (b *box) certify() bool {
	b.startCommand("erase certificate, erase verify", func(ctx context.Context, c *command) {
		v := c.snapshot.Snapshot()
		annotations := tenant.NewAnnotations(documents{c.actor}, documents{c.actor}, v.Erasures)
		for _, o := range v.AllErasures() {
			found := &erase.Verification{}
			cert, err := erase.NewCertificate(o, "box", nil)
			if err == nil {
				found, err = erase.Verify(ctx, erase.VerifyConfig{Chunks: chunks{c.actor}, Rollups: rollupStore{c.actor},
					Catalog: pages{c.actor}, Annotations: annotations, Now: c.now, RUs: 1e6}, v, cert)
			}
			if err == nil {
				found.Findings = slices.DeleteFunc(found.Findings, func(f erase.Finding) bool {
					return strings.HasSuffix(f.Problem, "no manifest names its batch") // a maker has died in its round
				})
			}
			if err != nil || len(found.Findings) > 0 {
				b.fail("the certificate of erasure %s is not true: %+v %v", o.ID, found, err)
				return
			}
			b.oracle.certified(cert)
		}
	})
	return b.await("erasures are certified", b.commandsEnded)
}

func (b *box) commandsEnded() bool {
	return !slices.ContainsFunc(b.operating.commands, func(c *command) bool { return !c.isOver })
}
