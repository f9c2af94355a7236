package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/retry"
	"binnacle/internal/store"
	"binnacle/internal/stream"
	"binnacle/internal/telemetry"
	"binnacle/internal/text/progress"
	"binnacle/sharding"
)

// Stores is where chunks, containers and the tenants are read.
type Stores struct {
	Headers    store.HeaderReader
	Containers interface {
		List(ctx context.Context) ([]string, error)
	}
	Documents store.Documents
}

type auditor struct {
	Config
	stores      Stores
	first, last telemetry.Day
	report      func(Finding) error

	snapshot   *control.Snapshot
	streams    []stream.Stream
	containers []string
	pacer      retry.RUPacer
	// all is the chains of all days, while the log must still be read.
	all     chains
	sum     Summary
	outside unaudited
}

// Run audits what the configuration says, and reports each finding as it is found. The summary is right as far as the
// audit came also when an error is returned.
func Run(ctx context.Context, cfg Config, stores Stores, report func(Finding) error) (Summary, error) {
	first, last, err := cfg.days()
	if err != nil {
		return Summary{}, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	a := &auditor{Config: cfg, stores: stores, first: first, last: last,
		pacer: retry.RUPacer{Rate: cfg.MaxRUs, Now: cfg.Now, Sleep: retry.Pause}, all: make(chains)}
	a.report = func(f Finding) error {
		a.sum.Findings++
		return report(f)
	}
	var meter store.Meter
	begun := cfg.Now()
	err = a.run(store.WithMeter(ctx, &meter))
	a.sum.RUs = max(a.sum.RUs, meter.Read().RUs)
	a.sum.Took = cfg.Now().Sub(begun)
	return a.sum, err
}

func (a *auditor) run(ctx context.Context) (err error) {
	if err := a.readControl(ctx); err != nil {
		return err
	}
	var log *logAudit
	if !a.NoKafka {
		// What is committed now is stored, and in containers that there are, before these and headers are read.
		if log, err = a.openLog(ctx); err != nil {
			return err
		}
		defer log.client.Close()
	}
	if a.containers, err = a.stores.Containers.List(ctx); err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	a.containers = slices.DeleteFunc(a.containers, func(name string) bool {
		_, _, ok := sharding.ParseContainer(name)
		return !ok
	})
	if err := a.days(ctx, log != nil); err != nil || log == nil {
		return err
	}
	return log.check(ctx)
}

// readControl reads which tenants and streams there are, and where chunks belong.
func (a *auditor) readControl(ctx context.Context) (err error) {
	dir := control.NewDirectory(control.DirectoryConfig{Documents: a.stores.Documents})
	if a.snapshot, err = dir.Refresh(ctx); err != nil {
		return fmt.Errorf("read the tenants: %w", err)
	}
	for _, d := range a.snapshot.Damage() {
		if a.Tenant == "" || d.Tenant == a.Tenant || d.Tenant == "" {
			return d
		}
	}
	a.streams, err = stream.NewStreams(a.stores.Documents).All(ctx)
	return err
}

func (a *auditor) days(ctx context.Context, keep bool) error {
	days := int64(a.last-a.first) + 1
	bar := progress.New(a.Progress, "days", days*int64(len(a.containers)))
	defer bar.Clear()
	for day := a.first; day <= a.last; day++ {
		entries, found, err := a.read(ctx, chain{tenant: a.Tenant, device: a.Device, day: day}, func() { bar.Add(1) })
		if err != nil {
			return err
		}
		strays, err := a.strays(ctx, entries)
		if err != nil {
			return err
		}
		all, more := a.linked(entries)
		found, err = a.confirm(ctx, day, slices.Concat(found, strays, more))
		if err != nil {
			return err
		}
		a.sum.Days++
		a.sum.Chunks += len(entries)
		a.sum.Chains += len(all)
		for _, e := range entries {
			a.sum.Readings += e.readings
		}
		slices.SortFunc(found, compare)
		for _, f := range found {
			if err := a.report(f); err != nil {
				return err
			}
		}
		if keep {
			maps.Copy(a.all, all)
		}
	}
	return nil
}

// read reads the headers of the tenant, device and day of a chain, and returns the faults that single headers show.
// An empty tenant or device selects all. step is called for each container.
func (a *auditor) read(ctx context.Context, of chain, step func()) (entries []*entry, found []Finding, err error) {
	for _, container := range a.containers {
		scan := store.HeaderScan{Container: container, Day: of.day, Tenant: of.tenant, Device: of.device, Whole: a.Columns,
			Charge: func(rus float64) error { a.sum.RUs += rus; return a.pacer.Wait(ctx, rus) }}
		_, err := a.stores.Headers.Headers(ctx, scan, func(header []byte) error {
			e, faults := a.entry(container, of.day, header)
			found = append(found, faults...)
			if e != nil {
				entries = append(entries, e)
			}
			return nil
		})
		if err != nil && !errors.Is(err, store.ErrNoContainer) { // an expired one may be dropped during the audit
			return nil, nil, err
		}
		if step != nil {
			step()
		}
	}
	return entries, found, nil
}

// entry returns a header of a day, nil where it is none that a chain may have.
func (a *auditor) entry(container string, day telemetry.Day, header []byte) (*entry, []Finding) {
	e, id, err := parse(container, header)
	if err == nil && a.Columns {
		err = decodes(header)
	}
	if err != nil {
		return nil, []Finding{{Kind: Damaged, Tenant: e.tenant(), Device: e.key.Device, Day: dayText(day), Partition: -1,
			Number: -1, First: -1, Through: -1, Container: container, Shard: e.key.TenantShard, ID: id,
			Detail: err.Error()}}
	}
	if e.id.Day != day {
		if e.id.Day >= a.first && e.id.Day <= a.last {
			return nil, nil // its own day finds it
		}
		return nil, e.own()
	}
	return e, e.own()
}

// strays returns which chunks are of no tenant, or lie where they don't belong. Tenants, streams and epochs come while
// the audit reads, each before the first chunk of it: the control documents are read again before anything is reported.
func (a *auditor) strays(ctx context.Context, entries []*entry) ([]Finding, error) {
	if len(a.place(entries)) == 0 {
		return nil, nil
	}
	if err := a.readControl(ctx); err != nil {
		return nil, err
	}
	return a.place(entries), nil
}

// place holds chunks against the snapshot, and notes which lie elsewhere.
func (a *auditor) place(entries []*entry) (found []Finding) {
	for _, e := range entries {
		tenant, known := a.snapshot.Tenant(e.tenant())
		if !known {
			found = append(found, e.finding(Orphan, "nobody knows the tenant"))
			continue
		}
		if n := int(e.id.Stream); n < 1 || n > len(a.streams) {
			found = append(found, e.finding(Orphan, "nobody knows the stream"))
		}
		want := tenant.Placement.Key(e.key.Device, e.id.Day, e.id.Number)
		if e.misplaced = want != e.key; e.misplaced {
			found = append(found, e.finding(Misplaced, "it belongs into %s under %s", want.Container, want.TenantShard))
		}
	}
	return found
}

// linked sorts chunks into chains and checks them. Once the retention of a day is over any chunk of it may be gone.
func (a *auditor) linked(entries []*entry) (chains, []Finding) {
	all, found := linkChains(entries)
	for c, of := range all {
		if t, known := a.snapshot.Tenant(c.tenant); !known || !t.ExpiredOf(c.device, c.day, a.Now().UnixMilli()) {
			found = append(found, c.check(of)...)
		}
	}
	return all, found
}

// confirm reads what seems wrong between chunks once more, device by device: chunks are written during the audit, and
// in a chain with chunks under several keys a later one may be seen before an earlier one. What was missing at first,
// and was missing still in a read that began afterwards, is missing.
func (a *auditor) confirm(ctx context.Context, day telemetry.Day, found []Finding) ([]Finding, error) {
	type place struct {
		stream    uint32
		partition int32
		number    int64
	}
	at := func(f Finding) place { return place{f.Stream, f.Partition, f.Number} }
	again := make(map[chain]map[place]Finding)
	var out []Finding
	for _, f := range found {
		if f.Kind != Gap && f.Kind != Overlap {
			out = append(out, f)
			continue
		}
		of := chain{tenant: f.Tenant, device: f.Device, day: day}
		if again[of] == nil {
			entries, _, err := a.read(ctx, of, nil)
			if err != nil {
				return nil, err
			}
			a.place(entries)
			_, still := a.linked(entries)
			again[of] = make(map[place]Finding)
			for _, f := range still {
				if f.Kind == Gap || f.Kind == Overlap {
					again[of][at(f)] = f
				}
			}
		}
		if f, still := again[of][at(f)]; still {
			out = append(out, f)
		}
	}
	return out, nil
}
