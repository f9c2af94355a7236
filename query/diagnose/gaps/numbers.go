package gaps

import (
	"cmp"
	"fmt"
	"slices"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"
)

// Number is the sequence number of a reading: the device counts its messages.
type Number struct {
	At int64 // time of the reading, ms
	N  int64
}

// numbers is a device's sequence numbers, by time, each instant once, and their step.
type numbers struct {
	all   []Number
	top   int64 // the greatest
	step  int64 // difference from one message to the next; 0: the numbers are of no use
	round int64 // how many there are before they wrap; 0 is not known
}

// rounds is how many numbers there are where a device counts in one, two or four bytes.
var rounds = []int64{1 << 8, 1 << 16, 1 << 32}

// inferNumbers infers the step and the wrap from readings that follow each other without a gap.
func inferNumbers(all []Number, expect int64) numbers {
	n := numbers{all: slices.Clone(all)}
	slices.SortStableFunc(n.all, func(a, b Number) int { return cmp.Compare(a.At, b.At) })
	n.all = slices.CompactFunc(n.all, func(a, b Number) bool { return a.At == b.At })
	steps, falls, total := map[int64]int{}, map[int64]int{}, 0
	for i, b := range n.all {
		n.top = max(n.top, b.N)
		if i == 0 || hole(mark{at: n.all[i-1].At}, mark{at: b.At}, expect) {
			continue
		}
		switch d := b.N - n.all[i-1].N; {
		case d > 0:
			steps[d]++
			total++
		case d < 0:
			falls[-d]++
		}
	}
	for d, times := range steps {
		if times > steps[n.step] || times == steps[n.step] && d < n.step {
			n.step = d
		}
	}
	if n.step == 0 || steps[n.step]*10 < total*9 || total < minToInfer {
		n.step = 0 // it is no number of the device's messages, such as one that several devices share
		return n
	}
	for d, times := range falls {
		round := d + n.step
		if n.top < round && (slices.Contains(rounds, round) || times > 1) {
			n.round = max(n.round, round)
		}
	}
	return n
}

// count returns how many messages lie between two numbers; ok is false when the device restarted its count, or the
// numbers do not say. most is how many may lie between them, by the time that has passed.
func (n *numbers) count(a, b, most int64) (messages int64, ok bool) {
	d := b - a
	if d <= 0 && n.round > 0 {
		d += n.round
	}
	if d <= 0 { // its counter may have wrapped unseen, at one, two or four bytes
		round := n.unseenWrap()
		if most >= round/n.step {
			return 0, false
		}
		d += round
	}
	if d <= 0 || d%n.step != 0 || d/n.step-1 > most || n.round > 0 && most >= n.round/n.step {
		return 0, false
	}
	return d/n.step - 1, true
}

// unseenWrap returns how many numbers the device may use before they wrap, where no wrap was seen: the range of one,
// two or four bytes, if the device has come close to its end. A device that never came close was restarted. 0 is not
// known.
func (n *numbers) unseenWrap() int64 {
	for _, round := range rounds {
		if n.top < round {
			if n.top < round-round/16 {
				return 0
			}
			return round
		}
	}
	return 0
}

// ends returns the last number at or before a range, and the first at or behind its end.
func (n *numbers) ends(r telemetry.Range) (a, b Number, ok bool) {
	at := func(t int64) int {
		i, _ := slices.BinarySearchFunc(n.all, t, func(x Number, t int64) int { return cmp.Compare(x.At, t) })
		return i
	}
	before, behind := at(r.From+1)-1, at(r.To)
	if n.step == 0 || before < 0 || behind >= len(n.all) {
		return a, b, false
	}
	return n.all[before], n.all[behind], true
}

// applyNumbers improves the verdicts on gaps between the same two numbers: whether the device was silent, or its
// readings were lost on the way to Kafka. Where no number is missing, no reading can be anywhere else.
func (c *Evidence) applyNumbers(all []Gap, known []int64, expect int64) {
	n := inferNumbers(c.Numbers, expect)
	for i := 0; i < len(all); {
		a, b, ok := n.ends(all[i].Range)
		j := i + 1
		for ; ok && j < len(all) && all[j].To <= b.At; j++ {
		}
		if ok {
			n.apply(all[i:j], neighbours{a, b, between(known, a.At, b.At), (b.At-a.At)*2/expect + 1})
		}
		i = j
	}
}

// between returns how many of some sorted instants lie between two others.
func between(all []int64, a, b int64) int64 {
	first, _ := slices.BinarySearch(all, a+1)
	end, _ := slices.BinarySearch(all, b)
	return int64(max(0, end-first))
}

// neighbours is the numbers before and behind some gaps, how many messages between them are known to have reached
// Kafka, and the most that may lie between them, by the time that has passed.
type neighbours struct {
	a, b        Number
	known, most int64
}

// apply improves the verdicts on gaps between two numbers. Some messages are known to have reached Kafka: refused
// messages, and readings without a number.
func (n *numbers) apply(holes []Gap, at neighbours) {
	a, b := at.a, at.b
	messages, ok := n.count(a.N, b.N, at.most)
	if !ok {
		for i := range holes {
			if holes[i].Verdict == Never {
				holes[i].Detail = fmt.Sprintf("%s; the device's numbers begin anew after it, %d after %d, and don't help", never,
					b.N, a.N)
			}
		}
		return
	}
	messages -= at.known
	for i := range holes {
		g := &holes[i]
		switch {
		case messages <= 0 && (g.Verdict == Never || g.Verdict == Unknown || g.Verdict == Replaying):
			g.Verdict, g.Missing = Silent, 0
			g.Detail = fmt.Sprintf("the device sent nothing: its numbers go on, %d after %d", b.N, a.N)
		case g.Verdict == Never:
			g.Verdict = Lost
			if len(holes) == 1 {
				g.Missing = int(messages)
			}
			g.Detail = fmt.Sprintf("lost on the way to Kafka: the device's numbers go from %d to %d, and %s", a.N, b.N,
				lacking(messages))
		}
	}
}

func lacking(messages int64) string {
	if messages == 1 {
		return "one message is missing"
	}
	return fmt.Sprintf("%d messages are missing", messages)
}

// Remedy returns what to do about readings that were refused for a reason.
func Remedy(reason decode.Reason) string {
	mend := ""
	switch reason {
	case decode.UnknownTenant:
		mend = "register the tenant"
	case decode.Tenant:
		mend = "let the messages name the tenant; --set tenant=NAME mends those that are there"
	case decode.OtherTenant:
		mend = "let the messages name the topic's tenant or none, or go to their tenant's topic; --set tenant=NAME mends " +
			"those that are there"
	case decode.Device:
		mend = "let the messages name the device; --set device=ID mends those that are there"
	case decode.Past:
		mend = "set the device's clock, or grant it with --backfill"
	case decode.Future:
		mend = "set the device's clock"
	case decode.Limit, decode.TooLarge, decode.Unstorable:
		mend = "raise the limit or send less at once"
	case decode.BadSchema:
		mend = "register the schema"
	case decode.Expired:
		return "the tenant's retention was over when they were published: keep longer, then binnacle replay --from-dlq " +
			"--reason expired"
	case decode.Unreadable:
		return "the batch can't be read: let the device send it again"
	default:
		return "mend what sends them: what is no reading stays refused"
	}
	return fmt.Sprintf("%s, then binnacle replay --from-dlq --reason %s", mend, reason)
}
