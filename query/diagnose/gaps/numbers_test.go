package gaps_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"
	"binnacle/query/diagnose/gaps"

	"github.com/stretchr/testify/require"
)

// counting is a day of a device that numbers its messages, of which some are lost, some refused, and some never sent.
type counting struct {
	c     gaps.Evidence
	times []int64
	next  int64 // number
	slot  int64 // of the expected interval
	step  int64
	round int64 // 0: it never begins anew
}

func newCounting(step, round, first int64) *counting {
	n := &counting{next: first, step: step, round: round}
	n.c = gaps.Evidence{Range: telemetry.Range{From: begin, To: begin + telemetry.DayMillis}, Known: -1}
	return n
}

func (n *counting) at() int64 { return begin + n.slot*expect }

func (n *counting) count() (number int64) {
	number = n.next
	if n.next += n.step; n.round > 0 {
		n.next %= n.round
	}
	return number
}

// send has messages arrive; lose has them lost before Kafka, refuse in the dead letters.
func (n *counting) send(messages int) {
	for range messages {
		n.times = append(n.times, n.at())
		n.c.Numbers = append(n.c.Numbers, gaps.Number{At: n.at(), N: n.count()})
		n.slot++
	}
}

func (n *counting) lose(messages int) {
	for range messages {
		n.count()
		n.slot++
	}
}

func (n *counting) refuse(messages int) {
	for range messages {
		n.count()
		n.c.Refusals = append(n.c.Refusals, gaps.Refusal{Time: n.at(), Published: n.at(), Reason: decode.Limit})
		n.slot++
	}
}

// silence is time in which the device sends nothing.
func (n *counting) silence(slots int64) { n.slot += slots }

func (n *counting) judge() []gaps.Gap {
	n.c.Range.To = n.at()
	n.c.Stretches = []gaps.Stretch{{Times: n.times, Cut: 1}}
	return gaps.Diagnose(n.c).Gaps
}

// Holes are made at random, by messages that are lost and by silence, and distinguished by their numbers, which may
// begin anew after a byte, two or four: how many are lost is exact, and no device is blamed wrongly.
func TestSequenceNumbersSeparateLostFromSilent(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for round := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, round))
		wraps := []int64{0, 256, 1 << 16, 1 << 32}[random.IntN(4)]
		first, step := random.Int64N(200), int64(1)
		if wraps == 0 {
			step, first = 1+random.Int64N(3), random.Int64N(1<<40)
		} else if random.IntN(2) == 0 {
			first = max(0, wraps-1-random.Int64N(300))
		}
		n := newCounting(step, wraps, first)
		type truth struct {
			verdict gaps.Verdict
			missing int
		}
		var want []truth
		n.send(20 + random.IntN(300))
		for range 1 + random.IntN(8) {
			lost, silent, refused := 0, 0, 0
			switch random.IntN(4) {
			case 0:
				lost = 1 + random.IntN(60)
				want = append(want, truth{gaps.Lost, lost})
			case 1:
				silent = 2 + random.IntN(60)
				want = append(want, truth{gaps.Silent, 0})
			case 2: // both, in one hole
				lost, silent = 1+random.IntN(30), 1+random.IntN(30)
				want = append(want, truth{gaps.Lost, lost})
			default:
				refused = 1 + random.IntN(20)
				want = append(want, truth{gaps.Refused, refused})
			}
			n.lose(lost)
			n.silence(int64(silent))
			n.refuse(refused)
			n.send(20 + random.IntN(300))
		}
		if wraps == 256 {
			n.send(300) // it is seen to begin anew
		}
		var got []truth
		for _, g := range n.judge() {
			got = append(got, truth{g.Verdict, g.Missing})
		}
		require.Equal(t, want, got, "round %d: step %d, %d numbers", round, step, wraps)
	}
}

// Where numbers don't tell, nobody is blamed.
func TestUnusableSequenceNumbers(t *testing.T) {
	verdicts := func(n *counting) (all []gaps.Verdict) {
		for _, g := range n.judge() {
			all = append(all, g.Verdict)
		}
		return all
	}
	restarted := newCounting(1, 0, 70_000)
	restarted.send(50)
	restarted.silence(10)
	restarted.next = 0
	restarted.send(50)
	require.Equal(t, []gaps.Verdict{gaps.Never}, verdicts(restarted))
	require.Contains(t, restarted.judge()[0].Detail, "the device's numbers begin anew after it, 0 after 70049")

	young := newCounting(1, 0, 150) // and has never counted far: nothing speaks for a byte
	young.send(50)
	young.silence(40)
	young.next = 0
	young.send(50)
	require.Equal(t, []gaps.Verdict{gaps.Never}, verdicts(young))
	require.Contains(t, young.judge()[0].Detail, "the device's numbers begin anew after it, 0 after 199")

	most := newCounting(1, 256, 200) // a byte, never seen to begin anew, and time to count through it twice
	most.send(50)
	most.lose(20)
	most.silence(130)
	most.send(50)
	require.Equal(t, []gaps.Verdict{gaps.Never}, verdicts(most))

	shared := newCounting(1, 0, 0) // with other devices: how it goes on is anybody's guess
	random := rand.New(rand.NewPCG(1, 0))
	for range 100 {
		shared.send(1)
		shared.next += random.Int64N(9)
	}
	shared.silence(10)
	shared.send(50)
	require.Equal(t, []gaps.Verdict{gaps.Never}, verdicts(shared))

	long := newCounting(1, 256, 200) // in a byte, and longer away than it takes to count through that
	long.send(400)
	long.silence(300)
	long.send(50)
	require.Equal(t, []gaps.Verdict{gaps.Never}, verdicts(long))

	far := newCounting(1, 0, 3) // more messages than the time has room for: it has begun anew and gone on
	far.send(20)
	far.silence(5)
	far.next = 900
	far.send(20)
	require.Equal(t, []gaps.Verdict{gaps.Never}, verdicts(far))

	some := newCounting(1, 0, 3) // readings without a number have reached Kafka, too
	some.send(20)
	for range 3 {
		some.times = append(some.times, some.at())
		some.lose(1)
	}
	some.silence(5)
	some.send(20)
	require.Equal(t, []gaps.Verdict{gaps.Silent}, verdicts(some))

	before := newCounting(1, 0, 3) // nothing is known before the first number
	before.c.Known = begin - 1
	before.slot = 10
	before.send(20)
	require.Equal(t, []gaps.Verdict{gaps.Never}, verdicts(before))
}

// Numbers that go on prove that nothing is missing, whatever else is not known.
func TestSequenceNumbersProveSilence(t *testing.T) {
	n := newCounting(1, 0, 0)
	n.send(50)
	n.silence(10)
	n.c.Nameless = []int64{n.at() - 5*expect}
	n.c.DeadLetters = "of what was refused earlier only a part is kept"
	n.c.Unread = "partition 3 is being replayed"
	n.send(50)
	require.Equal(t, gaps.Silent, n.judge()[0].Verdict)
	lost := newCounting(1, 0, 0)
	lost.send(50)
	lost.lose(10)
	lost.c.Unread = "partition 3 is being replayed"
	lost.send(50)
	require.Equal(t, gaps.Replaying, lost.judge()[0].Verdict, "they may still come")
}
