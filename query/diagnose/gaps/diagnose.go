// Package gaps finds the cause of each gap in a device's readings: the device or its network, the ingester that
// refused readings, or the store. It diagnoses only the evidence that it gets, and reads nothing. Its manual is
// docs/operate/diagnose.md.
//
// A verdict that blames the way to Kafka needs everything else ruled out. Where something is not known, that is the
// verdict.
package gaps

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"
)

// Verdict is the cause of a gap: what happened to the missing readings.
type Verdict string

// The verdicts.
const (
	Never     Verdict = "never"     // they have not reached Kafka: the device was silent, or they were lost before
	Lost      Verdict = "lost"      // the device sent them, by its sequence numbers, and they have not reached Kafka
	Silent    Verdict = "silent"    // the device sent nothing, by its sequence numbers
	Refused   Verdict = "refused"   // they are in the dead letters
	Late      Verdict = "late"      // they were missing for a while: they came behind later ones
	Expired   Verdict = "expired"   // their retention is over
	Erased    Verdict = "erased"    // an order of erasure covers their time
	Waiting   Verdict = "waiting"   // they are deferred in Kafka by a limit of the tenant
	Replaying Verdict = "replaying" // not all that is in Kafka is read yet
	Damaged   Verdict = "damaged"   // the store lacks a chunk that they may be in
	Unknown   Verdict = "unknown"   // a part of the evidence is missing
)

// Stretch is some readings of the device from one source.
type Stretch struct {
	Times []int64 // ascending
	Late  bool    // they came behind readings of later times
	Cut   int64   // time when they were stored, ms; 0 where they are in memory
}

// Refusal is a reading that was refused.
type Refusal struct {
	Time      int64 // event time, ms; -1 is not known
	Published int64 // about the time when it reached Kafka, ms
	Reason    decode.Reason
	Topic     string
	Partition int32
	Offset    int64
	Detail    string
}

// Deferral is readings that are in Kafka and wait for a limit of the tenant.
type Deferral struct {
	Since  int64 // time when the first of them was published, ms; negative is not known
	Detail string
}

// Break is a place where a chain lacks chunks. As chunks follow each other in time, their readings lie in the range.
type Break struct {
	telemetry.Range
	Day    telemetry.Day
	Detail string
}

// Evidence is everything known about a device that the diagnosis needs.
type Evidence struct {
	Range  telemetry.Range // to diagnose; it does not end behind now
	Known  int64           // the device's first reading, ms; -1 is not known
	Before int64           // its last reading before Range, ms: a gap from there on is judged as a whole; 0 is not known
	Expect time.Duration   // between readings; 0: as inferred

	Stretches []Stretch
	Numbers   []Number // sequence numbers, where readings carry one
	Refusals  []Refusal
	Breaks    []Break
	Deferrals []Deferral

	Expired     func(telemetry.Day) bool // nil is none
	Erased      []telemetry.Range        // times that orders of erasure cover, in order; no two meet
	Unread      string                   // why not all that is in Kafka is read; empty if it is
	DeadLetters string                   // why not all that was refused is known; empty if it is
	Nameless    []int64                  // times when records that name no device were refused, ms

	// strays are times when readings of unknown times were refused that fill no gap of that time: they came late.
	strays []int64
}

// Judged returns the range that the evidence must be of: Range, and before it a gap that reaches into it.
func (c *Evidence) Judged() telemetry.Range {
	if c.Before > 0 {
		return telemetry.Range{From: min(c.Before, c.Range.From), To: c.Range.To}
	}
	return c.Range
}

// FindBefore sets Before by the readings that are there. It reports false if they have none before Range, though a gap
// begins before it: then the caller must look further back.
func (c *Evidence) FindBefore() bool {
	present := c.present()
	i, _ := slices.BinarySearch(present, c.Range.From)
	if i > 0 {
		c.Before = present[i-1]
		return true
	}
	if c.Known < 0 || c.Known >= c.Range.From {
		return true
	}
	expect := c.Expect
	if expect == 0 {
		expect, _ = inferInterval(present)
	}
	return expect > 0 && len(present) > 0 &&
		!hole(mark{at: c.Range.From}, mark{at: present[0]}, expect.Milliseconds())
}

// Gap is a gap, or a part of one that has one cause.
type Gap struct {
	telemetry.Range // From is the reading before it, or the first that is missing where that is known; To likewise
	// Began is the start of a gap that began before the range, ms, else 0: Missing and Verdict are for the whole gap.
	Began     int64
	Missing   int // readings, about; 0 is not known
	Verdict   Verdict
	Reason    decode.Reason // reason of the refusal
	Topic     string        // topic of the first refused record
	Partition int32
	Offset    int64
	Arrived   int64 // time when the last late reading was stored, ms; 0 is not yet
	Detail    string
}

// Diagnosis is the verdicts on a device.
type Diagnosis struct {
	Expect   time.Duration // 0 where too little is known to infer it
	Inferred bool
	Readings int
	Gaps     []Gap
	TooMany  bool // there are more than MaxGaps, and Gaps is empty
}

// MaxGaps is the most gaps that a diagnosis has. With an interval that is far too short each reading has one behind it.
const MaxGaps = 10_000

// minToInfer is how many readings it takes to infer their interval.
const minToInfer = 4

// Diagnose finds the gaps and their causes.
func Diagnose(c Evidence) Diagnosis {
	present, asked := c.present(), c.Range
	c.Range = c.Judged()
	r := Diagnosis{Expect: c.Expect}
	for _, t := range present {
		if asked.Contains(t) {
			r.Readings++
		}
	}
	if r.Expect == 0 {
		r.Expect, r.Inferred = inferInterval(present)
	}
	if r.Expect == 0 {
		r.Gaps = cutAt(asked.From, c.breaksWithoutGap(nil))
		return r
	}
	line := c.line(present, r.Expect.Milliseconds())
	holes := c.missingGaps(line, r.Expect.Milliseconds())
	if len(c.Numbers) > 0 {
		known := slices.Clone(present)
		for _, m := range line {
			if m.refusal != nil {
				known = append(known, m.at)
			}
		}
		slices.Sort(known)
		c.applyNumbers(holes, known, r.Expect.Milliseconds())
	}
	r.Gaps = append(c.refusedGaps(line), holes...)
	r.Gaps = append(r.Gaps, c.lateGaps(r.Expect.Milliseconds())...)
	if r.TooMany = len(r.Gaps) > MaxGaps; r.TooMany {
		r.Gaps = nil
		return r
	}
	r.Gaps = cutAt(asked.From, append(r.Gaps, c.breaksWithoutGap(r.Gaps)...))
	slices.SortFunc(r.Gaps, func(a, b Gap) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return r
}

// cutAt leaves out gaps before an instant, and of others what is before it.
func cutAt(begin int64, all []Gap) []Gap {
	all = slices.DeleteFunc(all, func(g Gap) bool { return g.To <= begin })
	for i := range all {
		if g := &all[i]; g.From < begin {
			g.Began, g.From = g.From, begin
		}
	}
	return all
}

// present returns the instants of all readings, each once.
func (c *Evidence) present() (all []int64) {
	for _, s := range c.Stretches {
		all = append(all, s.Times...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// inferInterval returns the mean of the intervals near the third quartile: a device may send several readings at
// once.
func inferInterval(present []int64) (time.Duration, bool) {
	if len(present) < minToInfer {
		return 0, false
	}
	apart := make([]int64, len(present)-1)
	for i := range apart {
		apart[i] = present[i+1] - present[i]
	}
	slices.Sort(apart)
	most := apart[len(apart)*3/4]
	sum, n := int64(0), int64(0)
	for _, d := range apart {
		if d > most/2 && d <= most*3/2 {
			sum, n = sum+d, n+1
		}
	}
	return time.Duration(sum/n) * time.Millisecond, true
}

// mark is an instant with a reading, which is there or was refused.
type mark struct {
	at      int64
	refusal *Refusal // nil for one that is there
	about   bool     // the time is that of its record
}

// hole reports whether readings are missing between two marks.
func hole(a, b mark, expect int64) bool {
	most := expect * 3 / 2
	if a.about || b.about {
		most += expect // a record takes a while to get to Kafka
	}
	return b.at-a.at > most
}

// line returns all marks in the order of time. A refused reading that is there was published again, and is no mark. A
// reading with a wrong clock counts at the time when its record was published.
func (c *Evidence) line(present []int64, expect int64) (line []mark) {
	for _, t := range present {
		line = append(line, mark{at: t})
	}
	for i := range c.Refusals {
		f := &c.Refusals[i]
		m := mark{at: f.Time, refusal: f}
		if wrongClock := f.Reason == decode.Past || f.Reason == decode.Future || f.Reason == decode.Expired; f.Time < 0 ||
			wrongClock && !c.Range.Contains(f.Time) {
			m.at, m.about = f.Published, true
		}
		if !c.Range.Contains(m.at) {
			if f.Time < 0 {
				c.strays = append(c.strays, m.at)
			}
			continue
		}
		near, there := slices.BinarySearch(present, m.at)
		if m.about && !there {
			there = near > 0 && near < len(present) && !hole(mark{at: present[near-1]}, mark{at: present[near]}, expect)
		}
		if !there {
			line = append(line, m)
		} else if f.Time < 0 {
			c.strays = append(c.strays, m.at)
		}
	}
	slices.SortStableFunc(line, func(a, b mark) int { return cmp.Compare(a.at, b.at) })
	return line
}

// refusedGaps returns the runs of refused readings of one reason.
func (c *Evidence) refusedGaps(line []mark) (out []Gap) {
	for i := 0; i < len(line); {
		f := line[i].refusal
		if f == nil {
			i++
			continue
		}
		g := Gap{Range: telemetry.Range{From: line[i].at, To: line[i].at + 1}, Verdict: Refused, Reason: f.Reason,
			Topic: f.Topic, Partition: f.Partition, Offset: f.Offset, Detail: f.Detail}
		for ; i < len(line) && line[i].refusal != nil && line[i].refusal.Reason == f.Reason; i++ {
			g.To = line[i].at + 1
			g.Missing++
		}
		out = append(out, g)
	}
	return out
}

// missingGaps returns the gaps between marks, and before and behind them.
func (c *Evidence) missingGaps(line []mark, expect int64) (out []Gap) {
	begin := mark{at: c.Range.From}
	if c.Known >= c.Range.From || c.Known < 0 {
		begin.at = c.Range.To // nothing can be missing before the first one
		if len(line) > 0 {
			begin.at = line[0].at
		}
		if c.Known >= 0 {
			begin.at = min(begin.at, c.Known)
		}
	}
	end := mark{at: c.Range.To}
	all := append([]mark{begin}, line...)
	for i, a := range all {
		if len(out) > MaxGaps {
			break
		}
		b := end
		if i+1 < len(all) {
			b = all[i+1]
		}
		if b.at <= c.Range.From || a.at >= c.Range.To || !hole(a, b, expect) {
			continue
		}
		gap := telemetry.Range{From: max(a.at, c.Range.From), To: min(b.at, c.Range.To)}
		out = append(out, c.splitExpired(gap, expect)...)
	}
	return out
}

// splitExpired returns a gap with its verdict, apart from what of it lies in days that have expired.
func (c *Evidence) splitExpired(r telemetry.Range, expect int64) (out []Gap) {
	for day := telemetry.DayOf(r.From); c.Expired != nil && c.Expired(day) && day.Start() < r.To; day++ {
		part := telemetry.Range{From: max(r.From, day.Start()), To: min(r.To, day.End())}
		if n := len(out); n > 0 {
			out[n-1].To = part.To
		} else {
			out = append(out, Gap{Range: part, Verdict: Expired, Detail: "the tenant's retention is over"})
		}
		r.From = part.To
	}
	if len(out) == 0 || hole(mark{at: r.From}, mark{at: r.To}, expect) {
		out = append(out, c.splitErased(r, expect)...)
	}
	for i := range out {
		out[i].Missing = int(max(1, (out[i].To-out[i].From+expect/2)/expect-1))
	}
	return out
}

// splitErased returns a gap in days that have not expired with its verdict, apart from what of it was erased.
func (c *Evidence) splitErased(r telemetry.Range, expect int64) (out []Gap) {
	diagnose := func(r telemetry.Range) {
		if len(out) == 0 || hole(mark{at: r.From}, mark{at: r.To}, expect) {
			g := Gap{Range: r}
			g.Verdict, g.Detail = c.verdict(r)
			out = append(out, g)
		}
	}
	for _, e := range c.Erased {
		if e.From >= r.To || e.To <= r.From {
			continue
		}
		part := telemetry.Range{From: max(r.From, e.From), To: min(r.To, e.To)}
		if hole(mark{at: r.From}, mark{at: part.From}, expect) {
			diagnose(telemetry.Range{From: r.From, To: part.From})
		}
		out = append(out, Gap{Range: part, Verdict: Erased, Detail: "an order of erasure covers the time"})
		r.From = part.To
	}
	if r.From < r.To {
		diagnose(r)
	}
	return out
}

// verdict diagnoses a gap in days that have not expired. It concludes that readings never reached Kafka only when it
// has ruled out everything else.
func (c *Evidence) verdict(r telemetry.Range) (Verdict, string) {
	for _, b := range c.Breaks {
		if b.From < r.To && r.From < b.To {
			return Damaged, b.Detail
		}
	}
	for _, b := range c.Breaks {
		if b.Day.Start() < r.To && r.From < b.Day.End() {
			return Unknown, "readings that came out of order may be in it: " + b.Detail
		}
	}
	switch {
	case c.Unread != "":
		return Replaying, c.Unread
	case len(c.Deferrals) > 0:
		return c.deferredVerdict(r)
	case c.DeadLetters != "":
		return Unknown, c.DeadLetters
	case slices.ContainsFunc(c.strays, func(at int64) bool { return at >= r.To }):
		return Unknown, "readings of the device with unreadable times were refused later: they may be it"
	case slices.ContainsFunc(c.Nameless, r.Contains):
		return Unknown, "records that name no device were refused at that time: they may be it"
	}
	return Never, never
}

const never = "the device was silent, or its readings were lost on the way to Kafka: the two look alike"

// deferredVerdict diagnoses a gap while readings are deferred. Readings of a time when some were deferred are among
// them, or were lost before. Readings of an earlier time may have come late, and be among them too.
func (c *Evidence) deferredVerdict(r telemetry.Range) (Verdict, string) {
	for _, w := range c.Deferrals {
		if w.Since < 0 || r.To > w.Since {
			return Waiting, w.Detail
		}
	}
	return Unknown, "readings that came late may be among those that wait: " + c.Deferrals[0].Detail
}

// breaksWithoutGap returns the breaks that no gap shows: a chunk is missing all the same.
func (c *Evidence) breaksWithoutGap(shown []Gap) (out []Gap) {
	for _, b := range c.Breaks {
		overlaps := func(g Gap) bool { return g.Verdict == Damaged && g.From < b.To && b.From < g.To }
		if r := (telemetry.Range{From: max(b.From, c.Range.From), To: min(b.To, c.Range.To)}); !r.Empty() &&
			!slices.ContainsFunc(shown, overlaps) {
			out = append(out, Gap{Range: r, Verdict: Damaged, Detail: b.Detail})
		}
	}
	return out
}

// lateGaps returns the gaps that were there before late readings came. Readings that also came on time are not late:
// after a restart a reading may be in a chunk and in memory, and devices send things twice.
func (c *Evidence) lateGaps(expect int64) (out []Gap) {
	var onTime []int64
	for _, s := range c.Stretches {
		if !s.Late {
			onTime = append(onTime, s.Times...)
		}
	}
	slices.Sort(onTime)
	for _, s := range c.Stretches {
		if !s.Late {
			continue
		}
		for i := 0; i < len(s.Times) && len(out) <= MaxGaps; {
			at, twice := slices.BinarySearch(onTime, s.Times[i])
			if twice {
				i++
				continue
			}
			before, behind := mark{at: s.Times[i] - expect}, mark{at: s.Times[i] + expect}
			if at > 0 {
				before.at = onTime[at-1]
			}
			if at < len(onTime) {
				behind.at = onTime[at]
			}
			g := Gap{Range: telemetry.Range{From: s.Times[i]}, Verdict: Late, Arrived: s.Cut, Detail: arrived(s.Cut)}
			for ; i < len(s.Times) && (s.Times[i] < behind.at || at == len(onTime)); i++ {
				g.To = s.Times[i] + 1
				g.Missing++
			}
			if hole(before, behind, expect) && g.From < c.Range.To && c.Range.From < g.To {
				out = append(out, g)
			}
		}
	}
	return out
}

func arrived(cut int64) string {
	if cut == 0 {
		return "they came behind later readings, and are in memory"
	}
	return fmt.Sprintf("they came behind later readings, and were stored at %s", time.UnixMilli(cut).UTC().
		Format(time.RFC3339))
}
