package decode

import (
	"errors"
	"slices"

	"binnacle/internal/telemetry"
)

// The readings of a record, written out, may take leastMade bytes and madeTimes the bytes of the record as it came,
// and never more than mostMade, as readingBytes and the like count them. The bound is the same in every process, so
// that a replay decides alike. docs/reference/payloads.md states it.
const (
	leastMade = 16 << 20
	madeTimes = 8
	mostMade  = 192 << 20
)

// Memory of a reading, of a value, of a label or tag, and of a fault, without their names and texts.
const (
	readingBytes = 160
	fieldBytes   = 48
	pairBytes    = 32
	faultBytes   = 64
)

// sharedPart is the part of a set that each reading with it counts: to compare and to hash it takes time each time.
const sharedPart = 32

// madeSlack is more than what values of a message take that are counted together.
const madeSlack = 1 << 20

// reportEvery is after how many bytes a Meter is called again.
const reportEvery = 1 << 20

// Meter measures how much memory a record takes while it is decoded. Made is called with more each time, and may wait.
type Meter interface{ Made(bytes int) }

// made counts what becomes of a record before it is made: a short record may name much by reference, or pack it.
type made struct {
	meter Meter // nil without a Meter

	// Of the current record.
	most    int
	bytes   int // readings and faults
	message int // the message that is read, which may be refused
	working int // everything that is needed until the record has been read
	shown   int // to the meter
	over    bool
	labels  countedSet // the last reading's
	tags    countedSet
}

// countedSet is a set of labels or tags, and its bytes. The next reading with the same one counts a part of them.
type countedSet struct {
	set   telemetry.Labels
	bytes int
}

// errTooMuch ends the reading of a record that becomes too much.
var errTooMuch = errors.New("the record becomes too much")

func (m *made) begin(size int) {
	*m = made{meter: m.meter, most: min(leastMade+madeTimes*size, mostMade)}
	m.work(size)
}

// work counts memory that is needed until the record has been read.
func (m *made) work(bytes int) {
	m.working += bytes
	m.report()
}

// add counts what stays of the record.
func (m *made) add(bytes int) {
	m.bytes += bytes
	m.over = m.over || m.bytes > m.most
	m.report()
}

// part counts a part of the message that is read. It fails when the record becomes too much by it.
func (m *made) part(bytes int) error {
	m.message += bytes
	if m.report(); m.bytes+m.message > m.most+madeSlack {
		m.over = true
	}
	return m.check()
}

// check fails when the record has become too much.
func (m *made) check() error {
	if m.over {
		return errTooMuch
	}
	return nil
}

// report shows the meter what the record takes.
func (m *made) report() {
	if now := m.working + m.bytes + m.message; m.meter != nil && now-m.shown >= reportEvery {
		m.shown = now
		m.meter.Made(now)
	}
}

// reading counts a reading, and ends its message.
func (m *made) reading(r *telemetry.Reading) {
	n := readingBytes + m.sets(r)
	for i := range r.Fields {
		n += fieldCost(&r.Fields[i])
	}
	m.message = 0
	m.add(n)
}

func fieldCost(f *telemetry.Field) int {
	return fieldBytes + len(f.Metric) + len(f.Value.Text())
}

// sets returns what labels and tags of a reading take: little where the reading before has the same.
func (m *made) sets(r *telemetry.Reading) int { return m.labels.next(r.Labels) + m.tags.next(r.Tags) }

func (c *countedSet) next(set telemetry.Labels) (n int) {
	if !slices.Equal(set, c.set) {
		c.set, c.bytes = set, setBytes(set)
		n = c.bytes
	}
	return n + c.bytes/sharedPart
}

func setBytes(l telemetry.Labels) (n int) {
	for i := range l {
		n += pairBytes + len(l[i].Name) + len(l[i].Value)
	}
	return n
}

// tooMuch returns why a record that becomes too much is refused.
func (m *made) tooMuch() *fault {
	return faultf(TooLarge, "the record's readings take more than %d bytes with all names, labels and texts written out; "+
		"%d bytes and %d times the record are allowed, and at most %d", m.most, leastMade, madeTimes, mostMade)
}

// asFault returns an error of part or of a name as why a record, or an element of it, is refused.
func (m *made) asFault(err error) *fault {
	var f *fault
	if !errors.As(err, &f) {
		f = m.tooMuch()
	}
	return f
}

// Made returns about how many bytes of memory the last Result takes.
func (d *Decoder) Made() int { return d.made.bytes }

// Release gives back the memory that only a large record needs. The last Result is not valid any more.
func (d *Decoder) Release() {
	d.fields.release()
	d.key, d.pairs, d.others = nil, nil, nil
	d.groups, d.out = groups{}, Result{}
	clear(d.readers)
}
