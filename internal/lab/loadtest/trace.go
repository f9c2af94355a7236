package loadtest

import (
	"slices"
	"time"

	"binnacle/internal/lab/emulator"
)

// traceColumns is how many columns the measured time of a pass has, unless a column is an hour.
const traceColumns = 60

// trace records what the physical partitions of a pass were charged over time, and how long writes waited. Methods of
// a nil trace do nothing.
type trace struct {
	from  time.Time
	step  time.Duration // the width of a column
	spans []stretch
	stats func() ([]emulator.PartitionStats, error)

	last   []emulator.PartitionStats
	column int         // the one that is being recorded
	rates  [][]float64 // RU/s charged, by physical partition and column
	waited time.Duration
}

// newTrace returns the trace of the time in which a layout is measured.
func newTrace(p pass, spans []stretch, stats func() ([]emulator.PartitionStats, error)) (*trace, error) {
	from := spans[0].from
	window := spans[len(spans)-1].to.Sub(from)
	step := max(time.Second, (window/traceColumns + time.Second - 1).Truncate(time.Second))
	if p.cfg.sliced {
		step, window = time.Hour, p.cfg.Window
	}
	now, err := stats()
	if err != nil {
		return nil, err
	}
	t := &trace{from: from, step: step, spans: spans, stats: stats, last: now, rates: make([][]float64, len(now))}
	for i := range t.rates {
		t.rates[i] = make([]float64, (window+step-1)/step)
	}
	return t, nil
}

// advance ends the column that is being recorded where now is in a later one.
func (t *trace) advance(now time.Time) error {
	if t == nil {
		return nil
	}
	column := min(max(0, int(now.Sub(t.from)/t.step)), len(t.rates[0])-1)
	if column == t.column {
		return nil
	}
	err := t.read()
	t.column = column
	return err
}

// read adds what partitions were charged since it was called last to the column.
func (t *trace) read() error {
	stats, err := t.stats()
	if err != nil {
		return err
	}
	measured := t.measured()
	for i, s := range stats {
		t.rates[i][t.column] += (s.RUs - t.last[i].RUs) / measured
	}
	t.last = stats
	return nil
}

// measured returns how many seconds of the column are measured.
func (t *trace) measured() (seconds float64) {
	begins := t.from.Add(time.Duration(t.column) * t.step)
	for _, s := range t.spans {
		from := slices.MaxFunc([]time.Time{s.from, begins}, time.Time.Compare)
		to := slices.MinFunc([]time.Time{s.to, begins.Add(t.step)}, time.Time.Compare)
		seconds += max(0, to.Sub(from).Seconds())
	}
	return seconds
}

// wait records that a write has waited for throughput for so long.
func (t *trace) wait(d time.Duration) {
	if t != nil {
		t.waited = max(t.waited, d)
	}
}

// busiest returns the load of the busiest column over the mean, of all partitions together; 1 without a load.
func (t *trace) busiest() float64 {
	columns := make([]float64, len(t.rates[0]))
	sum := 0.0
	for _, rates := range t.rates {
		for c, rus := range rates {
			columns[c] += rus
			sum += rus
		}
	}
	if sum == 0 {
		return 1
	}
	return slices.Max(columns) * float64(len(columns)) / sum
}
