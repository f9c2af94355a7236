package tenantcopy

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/retry"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/sharding"

	"golang.org/x/sync/errgroup"
)

const (
	// passes is how often a part is read before what still differs counts as different.
	passes      = 10
	rereadPause = 200 * time.Millisecond
	// inFlight is how many devices are copied at once.
	inFlight = 8
	// listed is how many differences are kept, and containers.
	listed = 20
)

// entries are chunks by their names.
type entries map[chunkOf]*entry

// pass copies all that the target lacks, and counts what both have then.
func (c *Copier) pass(ctx context.Context, v facts) error {
	c.mu.Lock()
	r := &c.result
	r.Chains, r.Chunks, r.Erased, r.Rows, r.Through, r.OnlyTo, r.Expiring, r.Different = 0, 0, 0, 0, 0, 0, 0, nil
	c.mu.Unlock()
	clear(c.times) // an order may have come since they were counted
	sums := [2][]string{}
	for _, r := range c.ranges(v) {
		err := c.persist(ctx, func(ctx context.Context) error { return c.part(ctx, part{r, c.cfg.Device}, &sums) })
		if err != nil {
			return fmt.Errorf("copy %s of %s: %w", telemetry.DayOf(r.From), c.cfg.Tenant, err)
		}
		c.cfg.Progress(c.snapshot())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result.Digest, c.result.ToDigest = sumOf(sums[0]), sumOf(sums[1])
	return nil
}

func sumOf(digests []string) string {
	h := sha256.New()
	for _, d := range digests {
		h.Write([]byte(d))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (c *Copier) snapshot() Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.result
}

// part is a range of times, of one device or of all, that is read at once.
type part struct {
	telemetry.Range
	device string // empty: all
}

func comparePart(a, b part) int {
	return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.device, b.device))
}

// ranges returns what is copied one after the other: the times of the source's containers, day by day for a whole
// tenant, which may have many devices.
func (c *Copier) ranges(v facts) (out []telemetry.Range) {
	step, end := int64(telemetry.DayMillis), c.cfg.Days.From
	if c.cfg.Device != "" {
		step *= 30
	}
	for _, span := range c.spans(v) {
		for from := max(span.From, end); from < span.To; from = end { // spans may overlap
			end = min(from+step, span.To)
			out = append(out, telemetry.Range{From: from, To: end})
		}
	}
	return out
}

// spans returns the times of the source's containers, in order, each once.
func (c *Copier) spans(v facts) (out []telemetry.Range) {
	for _, container := range v.from.ContainersOf(c.cfg.Tenant, c.cfg.Days) {
		_, span, _ := sharding.ParseContainer(container)
		all := span.Range()
		out = append(out, telemetry.Range{From: max(c.cfg.Days.From, all.From), To: min(c.cfg.Days.To, all.To)})
	}
	slices.SortFunc(out, func(a, b telemetry.Range) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return slices.Compact(out)
}

// part copies the chunks of a part, until the target has them all when both are read.
func (c *Copier) part(ctx context.Context, p part, sums *[2][]string) error {
	for n := 1; ; n++ {
		both, err := c.read(ctx, p)
		if err != nil {
			return err
		}
		wrong := make(map[string][]chunkOf) // chunks of each device
		var different []string
		for name, e := range both.from {
			if why := c.differs(&both.facts, e, both.to[name]); why != "" {
				wrong[name.device] = append(wrong[name.device], name)
				different = append(different, fmt.Sprintf("%s of device %s: %s", e.ID, e.Device, why))
			}
		}
		if len(wrong) == 0 || c.cfg.DryRun || n == passes {
			slices.Sort(different)
			c.count(both, different, sums)
			return nil
		}
		if n > 1 {
			if err := retry.Pause(ctx, rereadPause); err != nil { // a replica may lag
				return err
			}
		}
		if err := c.put(ctx, p.Range, both.to, wrong); err != nil {
			return err
		}
	}
}

// sides are the chunks of both sides, and what the control documents said before they were read.
type sides struct {
	facts
	from, to entries
}

func (c *Copier) read(ctx context.Context, p part) (both sides, err error) {
	both = sides{from: make(entries), to: make(entries)}
	if both.facts, err = c.look(ctx, false); err != nil {
		return both, err
	}
	in := func(t tenant.Tenant) places { return places{t.Placement.VisitsOf(p.device, p.Range), 0} }
	isNew := false // a stream has begun just now
	_, err = c.scan(ctx, true, in(both.source), func(e *entry, _ []byte) error {
		both.from[nameOf(e, e.ID.Stream)] = e
		_, known := c.streamAt(e.ID.Stream)
		isNew = isNew || !known
		return nil
	})
	if err != nil || !both.isThere {
		return both, err
	}
	if isNew {
		if both.facts, err = c.look(ctx, true); err != nil {
			return both, err
		}
	}
	_, err = c.scan(ctx, false, in(both.target), func(e *entry, _ []byte) error {
		if of, isCopied := c.streamOf(e.ID.Stream); isCopied {
			both.to[nameOf(e, of)] = e
		}
		return nil
	})
	return both, err
}

func nameOf(e *entry, stream uint32) chunkOf {
	return chunkOf{e.Device, e.ID.Day, stream, e.ID.Partition, e.ID.Number}
}

// places are where chunks are read that were stored since a second, all if it is 0.
type places struct {
	visits []sharding.Visit
	since  int64
}

// scan calls yield with the chunks of a side. It returns the earliest of the times at which they were read, by the
// side's clock, zero if none is known.
func (c *Copier) scan(ctx context.Context, ofSource bool, in places, yield func(e *entry, doc []byte) error) (
	clock time.Time, err error) {
	side, pace := &c.cfg.To, c.toPace
	if ofSource {
		side, pace = &c.cfg.From, c.fromPace
	}
	for _, visit := range in.visits {
		scan := store.Scan{Key: visit.Key, Range: visit.Range, Since: in.since,
			Charge: func(rus float64) error { return c.pay(ctx, pace, rus) }}
		usage, err := side.Chunks.Scan(ctx, scan, func(doc []byte) error {
			e, err := parse(doc)
			if err != nil {
				return fmt.Errorf("%w: %w", errFinal, err)
			}
			e.Key.Container = visit.Container
			return yield(e, doc)
		})
		if err != nil && !errors.Is(err, store.ErrNoContainer) {
			return clock, err
		}
		if at := usage.Date; !at.IsZero() && (clock.IsZero() || at.Before(clock)) {
			clock = at
		}
	}
	return clock, nil
}

// differs returns how the target's chunk differs from the source's, empty if it does not.
func (c *Copier) differs(v *facts, e, at *entry) string {
	if _, ok := c.ttl(v, e); !ok {
		return ""
	}
	want := e.digest
	if c.order(v, e) != "" {
		want = erasedDigest(&e.Header)
	}
	switch {
	case at == nil:
		return "the target lacks it"
	case at.digest == want:
		return ""
	case at.IsFence():
		return "at the target a fence has its number"
	case at.IsErased():
		return "it is erased at the target alone"
	case e.IsErased() || want != e.digest:
		return "it is not erased at the target"
	}
	return "the target has another one"
}

// put copies chunks, in the order of their chains.
func (c *Copier) put(ctx context.Context, r telemetry.Range, to entries, wrong map[string][]chunkOf) error {
	v, err := c.look(ctx, false)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	for _, device := range slices.Sorted(maps.Keys(wrong)) {
		group.Go(func() error {
			return c.putDevice(ctx, v.source.Placement.VisitsOf(device, r), to, wrong[device])
		})
	}
	return group.Wait()
}

// source is a chunk of the source with its document.
type source struct {
	name chunkOf
	*entry
	doc []byte
}

func (c *Copier) putDevice(ctx context.Context, visits []sharding.Visit, to entries, wrong []chunkOf) error {
	var chunks []source
	_, err := c.scan(ctx, true, places{visits, 0}, func(e *entry, doc []byte) error {
		if name := nameOf(e, e.ID.Stream); slices.Contains(wrong, name) {
			chunks = append(chunks, source{name, e, bytes.Clone(doc)})
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(chunks, func(a, b source) int { return compareNames(a.name, b.name) })
	isPut := make(map[chunkOf]bool)
	for _, s := range chunks {
		before := s.name
		if before.number--; s.name.number > 0 && to[before] == nil && !isPut[before] {
			continue // a replica may lag that was asked for the chunks of the source
		}
		isPut[s.name] = true
		err := c.putChunk(ctx, s, to[s.name])
		if errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrChanged) {
			return nil // the chunk that came is looked at before the chain continues
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// putChunk creates the copy of a chunk, or replaces what the target has in its place: a fence, or rows that the
// source erased since (rules T3 and T4). Anything else stays as it is, and is different.
func (c *Copier) putChunk(ctx context.Context, s source, at *entry) error {
	for pauses := (retry.Policy{First: time.Second, Max: 5 * time.Second}).Begin(); ; {
		w, rus, err := c.write(ctx, s, at)
		if err == nil {
			return c.pay(ctx, c.toPace, rus)
		}
		if w == nil || !errors.Is(err, store.ErrNoContainer) {
			return err
		}
		if pauses.Count() == 0 {
			c.cfg.Logger.Warn("the copy waits until provision has made a container at the target", "tenant", c.cfg.Tenant,
				"container", w.key.Container)
		}
		if err := pauses.Wait(ctx); err != nil {
			return err
		}
	}
}

// writeTime is how long after a look at the orders a chunk may be stored: their sweep goes on for longer.
const writeTime = 3 * time.Minute

// write does the write that a chunk of the source needs, if it needs one. It returns what that cost.
func (c *Copier) write(ctx context.Context, s source, at *entry) (w *write, rus float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	if w, err = c.writeOf(ctx, s, at); err == nil && w != nil {
		rus, err = c.send(ctx, w)
	}
	return w, rus, err
}

// write is one write of a copy.
type write struct {
	key sharding.Key
	id  chunk.ID
	doc []byte
	at  *entry // the entry that it replaces; nil: nothing
}

// writeOf returns the write that a chunk of the source needs under the orders of now, nil for none.
func (c *Copier) writeOf(ctx context.Context, s source, at *entry) (*write, error) {
	v, err := c.look(ctx, false)
	if err != nil {
		return nil, err
	}
	order := c.order(&v, s.entry)
	isErased := s.IsErased() || order != ""
	if at != nil && !at.IsFence() && (at.IsErased() || !isErased) {
		return nil, nil // it is different
	}
	h := s.Header
	ttl, ok := c.ttl(&v, s.entry)
	stream, known := c.streamAt(s.ID.Stream)
	if !ok || !known {
		return nil, nil
	}
	if !v.to.CanPlace(h.To) {
		return nil, fmt.Errorf("chunk %s has readings that are too far in the future to be placed", h.ID)
	}
	w := &write{key: v.target.Placement.Key(s.Device, s.ID.Day, s.ID.Number), at: at}
	h.ID.Stream, h.TenantShard, h.TTL = stream, w.key.TenantShard, ttl
	w.id = h.ID
	if isErased {
		w.doc, err = chunk.EncodeErased(h, at.erasedBy(order))
	} else {
		w.doc, err = rewrite(s.doc, &h)
	}
	return w, err
}

// send does one write. It fails with store.ErrExists or store.ErrChanged where another document is there.
func (c *Copier) send(ctx context.Context, w *write) (rus float64, err error) {
	counter, receipt := &c.result.Replaced, store.Receipt{}
	if w.at != nil {
		receipt, err = c.cfg.To.Chunks.ReplaceChunk(ctx, store.Version{Key: w.at.Key, ID: w.id.String(), ETag: w.at.ETag},
			w.doc)
	} else {
		counter = &c.result.Copied
		if err := c.cfg.To.Directory.AskMonth(ctx, w.key.Container, ""); err != nil {
			return 0, err
		}
		if !c.cfg.To.Directory.Snapshot().HasContainer(w.key.Container) {
			return 0, store.ErrNoContainer // it is about to be dropped
		}
		receipt, err = c.cfg.To.Chunks.Create(ctx, w.key, w.id.String(), w.doc)
	}
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	*counter++
	c.result.Bytes += int64(len(w.doc))
	return receipt.RUs, nil
}

// count counts what both sides have of a part, and adds the digests of both.
func (c *Copier) count(both sides, different []string, sums *[2][]string) {
	v := &both.facts
	through := make(map[chunkOf]int64) // one for each chain
	var r Result
	for _, name := range slices.SortedFunc(maps.Keys(both.from), compareNames) {
		e, at := both.from[name], both.to[name]
		if e.Stored >= c.since {
			c.seen[name] = e.ETag
		}
		if _, ok := c.ttl(v, e); !ok {
			r.Expiring++
			continue
		}
		want, rows := e.digest, e.Rows
		if c.order(v, e) != "" {
			want, rows = erasedDigest(&e.Header), 0
		}
		device := deviceOf{e.Device, v.from.Streams[e.ID.Stream].Account()}
		if r.Chunks++; rows == 0 {
			r.Erased++
		} else if of, known := c.times[device]; known {
			c.times[device] = telemetry.Range{From: min(of.From, e.From), To: max(of.To, e.To)}
		} else {
			c.times[device] = telemetry.Range{From: e.From, To: e.To}
		}
		r.Rows += int64(rows)
		through[name.chain()] = e.Through
		sums[0] = append(sums[0], fmt.Sprintf("%v %x", name, want))
		if at != nil {
			sums[1] = append(sums[1], fmt.Sprintf("%v %x", name, at.digest))
		} else if c.cfg.DryRun {
			r.Copied, r.Bytes = r.Copied+1, r.Bytes+int64(e.size)
			r.Missing = append(r.Missing, c.containerOf(v, e)...)
		}
	}
	for name, at := range both.to {
		if both.from[name] == nil && !at.IsFence() {
			r.OnlyTo++
		}
	}
	for _, x := range through {
		r.Chains, r.Through = r.Chains+1, r.Through+x
	}
	if !c.cfg.DryRun {
		r.Different = different
	}
	c.mu.Lock()
	c.result.add(&r)
	c.mu.Unlock()
}

// containerOf returns the container that a copy needs and the target lacks, if it does.
func (c *Copier) containerOf(v *facts, e *entry) []string {
	of := &v.target
	if !v.isThere {
		of = &v.source
	}
	if name := of.Placement.ContainerOn(e.ID.Day); !v.to.HasContainer(name) {
		return []string{name}
	}
	return nil
}

func (r *Result) add(o *Result) {
	r.Copied, r.Bytes, r.Expiring = r.Copied+o.Copied, r.Bytes+o.Bytes, r.Expiring+o.Expiring
	r.Chains, r.Chunks, r.Erased, r.Rows = r.Chains+o.Chains, r.Chunks+o.Chunks, r.Erased+o.Erased, r.Rows+o.Rows
	r.Through, r.OnlyTo = r.Through+o.Through, r.OnlyTo+o.OnlyTo
	r.Different = append(r.Different, o.Different...)
	r.Different = r.Different[:min(len(r.Different), listed)]
	r.Missing = slices.Compact(slices.Sorted(slices.Values(append(r.Missing, o.Missing...))))
}

func compareNames(a, b chunkOf) int {
	return cmp.Or(cmp.Compare(a.device, b.device), cmp.Compare(a.day, b.day), cmp.Compare(a.stream, b.stream),
		cmp.Compare(a.partition, b.partition), cmp.Compare(a.number, b.number))
}
