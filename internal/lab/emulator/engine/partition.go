package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator/budget"
	"binnacle/internal/lab/emulator/kv"
	"binnacle/internal/lab/emulator/refusal"
	"binnacle/sharding/epk"
)

// partition is one physical partition of a container: a range of effective partition keys with a budget.
type partition struct {
	rangeRecord
	number  uint64 // the same as ID
	span           // Min and Max, decoded
	counter []byte // key of the counters in the store
	// budget limits the partition's RU/s; containers of a database with shared throughput share it.
	budget *budget.Budget
	meter  budget.Meter

	// mu orders the writes of the partition: what a write reads is what it changes, and log sequence
	// numbers become visible in their order.
	mu    sync.Mutex
	count counters // mu guards; set by counted
	// sequence gives the numbers of writes; answers name its last one.
	sequence *sequence
	gone     bool // it was split; mu guards
	// due is when the split for storage is done, in nanoseconds since 1970; 0: no split is due; mu guards.
	due int64
}

// counters are kept with every write, in its batch.
type counters struct {
	// lsn is the sequence number of the last write; never used again.
	lsn   uint64
	items int64
	bytes int64
	// modified is the _ts of the last write, which later ones do not fall below. The log has it, not the counters' key.
	modified int64
}

func newPartition(container uint32, r rangeRecord, b *budget.Budget) (*partition, error) {
	number, err := strconv.ParseUint(r.ID, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("the id %q of a physical partition is not a number", r.ID)
	}
	p := &partition{
		rangeRecord: r, number: number, budget: b,
		counter: append(appendPrefix(nil, spaceCounter, container), r.ID...), sequence: &sequence{},
	}
	p.Parents = slices.Clone(r.Parents)
	for i, a := range p.Parents {
		if p.Parents[i].number, err = strconv.ParseUint(a.ID, 10, 16); err != nil {
			return nil, fmt.Errorf("the id %q of a physical partition is not a number", a.ID)
		}
	}
	if p.span, err = keySpan(epk.Range{Min: r.Min, Max: r.Max}); err != nil {
		return nil, fmt.Errorf("the range %s to %s of a physical partition is not hexadecimal", r.Min, r.Max)
	}
	return p, nil
}

// positionBits is room for the operations of a transaction, at most 100, in the number of an item.
const positionBits = 7

// created numbers an item by the write that created it, and by its place in a transaction: unique in
// its container.
func (p *partition) created(lsn uint64, position int) uint64 {
	return p.number<<48 | (lsn<<positionBits|uint64(position))&(1<<48-1)
}

func partitionAt(parts []*partition, key []byte) *partition {
	i := sort.Search(len(parts), func(i int) bool { return bytes.Compare(parts[i].low, key) > 0 })
	return parts[i-1]
}

// admit lets a request run, or answers 429. What it is charged counts against this second, and the next ones.
func (p *partition) admit(call Call) error {
	ok, retry := p.budget.Admit(call.Now, call.Priority)
	if ok {
		return nil
	}
	p.meter.Throttle(call.Now)
	f := refusal.TooMany(retry, refusal.SubBudgetExceeded,
		"the request rate is too large: physical partition %s has no request units left in this second", p.ID)
	f.Charge = ru.Throttled
	return p.refuses(f)
}

// refuses says in a refusal which partition gave it, and when.
func (p *partition) refuses(f *refusal.Error) *refusal.Error {
	f.Range, f.LSN = p.ID, p.sequence.last.Load()
	return f
}

// charge takes the price of an admitted request.
func (p *partition) charge(call Call, rus float64) {
	p.budget.Spend(call.Priority, rus)
	p.meter.Add(call.Now, rus)
}

func (c counters) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, c.lsn)
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.items))
	return binary.BigEndian.AppendUint64(dst, uint64(c.bytes))
}

// counted sets the counters, under mu.
func (p *partition) counted(c counters) {
	p.count = c
	p.sequence.raise(c.lsn)
}

// load reads the counters of the partition; none are stored before its first write.
func (p *partition) load(from kv.Reader) error {
	e := from.Get(p.counter)
	if e == nil {
		return nil
	}
	v := e.Value()
	if len(v) != 24 {
		return errors.New("the counters of physical partition " + p.ID + " are damaged")
	}
	c := counters{
		lsn:   binary.BigEndian.Uint64(v),
		items: int64(binary.BigEndian.Uint64(v[8:])),
		bytes: int64(binary.BigEndian.Uint64(v[16:])),
	}
	for e := range p.newest(from) {
		c.modified = e.modified
		break
	}
	p.counted(c)
	return nil
}

// sequence gives out log sequence numbers: to one physical partition, or to all of a database with shared throughput. A
// number becomes visible when its write does, so that numbers are seen in their order.
type sequence struct {
	// mu is held from the choice of a number until it is visible, inside the lock of a partition.
	mu   sync.Mutex
	last atomic.Uint64 // visible
}

// raise makes a number visible, unless a later one is.
func (s *sequence) raise(lsn uint64) {
	for {
		last := s.last.Load()
		if lsn <= last || s.last.CompareAndSwap(last, lsn) {
			return
		}
	}
}

// take returns the next number, for a change that is no write of an item.
func (s *sequence) take() uint64 { return s.last.Add(1) }

// Stats is what one physical partition holds and has done since the Server was opened, or
// since ResetStats.
type Stats struct {
	ID    string `json:"id"`
	Min   string `json:"minInclusive"` // effective partition keys
	Max   string `json:"maxExclusive"`
	Items int64  `json:"items"` // stored, expired ones that are not removed yet included
	// Bytes is the size of the items' minified JSON without system properties.
	Bytes int64 `json:"bytes"`
	// Budget is RU/s; containers of a database with shared throughput share it.
	Budget float64 `json:"budgetRUs"`
	budget.Totals
}

func (p *partition) stats(now time.Time) Stats {
	s := Stats{ID: p.ID, Min: p.Min, Max: p.Max}
	p.mu.Lock()
	s.Items, s.Bytes = p.count.items, p.count.bytes
	p.mu.Unlock()
	s.Budget = p.budget.PerSecond()
	s.Totals = p.meter.Totals(now)
	return s
}

// Stats returns what the physical partitions hold and have done, in the order of their ranges.
func (c *Container) Stats(now time.Time) []Stats {
	var out []Stats
	for _, p := range c.parts() {
		out = append(out, p.stats(now))
	}
	return out
}

// State is a physical partition with where it came from and what it did in the last
// budget.HistorySeconds.
type State struct {
	Stats
	Parents []string        `json:"parents"` // ids of the partitions that it came from by splits, the oldest first
	History []budget.Second `json:"-"`
}

// States returns the physical partitions in the order of their ranges.
func (c *Container) States(now time.Time) []State {
	parts := c.parts()
	out := make([]State, len(parts))
	for i, p := range parts {
		out[i] = State{p.stats(now), p.parents(), p.meter.Last(now, budget.HistorySeconds)}
	}
	return out
}

// Range is a physical partition as clients route by it.
type Range struct {
	ID       string
	Min, Max string   // effective partition keys, half-open
	Parents  []string // ids of the partitions that it came from by splits, the oldest first
	Since    int      // number of the split that made it; 0 for none
	// LSN is the sequence number of the last write.
	LSN uint64
}

// Ranges returns the physical partitions in the order of their ranges.
func (c *Container) Ranges() []Range {
	parts := c.parts()
	out := make([]Range, len(parts))
	for i, p := range parts {
		out[i] = Range{p.ID, p.Min, p.Max, p.parents(), p.Since, p.sequence.last.Load()}
	}
	return out
}

func (p *partition) parents() []string {
	out := make([]string, len(p.Parents))
	for i, a := range p.Parents {
		out[i] = a.ID
	}
	return out
}
