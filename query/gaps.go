package query

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"binnacle/internal/catalog"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query/diagnose/gaps"
	"binnacle/query/merge"
	"binnacle/query/read"
	"binnacle/query/read/chunks"
	"binnacle/query/read/heads"
	"binnacle/query/read/piece"
)

// GapsRequest asks for the gaps in a device's readings. A range that ends behind now ends now.
type GapsRequest struct {
	Tenant, Device string
	Range          telemetry.Range
	Expect         time.Duration // between readings; 0: as inferred from them
	Sequence       string        // metric that numbers the device's messages; empty for none

	// Diagnose is called with the evidence, within the query's limits; nil for none.
	Diagnose func(gaps.Evidence)
}

// numberBytes is what a number of the evidence takes, with what a diagnosis makes of it.
const numberBytes = 48

// Evidence returns the evidence about a device, for whole days, so that chains can be checked for missing chunks. The
// caller adds what was refused. It fails as Readings does.
func (q *Querier) Evidence(ctx context.Context, r GapsRequest) (c gaps.Evidence, res Result, err error) {
	memory := q.Memory(q.cfg.MemoryBytes)
	defer memory.Close()
	err = q.Admit(ctx, r.Tenant, func(ctx context.Context) error {
		if c, res, err = q.evidence(ctx, r, memory); err == nil && r.Diagnose != nil {
			r.Diagnose(c)
		}
		return err
	})
	return c, res, err
}

func (q *Querier) evidence(ctx context.Context, r GapsRequest, memory *Memory) (c gaps.Evidence, res Result,
	err error) {
	now := q.cfg.Now().UnixMilli()
	r.Range.To = max(r.Range.From, min(r.Range.To, now+1))
	c = gaps.Evidence{Range: r.Range, Expect: r.Expect, Known: -1}
	if r.Range.Empty() {
		return c, Result{Complete: true}, nil
	}
	tenant, _ := q.cfg.Directory.Snapshot().Tenant(r.Tenant)
	c.Expired = func(day telemetry.Day) bool { return tenant.ExpiredOf(r.Device, day, now) }
	orders := q.cfg.Directory.Snapshot().Erasures(r.Tenant)
	isHidden := func(day telemetry.Day) bool { return c.Expired(day) || len(orders.Of(r.Device, day)) > 0 }
	var days telemetry.Range
	var all []merge.Present
	var lacking []chunks.MissingChunks
	err = q.admitAndObserve(ctx, "gaps", r.Tenant, func(ctx context.Context, spent *store.Meter) (err error) {
		var incomplete []string
		if c.Known, incomplete, err = q.firstSeen(ctx, r); err != nil {
			return err
		}
		present := func() (err error) {
			// What is in Kafka by now is not lost: an ingester may be far behind without having been restarted.
			days = telemetry.Range{From: telemetry.DayOf(c.Judged().From).Start(), To: telemetry.DayOf(r.Range.To - 1).End()}
			reading := q.newQuery(read.Request{
				Request: piece.Request{Tenant: r.Tenant, Devices: []string{r.Device}, Range: days, Strict: true}})
			defer reading.Close()
			memory.Close() // of an earlier read
			sink := merge.NewPresence(merge.Config{Range: days, Memory: memory})
			err = reading.Explain(reading.Run(ctx, sink))
			res = resultOf(reading, spent, err)
			q.metrics.answered(res, memory.Peak())
			all, lacking = sink.All(), reading.MissingChunks()
			c.Unread, c.Deferrals = strings.Join(reading.Unread(), "; "), deferrals(reading.Deferrals(), all)
			c.Stretches = stretches(all)
			return err
		}
		var found Result
		if err = present(); err == nil && !c.FindBefore() {
			c.Before, found, err = q.lastBefore(ctx, r)
			if err == nil && c.Before > 0 {
				err = present()
			}
		}
		res.add(found)
		res.add(Result{Incomplete: incomplete})
		res.Stats.RequestUnits = spent.Read().RUs // of all of them
		res.Complete = err == nil && res.Incomplete == nil
		return err
	})
	if err != nil {
		return c, res, err
	}
	c.Erased = orders.Times(r.Device, days)
	c.Breaks = breaks(all, lacking, isHidden)
	if r.Sequence == "" {
		return c, res, nil
	}
	numbers, err := q.Readings(ctx, Request{Tenant: r.Tenant, Devices: []string{r.Device}, Metrics: []string{r.Sequence},
		Range: days}, func(row Row) error {
		if v := row.Values[0].Value; v.Kind() == telemetry.Int {
			c.Numbers = append(c.Numbers, gaps.Number{At: row.Time, N: v.Int()})
		} else if f := v.Float(); v.Kind() == telemetry.Float && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			c.Numbers = append(c.Numbers, gaps.Number{At: row.Time, N: int64(f)})
		}
		return memory.Take(numberBytes)
	})
	res.add(numbers)
	res.Complete = err == nil && res.Incomplete == nil
	return c, res, err
}

// lastBefore returns when the last reading before the range was, 0 if Nearest finds none.
func (q *Querier) lastBefore(ctx context.Context, r GapsRequest) (at int64, res Result, err error) {
	res, err = q.Nearest(ctx, Request{Tenant: r.Tenant, Devices: []string{r.Device},
		Range: telemetry.Range{To: r.Range.From}}, func(l Last) error {
		at = max(at, l.Time)
		return nil
	})
	return at, res, err
}

// firstSeen returns since when the device is known, -1 if it is not, and why that may be wrong.
func (q *Querier) firstSeen(ctx context.Context, r GapsRequest) (at int64, incomplete []string, err error) {
	all, list, err := q.entries(ctx, Search{Tenant: r.Tenant, Limit: 1, Matchers: []catalog.Matcher{{Of: catalog.OfDevice,
		Values: []string{r.Device}, Match: func(id string) bool { return id == r.Device }}}})
	if len(all) > 0 && all[0].First <= all[0].Last {
		return all[0].First, list.Incomplete, err
	}
	return -1, list.Incomplete, err
}

// deferrals returns the deferred readings that may be of a device. Where the whole tenant waits they may be if its
// readings came by that partition before, or none are known.
func deferrals(all []heads.Deferral, present []merge.Present) (out []gaps.Deferral) {
	for _, w := range all {
		came := func(p merge.Present) bool { return p.Source.Partition == w.Partition }
		if w.Device != "" || len(present) == 0 || slices.ContainsFunc(present, came) {
			out = append(out, gaps.Deferral{Since: w.Since, Detail: w.HeadDeferral.String()})
		}
	}
	return out
}

// stretches returns the readings as they came. Within a chain they stand in the order of offsets: a reading before the
// times that are stored already is late.
func stretches(all []merge.Present) (out []gaps.Stretch) {
	type log struct {
		stream    uint32
		partition int32
	}
	furthest := map[log]int64{}
	for _, p := range all {
		of := log{p.Source.Stream, p.Source.Partition}
		reached, any := furthest[of]
		if !any {
			reached = math.MinInt64
		}
		cut := int64(0)
		if p.Header != nil {
			cut = p.Header.Cut
		}
		split, _ := slices.BinarySearch(p.Times, reached)
		if split > 0 {
			out = append(out, gaps.Stretch{Times: p.Times[:split], Late: true, Cut: cut})
		}
		if split < len(p.Times) {
			out = append(out, gaps.Stretch{Times: p.Times[split:], Cut: cut})
			furthest[of] = p.Times[len(p.Times)-1]
		}
	}
	return out
}

// breaks returns where chains lack chunks. Those of days that are not shown do not count: chunks of expired days vanish
// one by one, and erased ones are not among all.
func breaks(all []merge.Present, lacking []chunks.MissingChunks,
	isHidden func(telemetry.Day) bool) (out []gaps.Break) {
	type chain struct {
		day       telemetry.Day
		stream    uint32
		partition int32
	}
	chains := map[chain][]merge.Present{}
	for _, p := range all {
		if p.Header != nil && !isHidden(p.Header.ID.Day) {
			id := p.Header.ID
			of := chain{id.Day, id.Stream, id.Partition}
			chains[of] = append(chains[of], p)
		}
	}
	reported := map[telemetry.Day]bool{}
	for of, chunks := range chains {
		slices.SortFunc(chunks, func(a, b merge.Present) int { return int(a.Header.ID.Number) - int(b.Header.ID.Number) })
		next, begin := uint32(0), of.day.Start()
		for _, p := range chunks {
			if n := p.Header.ID.Number; n > next {
				reported[of.day] = true
				out = append(out, gaps.Break{Range: telemetry.Range{From: begin, To: p.Header.From}, Day: of.day,
					Detail: fmt.Sprintf("the chain of stream %d and partition %d lacks %s: run binnacle audit", of.stream,
						of.partition, numbers(next, n-1))})
			}
			next, begin = p.Header.ID.Number+1, max(begin, p.Header.To)
		}
	}
	for _, l := range lacking {
		if reported[l.Day] || isHidden(l.Day) {
			continue
		}
		begin := l.Day.Start()
		for of, chunks := range chains {
			if of.day == l.Day {
				begin = max(begin, chunks[len(chunks)-1].Header.To)
			}
		}
		out = append(out, gaps.Break{Range: telemetry.Range{From: begin, To: l.Day.End()}, Day: l.Day,
			Detail: l.Detail + ": run binnacle audit"})
	}
	return out
}

func numbers(from, to uint32) string {
	if from == to {
		return fmt.Sprintf("number %d", from)
	}
	return fmt.Sprintf("numbers %d to %d", from, to)
}
