package loadtest

import (
	"cmp"
	"math"
	"slices"
	"time"

	"binnacle/internal/lab/emulator"
	"binnacle/sharding/epk"
)

// Trace is what a layout was charged and refused over time, with what is bought. The page draws it.
type Trace struct {
	// StepSeconds is the width of a column.
	StepSeconds float64           `json:"step"`
	Partitions  []TracedPartition `json:"partitions"`
	Offered     []float64         `json:"offered"` // readings/s, by column
	Stored      []float64         `json:"stored"`  // readings/s
	Waited      []float64         `json:"waited"`  // longest time that a write waited for throughput, in seconds
	Marks       []Mark            `json:"marks"`
	// Epochs holds the times at which the balancer's epochs begin, in seconds.
	Epochs []float64 `json:"epochs,omitempty"`
}

// TracedPartition is one physical partition by column.
type TracedPartition struct {
	RUs       []float64 `json:"rus"`       // RU/s charged
	Throttled []float64 `json:"throttled"` // requests/s answered 429
	// Keys lists the keys in the order of the space.
	Keys []TracedKey `json:"keys"`
}

// TracedKey is a first-level key, or the partition key of a layout with one level.
type TracedKey struct {
	Name string    `json:"name"`
	RUs  []float64 `json:"rus"`

	at string // effective partition key
}

// Fate is what has become of a reading.
type Fate int

// The fates of readings.
const (
	StoredAtOnce Fate = iota
	StoredLate        // after a 429
	Refused           // each attempt was answered 429
)

// Mark is one reading of a sample: its time since the window opened, its physical partition, and its fate. Binnacle's
// readings stand where their chunk was written.
type Mark [3]float64

// The most that a trace has.
const (
	traceColumns = 60
	traceMarks   = 400
)

// recorder makes the Trace of a pass. Most methods of a nil recorder do nothing.
type recorder struct {
	from   time.Time
	step   time.Duration
	spans  []stretch
	long   []float64 // how many seconds of a column are measured
	trace  *Trace
	ranges []epk.Range
	keys   map[keyAt]*TracedKey
	stats  func() ([]emulator.PartitionStats, error)

	last []emulator.PartitionStats
	at   int // the column that is being recorded
	// every is the number of readings for each mark.
	every int
	count int
}

// keyAt is a first-level key in a physical partition.
type keyAt struct {
	name      string
	partition int
}

// newRecorder returns a recorder of the time in which a layout is measured.
func newRecorder(p pass, spans []stretch, stats func() ([]emulator.PartitionStats, error)) (*recorder, error) {
	from, until := spans[0].from, spans[len(spans)-1].to
	window := until.Sub(from)
	step := (window/traceColumns + time.Second - 1).Truncate(time.Second)
	if p.cfg.sliced {
		step, window = p.cfg.column(), p.cfg.Window
	}
	columns := int((window + step - 1) / step)
	now, err := stats()
	if err != nil {
		return nil, err
	}
	r := &recorder{from: from, step: step, spans: spans, stats: stats, last: now, keys: map[keyAt]*TracedKey{},
		trace: &Trace{StepSeconds: step.Seconds()}, long: make([]float64, columns)}
	for i := range r.long {
		start := from.Add(time.Duration(i) * step)
		for _, s := range spans {
			from, to := s.within(start, step)
			r.long[i] += max(0, to.Sub(from).Seconds())
		}
	}
	for range now {
		r.trace.Partitions = append(r.trace.Partitions,
			TracedPartition{RUs: make([]float64, columns), Throttled: make([]float64, columns)})
	}
	for _, p := range now {
		r.ranges = append(r.ranges, epk.Range{Min: p.Min, Max: p.Max})
	}
	r.trace.Offered, r.trace.Stored, r.trace.Waited = make([]float64, columns), make([]float64, columns),
		make([]float64, columns)
	r.every = 1
	return r, nil
}

// within returns the part of a stretch that is in a column; without one, to is not after from.
func (s stretch) within(start time.Time, step time.Duration) (from, to time.Time) {
	return slices.MaxFunc([]time.Time{s.from, start}, time.Time.Compare),
		slices.MinFunc([]time.Time{s.to, start.Add(step)}, time.Time.Compare)
}

// offered records how many readings a load publishes in the time that is measured.
func (r *recorder) offered(l *load) {
	whole := 0
	for _, s := range r.spans {
		whole += l.between(s.from, s.to)
	}
	turns := 0
	for _, s := range l.streams {
		turns += len(s.trucks)
	}
	r.every = max(1, int(math.Ceil(float64(whole)/traceMarks)))
	for gcd(r.every, turns*(tenants-1)) > 1 { // else the same devices or tenants are marked each time
		r.every++
	}
	for i := range r.trace.Offered {
		start := r.from.Add(time.Duration(i) * r.step)
		for _, s := range r.spans {
			if from, to := s.within(start, r.step); from.Before(to) {
				r.trace.Offered[i] += float64(l.between(from, to)) / r.long[i]
			}
		}
	}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func (r *recorder) column(at time.Time) int {
	return min(max(0, int(at.Sub(r.from)/r.step)), len(r.trace.Stored)-1)
}

func (r *recorder) advance(now time.Time) error {
	if r == nil || r.column(now) == r.at {
		return nil
	}
	if err := r.read(); err != nil {
		return err
	}
	r.at = r.column(now)
	return nil
}

// read adds what partitions have done since it was called last to the column.
func (r *recorder) read() error {
	stats, err := r.stats()
	if err != nil {
		return err
	}
	for i, s := range stats {
		p := &r.trace.Partitions[i]
		p.RUs[r.at] += (s.RUs - r.last[i].RUs) / r.long[r.at]
		p.Throttled[r.at] += float64(s.Throttled-r.last[i].Throttled) / r.long[r.at]
	}
	r.last = stats
	return nil
}

// tracedWrite is a document that was stored.
type tracedWrite struct {
	at       time.Time
	key, epk string // the first level, and the effective partition key of all levels
	rus      float64
	readings int
}

func (r *recorder) write(w tracedWrite) {
	if r == nil {
		return
	}
	at := keyAt{w.key, r.partition(w.epk)}
	k := r.keys[at]
	if k == nil {
		k = &TracedKey{w.key, make([]float64, len(r.trace.Stored)), w.epk}
		r.keys[at] = k
	}
	c := r.column(w.at)
	k.RUs[c] += w.rus / r.long[c]
	r.trace.Stored[c] += float64(w.readings) / r.long[c]
}

func (r *recorder) partition(at string) int {
	return max(0, slices.IndexFunc(r.ranges, func(x epk.Range) bool { return x.Contains(at) }))
}

// waited records that a write has waited for throughput for so long by now.
func (r *recorder) waited(now time.Time, d time.Duration) {
	if r != nil {
		w := &r.trace.Waited[r.column(now)]
		*w = max(*w, d.Seconds())
	}
}

// mark adds a mark with a fate for every r.every readings of a write. It returns the range of the new marks.
func (r *recorder) mark(w tracedWrite, fate Fate) (marks [2]int) {
	if r == nil {
		return marks
	}
	before := r.count / r.every
	r.count += w.readings
	marks[0] = len(r.trace.Marks)
	for range r.count/r.every - before {
		r.trace.Marks = append(r.trace.Marks, Mark{w.at.Sub(r.from).Seconds(), float64(r.partition(w.epk)), float64(fate)})
	}
	marks[1] = len(r.trace.Marks)
	return marks
}

func (r *recorder) settle(marks [2]int, fate Fate) {
	for i := marks[0]; i < marks[1]; i++ {
		r.trace.Marks[i][2] = float64(fate)
	}
}

func (r *recorder) end() (*Trace, error) {
	if r == nil {
		return nil, nil
	}
	if err := r.read(); err != nil {
		return nil, err
	}
	for at, k := range r.keys {
		p := &r.trace.Partitions[at.partition]
		p.Keys = append(p.Keys, *k)
	}
	for i := range r.trace.Partitions {
		p := &r.trace.Partitions[i]
		slices.SortFunc(p.Keys, func(a, b TracedKey) int {
			return cmp.Or(epk.Compare(a.at, b.at), cmp.Compare(a.Name, b.Name))
		})
		p.Keys = compact(p.Keys)
		each(p.RUs)
		each(p.Throttled)
		for _, k := range p.Keys {
			each(k.RUs)
		}
	}
	each(r.trace.Offered)
	each(r.trace.Stored)
	each(r.trace.Waited)
	return r.trace, nil
}

// compact makes neighbours one row where keys are more than a picture has lines. None is dropped.
func compact(keys []TracedKey) (out []TracedKey) {
	const most = 24
	if len(keys) <= most {
		return keys
	}
	for i := range most {
		some := keys[i*len(keys)/most : (i+1)*len(keys)/most]
		row := TracedKey{some[0].Name + " to " + some[len(some)-1].Name, make([]float64, len(some[0].RUs)), some[0].at}
		for _, k := range some {
			for c, v := range k.RUs {
				row.RUs[c] += v
			}
		}
		out = append(out, row)
	}
	return out
}

func each(figures []float64) {
	for i, f := range figures {
		figures[i] = math.Round(f*1e3) / 1e3
	}
}
