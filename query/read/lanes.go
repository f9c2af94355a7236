package read

import (
	"binnacle/binning/lane"
	"binnacle/internal/telemetry"
)

// LanesRequest says what lanes may answer in the place of samples: one metric, the only one of the request, on a grid.
type LanesRequest struct {
	Metric   string
	Grid     lane.Grid
	Families lane.Families
}

// LaneSink takes lanes beside pieces. Whatever is shown of a device and day is the same in both: a piece of a day that
// lanes show of its device has an Except.
type LaneSink interface {
	Sink
	// Show takes what lanes show of the devices of a first-level key on a day, once for each of them.
	Show(*Lanes) error
}

// Lanes is what lanes show of a first-level key and a day. It may be seen by others: it must not be changed.
type Lanes struct {
	Day   telemetry.Day
	Grid  lane.Grid
	Parts []LanePart
	Raw   map[string]bool // devices of which nothing here counts: their pieces have all of the day
}

// LanePart is documents that have one roster.
type LanePart struct {
	Roster    []lane.Series
	Documents []*LaneDocument
	Hours     lane.Hours            // that count, unless a device has others
	Of        map[string]lane.Hours // of devices that have others
}

// Counts is the hours of a device that count.
func (p *LanePart) Counts(device string) lane.Hours {
	if h, ok := p.Of[device]; ok {
		return h
	}
	return p.Hours
}

// LaneDocument is some hours of a family, decoded.
type LaneDocument struct {
	From, To int // hours
	Table    *lane.Table
	Rows     []int32       // of the table, by place in the roster; -1, and what is missing at the end, for none
	At0      []lane.Sample // by row; nil for none
}

// Row is where the table has the series at a place of the roster, -1 for nowhere.
func (d *LaneDocument) Row(place int) int {
	if place >= len(d.Rows) {
		return -1
	}
	return int(d.Rows[place])
}

// laneDay is a day of a first-level key, as a read takes it.
type laneDay struct {
	day    telemetry.Day
	asked  telemetry.Range // of the request, within the day
	ledger *ledger         // nil for none
	from   int             // hours that lanes show, up to and without to; none if that is no more
	to     int
	raw    map[string]bool // devices that are read from their chunks
}

func (d *laneDay) laned() bool { return d.from < d.to }

// shown is the instants that lanes show.
func (d *laneDay) shown() telemetry.Range {
	if !d.laned() {
		return telemetry.Range{From: d.asked.From, To: d.asked.From}
	}
	r := lane.Range(d.day, d.from, d.to)
	return telemetry.Range{From: max(r.From, d.asked.From), To: min(r.To, d.asked.To)}
}

// hours is those that lanes show.
func (d *laneDay) hours() lane.Hours { return lane.Span(d.from, d.to) }

// show decides which hours lanes answer for: the longest run of those that a ledger has, whose chunks are all there
// still, with what the request needs.
func (d *laneDay) show(l *ledger, ask *LanesRequest, now int64) {
	d.ledger = l
	needed := lane.HoursOf(d.day, d.asked.From, d.asked.To-1)
	for h := range lane.HoursOfDay {
		if until := l.Until[h]; until != 0 && until-int64(margin.Seconds()) <= now {
			needed &^= lane.Span(h, h+1)
		}
	}
	owners := l.owners(ask.Grid)
	for from := 0; from < lane.HoursOfDay; from++ {
		to := from
		for to < lane.HoursOfDay && needed.Has(to) && owners[to] >= 0 && has(&l.Batches[owners[to]], ask) {
			to++
		}
		if to-from > d.to-d.from {
			d.from, d.to = from, to
		}
		from = to
	}
	if !d.laned() {
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
		if !b.Fold || lane.Span(b.From, b.To)&shown == 0 || onGrid(b, ask.Grid) && has(b, ask) {
			continue
		}
		if late := l.later(i, owners, shown); late {
			for _, device := range b.Devices {
				d.raw[device] = true
			}
		}
	}
}

// has reports whether a batch answers for a metric: it has what is asked for, or nobody has samples.
func has(b *lane.Batch, ask *LanesRequest) bool {
	if b.Lacks(ask.Metric) {
		return false
	}
	m := b.Metric(ask.Metric)
	if m == nil {
		return true
	}
	for _, f := range ask.Families {
		if !m.Families.Has(f) {
			return false
		}
	}
	return true
}

func onGrid(b *lane.Batch, g lane.Grid) bool {
	for _, x := range b.Grids {
		if x == g {
			return true
		}
	}
	return false
}

// ledger is one that was read.
type ledger struct {
	*lane.Ledger
	container string
}

// owners is, by hour, the last batch of all devices that has it on a grid, -1 for none.
func (l *ledger) owners(g lane.Grid) (of [lane.HoursOfDay]int) {
	for h := range of {
		of[h] = -1
	}
	for i := range l.Batches {
		if b := &l.Batches[i]; !b.Fold && onGrid(b, g) {
			for h := b.From; h < b.To; h++ {
				of[h] = i
			}
		}
	}
	return of
}

// later reports whether a batch was made after the owner of one of its hours that are shown.
func (l *ledger) later(i int, owners [lane.HoursOfDay]int, shown lane.Hours) bool {
	b := &l.Batches[i]
	for h := b.From; h < b.To; h++ {
		if shown.Has(h) && owners[h] < i {
			return true
		}
	}
	return false
}

// folded is, by batch, the hours of devices that count of folds.
func (l *ledger) folded(g lane.Grid, owners [lane.HoursOfDay]int, shown lane.Hours) (of map[int]map[string]lane.Hours,
	taken map[string]lane.Hours) {
	of, taken = make(map[int]map[string]lane.Hours), make(map[string]lane.Hours)
	for i := len(l.Batches) - 1; i >= 0; i-- {
		b := &l.Batches[i]
		if !b.Fold || !onGrid(b, g) {
			continue
		}
		var hours lane.Hours
		for h := b.From; h < b.To; h++ {
			if shown.Has(h) && owners[h] < i {
				hours |= lane.Span(h, h+1)
			}
		}
		for _, device := range b.Devices {
			if mine := hours &^ taken[device]; mine != 0 {
				if of[i] == nil {
					of[i] = make(map[string]lane.Hours)
				}
				of[i][device] = mine
				taken[device] |= mine
			}
		}
	}
	return of, taken
}
