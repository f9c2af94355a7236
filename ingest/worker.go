package ingest

import (
	"fmt"
	"sync"
	"time"

	"binnacle/binning"
	"binnacle/binning/chunk"
	"binnacle/ingest/decode"
	"binnacle/internal/control"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// Worker is the protocol for one partition: it takes records in the order of the log, keeps them in
// bins, says what is to be written, and knows up to where the log may be committed. It does nothing by itself: it has
// no goroutine and no I/O. docs/protocol.md has its rules.
//
// One goroutine owns it. Only Snapshot, CaughtUp and Position may be called by others.
type Worker struct {
	cfg       Config
	partition int32
	stream    uint32
	memory    *Memory
	metrics   *metrics
	decoder   *decode.Decoder

	assigned int64 // when the partition came here, ms: chains of earlier days may have chunks (W3)
	chains   map[chainKey]*chain
	devices  map[deviceKey]*device
	timers   dueHeap
	ready    []*chain
	writes   int // creates and lookups under way
	letters  deadLetters
	refused  map[string]time.Time // tenants that are not registered, as of a reading of the map
	drain    bool
	suspect  int64 // highest tail learnt from the store: it must lie below the log's end (W9)
	swept    time.Time

	candidate *control.Mark // of a record that is not committed yet
	stamped   time.Time

	mu       sync.Mutex // guards what a head shows: the fields below, and each chain's bin, flight and linger
	position int64
	caughtUp int64
}

// Assignment is what a partition is taken over with.
type Assignment struct {
	Partition int32
	Stream    uint32
	Position  int64 // offset to read next
	LogEnd    int64 // as of the assignment
}

func newWorker(cfg Config, a Assignment, memory *Memory, m *metrics) *Worker {
	return &Worker{
		cfg: cfg, partition: a.Partition, stream: a.Stream, memory: memory, metrics: m,
		decoder:  decode.New(cfg.Decode),
		assigned: cfg.Now().UnixMilli(),
		chains:   map[chainKey]*chain{},
		devices:  map[deviceKey]*device{},
		refused:  map[string]time.Time{},
		position: a.Position, caughtUp: a.LogEnd,
		suspect: -1,
	}
}

// UnknownTenant asks for a tenant to be registered, or for a newer map; then the record is fed again.
type UnknownTenant struct{ Tenant string }

// Error names the tenant.
func (e *UnknownTenant) Error() string { return fmt.Sprintf("tenant %q is not in the map", e.Tenant) }

// StaleMap asks for a newer map: this one can't place so late a reading (rule W1). The record is fed again.
type StaleMap struct{ Time int64 }

// Error names the time.
func (e *StaleMap) Error() string {
	return fmt.Sprintf("the map is too old to place %s", time.UnixMilli(e.Time).UTC().Format(time.RFC3339))
}

// Feed takes the next record. It fails with *UnknownTenant or *StaleMap before it has taken anything of it.
// Records below the position are skipped.
func (w *Worker) Feed(rec Record, view *control.View) error {
	if rec.Offset < w.position {
		return nil
	}
	result := w.decoder.Decode(decode.Record{Value: rec.Value, ContentType: rec.contentType(), Timestamp: rec.Time})
	if err := w.placeable(rec, result, view); err != nil {
		return err
	}
	for _, bad := range result.Bad {
		w.refuse(rec, bad)
	}
	oversize := w.oversize(rec, result)
	w.mu.Lock()
	for i := range result.Readings {
		r := &result.Readings[i]
		if bad := w.verdict(rec, r, view, oversize); bad != nil {
			bad.Index = result.Index[i]
			w.refuse(rec, *bad)
			continue
		}
		w.take(rec.Offset, r)
	}
	w.position = rec.Offset + 1
	w.mu.Unlock()
	if w.candidate == nil {
		m := rec.mark()
		w.candidate = &m
	}
	w.metrics.records.Inc()
	return nil
}

// Skip moves the position past offsets that hold no record, such as a transaction's markers.
func (w *Worker) Skip(next int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.position = max(w.position, next)
}

// freshMap is the age below which a map that can't place a reading is not read again: the next one could not place it either.
const freshMap = time.Minute

// placeable tells whether the map is good enough for every reading of a record that will not be refused anyway.
func (w *Worker) placeable(rec Record, result decode.Result, view *control.View) error {
	for i := range result.Readings {
		r := &result.Readings[i]
		if w.isFuture(rec, r) {
			continue
		}
		if _, ok := view.Tenant(r.Tenant); !ok && (w.cfg.Register || !view.ReadAt.Equal(w.refused[r.Tenant])) {
			return &UnknownTenant{r.Tenant}
		}
		if !view.Places(r.Time) && w.cfg.Now().Sub(view.ReadAt) > freshMap {
			return &StaleMap{r.Time}
		}
	}
	return nil
}

// isFuture tells whether an event time lies too far after the record's Kafka timestamp. A record without one
// is not judged.
func (w *Worker) isFuture(rec Record, r *telemetry.Reading) bool {
	return rec.Time >= 0 && r.Time > rec.Time+w.cfg.Future.Milliseconds()
}

// Unregistered remembers that a tenant was not in the map of this reading: until the map is read again its
// readings are dead letters.
func (w *Worker) Unregistered(tenant string, view *control.View) { w.refused[tenant] = view.ReadAt }

// verdict says why a reading is refused, nil if it is taken. It depends on stored facts only, so that a replay decides
// alike: times are judged by the record's Kafka timestamp, not by the clock (rule W10). The exception is a time that no map
// can place yet, because the record's timestamp is itself far ahead: it must not hold up its partition until then.
func (w *Worker) verdict(rec Record, r *telemetry.Reading, view *control.View, oversize map[chainKey]bool) *decode.Bad {
	if w.isFuture(rec, r) {
		return &decode.Bad{Reason: decode.Future, Detail: fmt.Sprintf("event time is %s after the record's timestamp; %s is allowed",
			time.Duration(r.Time-rec.Time)*time.Millisecond, w.cfg.Future)}
	}
	if !view.Places(r.Time) {
		return &decode.Bad{Reason: decode.Future, Detail: fmt.Sprintf("event time %s can't be placed yet, though the record's timestamp allows it",
			time.UnixMilli(r.Time).UTC().Format(time.RFC3339))}
	}
	tenant, ok := view.Tenant(r.Tenant)
	if !ok {
		return &decode.Bad{Reason: decode.UnknownTenant, Detail: fmt.Sprintf("tenant %q is not registered", r.Tenant)}
	}
	day := telemetry.DayOf(r.Time)
	if rec.Time >= 0 && tenant.Expired(day, rec.Time) {
		return &decode.Bad{Reason: decode.Expired, Detail: fmt.Sprintf("the retention of %s is over for %s", tenant.Retention, day)}
	}
	if oversize[chainKey{r.Tenant, r.Device, day}] {
		return &decode.Bad{Reason: decode.TooLarge, Detail: "the record's readings of this device and day do not fit one document"}
	}
	return nil
}

func (w *Worker) refuse(rec Record, bad decode.Bad) {
	w.letters.add(DeadLetter{Topic: w.cfg.Topic, Partition: w.partition, Record: rec, Bad: bad})
	w.metrics.refused.WithLabelValues(string(bad.Reason)).Inc()
}

// Documents above a megabyte fall off a cliff in request units, and the service takes no more than two.
const maxDocument = 1 << 20

// A payload below this size can't make a document that large, whatever is in it.
const smallPayload = maxDocument / 8

// oversize is the chains of a large record whose readings would not fit one document, which a cut may not
// divide (rule W2).
func (w *Worker) oversize(rec Record, result decode.Result) map[chainKey]bool {
	if len(rec.Value) < smallPayload {
		return nil
	}
	parts := map[chainKey]*binning.Rows{}
	for _, r := range result.Readings {
		key := chainKey{r.Tenant, r.Device, telemetry.DayOf(r.Time)}
		if parts[key] == nil {
			parts[key] = new(binning.Rows)
		}
		parts[key].Append(rec.Offset, r)
	}
	over := map[chainKey]bool{}
	for key, rows := range parts {
		h := chunk.Header{
			ID: chunk.ID{Day: key.day, Partition: w.partition}, TenantShard: key.tenant, Device: key.device,
			First: rec.Offset, Through: rec.Offset, After: -1, Readings: rows.Readings(),
		}
		doc, err := chunk.Encode(h, rows.Frame(binning.All, nil))
		over[key] = err != nil || len(doc) > maxDocument
	}
	return over
}

// take puts a reading into its bin, unless the store has it (rule W4). The caller holds the lock.
func (w *Worker) take(offset int64, r *telemetry.Reading) {
	key := chainKey{r.Tenant, r.Device, telemetry.DayOf(r.Time)}
	c := w.chains[key]
	if c == nil {
		c = w.open(key)
	}
	dev := w.device(key.deviceKey())
	dev.observe(offset, r)
	w.metrics.readings.Inc()
	if c.known && offset <= c.tail {
		w.metrics.replayed.Inc()
		return
	}
	now := w.cfg.Now()
	before := 0
	if c.bin.Readings() == 0 {
		w.begin(c, dev, now)
	} else {
		before = c.bin.Bytes()
	}
	c.bin.Append(offset, *r)
	c.used = now
	w.memory.add(c.bin.Bytes() - before)
	if c.bin.Values() >= c.trial && dev.sizer.Full(c.bin.Values()) || crowded(c) {
		w.ask(c, CutSize)
	}
}

// crowded tells whether a bin has so many readings, however small they are when encoded, that it must be cut: half of what
// a chunk takes.
func crowded(c *chain) bool {
	return c.bin.Readings() >= chunk.MaxRows/2 || c.bin.Values() >= chunk.MaxValues/2
}

// open makes the state of a chain. A chain whose day begins after the assignment can't have a chunk that is not
// from here, or the create will tell (rule W3).
func (w *Worker) open(key chainKey) *chain {
	c := &chain{key: key, tail: -1, known: key.day.Start() >= w.assigned}
	w.chains[key] = c
	d := w.device(key.deviceKey())
	d.chains = append(d.chains, c)
	return c
}

// begin starts the clock of a bin that gets its first reading.
func (w *Worker) begin(c *chain, dev *device, now time.Time) {
	hold := w.cfg.Hold
	if !dev.held {
		dev.held = true
		hold = binning.FirstHold(c.key.device, hold)
	}
	c.opened, c.due, c.trial = now, now.Add(hold), 0
	w.timers.push(c)
}

func (w *Worker) device(key deviceKey) *device {
	d := w.devices[key]
	if d == nil {
		d = &device{key: key}
		w.devices[key] = d
	}
	return d
}

// ask has a chain cut as soon as nothing stands in its way.
func (w *Worker) ask(c *chain, why Reason) {
	if c.want == "" {
		c.want = why
	}
	if !c.queued {
		c.queued = true
		w.ready = append(w.ready, c)
	}
}

// Position is the offset of the next record to be taken.
func (w *Worker) Position() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.position
}

// CaughtUp tells whether everything was taken that was in the log at the assignment.
func (w *Worker) CaughtUp() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.position >= w.caughtUp
}

// Floor is the offset that may be committed: everything below it is stored, or refused and acknowledged, and in the
// catalog (rule W7).
func (w *Worker) Floor() int64 {
	floor := w.position
	lower := func(offset int64, ok bool) {
		if ok {
			floor = min(floor, offset)
		}
	}
	for _, c := range w.chains {
		lower(c.first())
	}
	for _, d := range w.devices {
		lower(d.first())
	}
	lower(w.letters.first())
	return floor
}

// Suspect is the highest tail that the store told of and that this worker has not read past: it proves another
// incarnation of the log when the log ends at or below it (rule W9). ok is false when there is none.
func (w *Worker) Suspect() (tail int64, ok bool) {
	if w.suspect < w.position {
		return 0, false
	}
	return w.suspect, true
}

// Trusted says that the log reaches beyond the suspect.
func (w *Worker) Trusted() { w.suspect = -1 }

// chainOf is the chain as the store names it.
func (w *Worker) chainOf(c *chain) store.Chain {
	return store.Chain{Day: c.key.day, Stream: w.stream, Partition: w.partition}
}

// OpenBins is how many bins hold readings.
func (w *Worker) OpenBins() (n int) {
	for _, c := range w.chains {
		if c.bin.Readings() > 0 {
			n++
		}
	}
	return n
}

// Release gives back the memory of a worker that is dropped.
func (w *Worker) Release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.chains {
		w.memory.add(-c.bytes())
	}
}
