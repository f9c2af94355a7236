package read

import (
	"crypto/sha256"
	"slices"

	"binnacle/binning/rollup"
	"binnacle/internal/telemetry"
)

// RollupsRequest says what rollups may answer instead of samples: the metrics of the request, on a grid.
type RollupsRequest struct {
	Metrics  []string
	Grid     rollup.Grid
	Families rollup.Families
}

// RollupSink takes rollups beside pieces. What they have of a device and day is the same in both: a piece of a day and
// device that rollups cover has an Except.
type RollupSink interface {
	Sink
	// AddRollups takes what rollups have of a first-level key on a day, once for each of them.
	AddRollups(*Rollups) error
}

// Rollups is what rollups have of a first-level key and a day. It is shared: it must not be changed.
type Rollups struct {
	Day   telemetry.Day
	Grid  rollup.Grid
	Parts []RollupPart
	Raw   map[string]bool // devices without rollups that count: their pieces have the whole day
}

// RollupPart is documents with one series index.
type RollupPart struct {
	Series    []rollup.Series
	Documents []*RollupDocument
	Hours     rollup.Hours            // that count, unless a device has others
	Of        map[string]rollup.Hours // of devices that have others
}

// Counts returns the hours of a device that count.
func (p *RollupPart) Counts(device string) rollup.Hours {
	if h, ok := p.Of[device]; ok {
		return h
	}
	return p.Hours
}

// RollupDocument is some hours of a metric and family, decoded.
type RollupDocument struct {
	Metric   string
	From, To int // hours
	Table    *rollup.Table
	Rows     []int32         // of the table, by place in the series index; -1 or beyond the end for none
	At0      []rollup.Sample // by row; nil for none
}

// Row returns the row of the table for a place in the series index, -1 for none.
func (d *RollupDocument) Row(place int) int {
	if place >= len(d.Rows) {
		return -1
	}
	return int(d.Rows[place])
}

// rollupDay is a day of a first-level key that is being read.
type rollupDay struct {
	day      telemetry.Day
	asked    telemetry.Range // of the request, within the day
	manifest *manifest       // nil for none
	since    []string        // the chunks that were stored after it
	from     int             // hours that rollups cover, up to and without to; none unless to is greater
	to       int
	raw      map[string]bool // devices that are read from their chunks
}

func (d *rollupDay) hasRollups() bool { return d.from < d.to }

// covered returns the instants that rollups cover.
func (d *rollupDay) covered() telemetry.Range {
	if !d.hasRollups() {
		return telemetry.Range{From: d.asked.From, To: d.asked.From}
	}
	r := rollup.Range(d.day, d.from, d.to)
	return telemetry.Range{From: max(r.From, d.asked.From), To: min(r.To, d.asked.To)}
}

// hours returns the hours that rollups cover.
func (d *rollupDay) hours() rollup.Hours { return rollup.Span(d.from, d.to) }

// cover chooses the hours that rollups answer for: the longest run of hours that the manifest has with all that the
// request needs, and with all chunks still stored.
func (d *rollupDay) cover(l *manifest, ask *RollupsRequest) {
	d.manifest = l
	needed := rollup.HoursOf(d.day, d.asked.From, d.asked.To-1)
	for h := range rollup.HoursOfDay {
		if l.expired(h) {
			needed &^= rollup.Span(h, h+1)
		}
	}
	owners := l.owners(ask.Grid)
	for from := 0; from < rollup.HoursOfDay; from++ {
		to := from
		for to < rollup.HoursOfDay && needed.Has(to) && owners[to] >= 0 && answers(&l.Batches[owners[to]], ask) {
			to++
		}
		if to-from > d.to-d.from {
			d.from, d.to = from, to
		}
		from = to
	}
	if !d.hasRollups() {
		return
	}
	shown := d.hours()
	for device, hours := range l.Raw {
		if hours&shown != 0 {
			d.raw[device] = true
		}
	}
	for i := range l.Batches {
		b := &l.Batches[i]
		if !b.Correction || l.later(i, owners)&shown == 0 || slices.Contains(b.Grids, ask.Grid) && answers(b, ask) {
			continue
		}
		for _, device := range b.Devices {
			d.raw[device] = true
		}
	}
}

// answers reports whether a batch can answer a request: it has what is needed, or no device has samples.
func answers(b *rollup.Batch, ask *RollupsRequest) bool {
	for _, metric := range ask.Metrics {
		if b.Omits(metric) {
			return false
		}
		m := b.Metric(metric)
		if m != nil && slices.ContainsFunc(ask.Families, func(f rollup.Family) bool { return !m.Families.Has(f) }) {
			return false
		}
	}
	return true
}

// manifest is a manifest that was read.
type manifest struct {
	*rollup.Manifest
	bytes int64
	sum   [sha256.Size]byte // of the document
	date  int64             // s since 1970 UTC, by the service's clock: when it was read; 0 is not known
}

// expired reports whether chunks of an hour may be gone from the store while the manifest is in use. The querier's own
// clock does not count.
func (l *manifest) expired(hour int) bool {
	by := l.date + int64((manifestsAge + margin).Seconds())
	return l.Until[hour] != 0 && (l.date == 0 || l.Until[hour] <= by)
}

// owners returns, by hour, the last batch of all devices that has it on a grid, -1 for none.
func (l *manifest) owners(g rollup.Grid) (of [rollup.HoursOfDay]int) {
	for h := range of {
		of[h] = -1
	}
	for i := range l.Batches {
		if b := &l.Batches[i]; !b.Correction && slices.Contains(b.Grids, g) {
			for h := b.From; h < b.To; h++ {
				of[h] = i
			}
		}
	}
	return of
}

// later returns the hours of a batch with an owner that was made before it.
func (l *manifest) later(i int, owners [rollup.HoursOfDay]int) (hours rollup.Hours) {
	for h := l.Batches[i].From; h < l.Batches[i].To; h++ {
		if owners[h] < i {
			hours |= rollup.Span(h, h+1)
		}
	}
	return hours
}

// corrected returns the hours of devices that corrections answer for, by batch and of all batches.
func (l *manifest) corrected(g rollup.Grid, owners [rollup.HoursOfDay]int,
	shown rollup.Hours) (of map[int]map[string]rollup.Hours,
	taken map[string]rollup.Hours) {
	of, taken = make(map[int]map[string]rollup.Hours), make(map[string]rollup.Hours)
	for i := len(l.Batches) - 1; i >= 0; i-- {
		b := &l.Batches[i]
		if !b.Correction || !slices.Contains(b.Grids, g) {
			continue
		}
		hours := l.later(i, owners) & shown
		for _, device := range b.Devices {
			if mine := hours &^ taken[device]; mine != 0 {
				if of[i] == nil {
					of[i] = make(map[string]rollup.Hours)
				}
				of[i][device] = mine
				taken[device] |= mine
			}
		}
	}
	return of, taken
}
