package gaps_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"
	"binnacle/query/diagnose/gaps"

	"github.com/stretchr/testify/require"
)

const expect = int64(10_000)

var begin = telemetry.DayOf(time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC).UnixMilli()).Start()

// segment is some readings in a row of which something became.
type segment struct {
	first, n int // slots of the expected interval since begin
	verdict  gaps.Verdict
	reason   decode.Reason
}

// history is three days of a device, of which the first has expired and the last may lack a chunk.
type history struct {
	random   *rand.Rand
	c        gaps.Evidence
	present  []int64
	segments []segment
}

const slotsOfDay = int(telemetry.DayMillis / expect)

// make puts causes at random places, with readings between them.
func newHistory(seed uint64) *history {
	h := &history{random: rand.New(rand.NewPCG(seed, 0))}
	r := telemetry.Range{From: begin, To: begin + 3*telemetry.DayMillis}
	h.c = gaps.Evidence{Range: r, Known: begin - telemetry.DayMillis,
		Expired: func(d telemetry.Day) bool { return d == telemetry.DayOf(begin) }}
	damage := h.random.IntN(2) == 0
	if h.random.IntN(4) == 0 {
		h.c.Unread = "partition 3 is being replayed"
	}
	if h.random.IntN(3) == 0 {
		since := begin + telemetry.DayMillis + h.random.Int64N(2*telemetry.DayMillis)
		h.c.Deferrals = []gaps.Deferral{{Since: since, Detail: "readings wait for the limit values"}}
	}
	if h.random.IntN(4) == 0 {
		h.c.DeadLetters = "of what was refused earlier only a part is kept"
	}
	if h.random.IntN(2) == 0 {
		h.c.Expect = time.Duration(expect) * time.Millisecond
	}
	h.segments = []segment{{0, slotsOfDay, gaps.Expired, ""}}
	for slot := slotsOfDay; slot < 3*slotsOfDay; {
		ok := 5 + h.random.IntN(400)
		for range min(ok, 3*slotsOfDay-slot) {
			h.present = append(h.present, h.at(slot))
			slot++
		}
		if n := 1 + h.random.IntN(60); slot+n+5 < 3*slotsOfDay {
			h.cause(slot, n, damage && slot/slotsOfDay == 2)
			slot += n
		}
	}
	h.c.Stretches = append(h.c.Stretches, gaps.Stretch{Times: h.present, Cut: 1})
	return h
}

// at is when the reading of a slot was taken.
func (h *history) at(slot int) int64 { return begin + int64(slot)*expect + h.random.Int64N(expect/10) }

// cause lets something become of readings, and notes what must be found.
func (h *history) cause(first, n int, damage bool) {
	s := segment{first: first, n: n}
	refuse := func(reason decode.Reason, event func(at int64) int64) {
		s.verdict, s.reason = gaps.Refused, reason
		for i := range n {
			at := h.at(first + i)
			h.c.Refusals = append(h.c.Refusals, gaps.Refusal{Time: event(at), Published: at + h.random.Int64N(2000),
				Reason: reason, Offset: int64(first + i)})
		}
	}
	switch h.random.IntN(7) {
	case 0:
		refuse(decode.Value, func(at int64) int64 { return at })
	case 1:
		refuse(decode.Undecodable, func(int64) int64 { return -1 })
	case 2:
		refuse(decode.Future, func(at int64) int64 { return at + 400*telemetry.DayMillis })
	case 3:
		s.verdict = gaps.Late
		var times []int64
		for i := range n {
			times = append(times, h.at(first+i))
		}
		h.c.Stretches = append(h.c.Stretches, gaps.Stretch{Times: times, Late: true, Cut: begin + 4*telemetry.DayMillis})
	case 4:
		if damage {
			s.verdict = gaps.Damaged
			h.c.Breaks = append(h.c.Breaks, gaps.Break{Day: telemetry.DayOf(begin) + 2, Detail: "number 7 is missing",
				Range: telemetry.Range{From: h.at(first) - expect/2, To: h.at(first+n) - expect/2}})
			break
		}
		fallthrough
	case 5:
		if h.random.IntN(5) == 0 {
			s.verdict = gaps.Unknown
			h.c.Nameless = append(h.c.Nameless, h.at(first+h.random.IntN(n)))
			break
		}
		fallthrough
	default:
		s.verdict = gaps.Never
	}
	h.segments = append(h.segments, s)
}

// truth is what must be said of a segment: what is not known can't be ruled out.
func (h *history) truth(s segment) gaps.Verdict {
	if s.verdict != gaps.Never && s.verdict != gaps.Unknown {
		return s.verdict
	}
	broken := slices.ContainsFunc(h.c.Breaks, func(b gaps.Break) bool {
		first, last := begin+int64(s.first)*expect, begin+int64(s.first+s.n)*expect
		return b.Day == telemetry.DayOf(first) || b.Day == telemetry.DayOf(last)
	})
	switch {
	case broken:
		return gaps.Unknown
	case h.c.Unread != "":
		return gaps.Replaying
	case len(h.c.Deferrals) > 0:
		if begin+int64(s.first+s.n)*expect > h.c.Deferrals[0].Since {
			return gaps.Waiting
		}
		return gaps.Unknown
	case h.c.DeadLetters != "":
		return gaps.Unknown
	}
	return s.verdict
}

// What is there twice was not late, also where a hole ends: a chunk and a head may both have it.
func TestDuplicatesAreNotLate(t *testing.T) {
	at := func(slots ...int64) (all []int64) {
		for _, s := range slots {
			all = append(all, begin+s*expect)
		}
		return all
	}
	c := gaps.Evidence{
		Range: telemetry.Range{From: begin, To: begin + 10*expect}, Known: begin,
		Expect:    time.Duration(expect) * time.Millisecond,
		Expired:   func(telemetry.Day) bool { return false },
		Stretches: []gaps.Stretch{{Times: at(0, 1, 2, 6, 7, 8, 9)}, {Times: at(6, 7), Late: true}},
	}
	report := gaps.Diagnose(c)
	require.Len(t, report.Gaps, 1)
	require.Equal(t, gaps.Never, report.Gaps[0].Verdict)
	c.Stretches[1].Times = at(4)
	var verdicts []gaps.Verdict
	for _, g := range gaps.Diagnose(c).Gaps {
		verdicts = append(verdicts, g.Verdict)
	}
	require.Contains(t, verdicts, gaps.Late)
}

// Causes are put at random places of a device's days: each hole gets its own, no reading that is there is missed, and
// nothing blames the device where it can't be known.
func TestVerdictsMatchModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	met := map[gaps.Verdict]int{}
	for round := range uint64(100) {
		h := newHistory(seed + round)
		ruling := gaps.Diagnose(h.c)
		require.InDelta(t, expect, ruling.Expect.Milliseconds(), float64(expect)/10)
		found := make([]int, len(h.segments))
		for _, g := range ruling.Gaps {
			at := slices.IndexFunc(h.segments, func(s segment) bool { // the one with it in its middle
				middle := (g.From + g.To) / 2
				return begin+int64(s.first-1)*expect <= middle && middle < begin+int64(s.first+s.n+1)*expect
			})
			require.GreaterOrEqual(t, at, 0, "round %d: %+v is no hole", round, g)
			s := h.segments[at]
			require.Equal(t, h.truth(s), g.Verdict, "round %d: %+v of %+v", round, g, s)
			require.Equal(t, s.reason, g.Reason)
			found[at] += g.Missing
			met[g.Verdict]++
		}
		for i, s := range h.segments {
			if s.verdict == gaps.Expired {
				require.InDelta(t, s.n, found[i], 1, "round %d: %+v", round, s)
			} else {
				require.Equal(t, s.n, found[i], "round %d: %+v", round, s)
			}
		}
		require.Equal(t, len(h.present)+late(h.c), ruling.Readings)
	}
	for _, v := range []gaps.Verdict{gaps.Never, gaps.Refused, gaps.Late, gaps.Expired, gaps.Replaying, gaps.Waiting,
		gaps.Damaged, gaps.Unknown} {
		require.Positive(t, met[v], v)
	}
}

func late(c gaps.Evidence) (n int) {
	for _, s := range c.Stretches {
		if s.Late {
			n += len(s.Times)
		}
	}
	return n
}

// What begins and ends the range, what is published again, and devices that report in groups or hardly at all.
func TestRangeEdges(t *testing.T) {
	at := func(slots ...int64) (times []int64) {
		for _, s := range slots {
			times = append(times, begin+s*expect)
		}
		return times
	}
	r := telemetry.Range{From: begin, To: begin + 10*expect}
	judge := func(c gaps.Evidence) []gaps.Gap {
		if c.Range == (telemetry.Range{}) {
			c.Range = r
		}
		return gaps.Diagnose(c).Gaps
	}
	of := func(times []int64) []gaps.Stretch { return []gaps.Stretch{{Times: times}} }
	middle := of(at(3, 4, 5, 6))

	all := judge(gaps.Evidence{Known: 0, Stretches: middle})
	require.Len(t, all, 2)
	require.Equal(t, telemetry.Range{From: begin, To: begin + 3*expect}, all[0].Range)
	require.Equal(t, 2, all[0].Missing)
	require.Equal(t, telemetry.Range{From: begin + 6*expect, To: begin + 10*expect}, all[1].Range)
	require.Len(t, judge(gaps.Evidence{Known: begin + 3*expect, Stretches: middle}), 1, "it was not there before")
	require.Len(t, judge(gaps.Evidence{Known: -1, Stretches: middle}), 1, "nobody knows that it was")
	require.Empty(t, judge(gaps.Evidence{Known: -1, Expect: 10 * time.Second}), "nobody knows it")
	require.Empty(t, judge(gaps.Evidence{Known: 0}), "nothing to learn from")
	require.Len(t, judge(gaps.Evidence{Known: 0, Expect: 10 * time.Second}), 1)

	again := gaps.Refusal{Time: begin + 4*expect, Published: begin + 4*expect, Reason: decode.Limit}
	require.Len(t, judge(gaps.Evidence{Known: -1, Stretches: middle, Refusals: []gaps.Refusal{again}}), 1, "it is there")
	again.Time, again.Published = -1, again.Published+7
	require.Len(t, judge(gaps.Evidence{Known: -1, Stretches: middle, Refusals: []gaps.Refusal{again}}), 1, "beside it")
	all = judge(gaps.Evidence{Known: 0, Stretches: middle, Refusals: []gaps.Refusal{again}})
	require.Equal(t, gaps.Unknown, all[0].Verdict, "it may have come late")
	require.Equal(t, gaps.Never, all[1].Verdict, "it can't have come early")
	again.Published = r.To + 3600_000
	all = judge(gaps.Evidence{Known: 0, Stretches: middle, Refusals: []gaps.Refusal{again}})
	require.Equal(t, gaps.Unknown, all[1].Verdict)

	var groups []int64 // two readings each time
	for i := range int64(20) {
		groups = append(groups, begin+i*expect, begin+i*expect+1000)
	}
	ruling := gaps.Diagnose(gaps.Evidence{Range: telemetry.Range{From: begin, To: begin + 20*expect}, Known: 0,
		Stretches: of(groups)})
	require.Equal(t, 9*time.Second, ruling.Expect)
	require.Empty(t, ruling.Gaps)
}

// Every reason has a remedy.
func TestRemedies(t *testing.T) {
	for _, reason := range decode.Reasons() {
		require.NotEmpty(t, gaps.Remedy(reason))
	}
}

// An interval that is far too short has more holes than anybody reads: that is reported, and none is listed.
func TestTooManyGaps(t *testing.T) {
	var times []int64
	for i := range int64(gaps.MaxGaps) + 1 {
		times = append(times, begin+10*i)
	}
	c := gaps.Evidence{Known: begin, Expect: time.Millisecond, Stretches: []gaps.Stretch{{Times: times, Cut: 1}}}
	c.Range = telemetry.Range{From: begin, To: begin + 10*gaps.MaxGaps + 1}
	r := gaps.Diagnose(c)
	require.False(t, r.TooMany)
	require.Len(t, r.Gaps, gaps.MaxGaps)
	c.Range.To += 10
	r = gaps.Diagnose(c)
	require.True(t, r.TooMany)
	require.Empty(t, r.Gaps)
}
