package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ruled is a hole and what became of it.
type ruled struct {
	Verdict string
	Missing int
}

// reporter is a device that numbers its messages, and what is to be found of it.
type reporter struct {
	device string
	begin  int64
	slot   int64 // of ten seconds
	number int64
	round  int64 // of the numbers
	want   []ruled
	ready  []kafka.Message
}

func (r *reporter) message() kafka.Message {
	m := message("acme", row{device: r.device, ts: r.begin + r.slot*10_000}, map[string]any{"v": float64(r.slot)})
	m.Value = append(fmt.Appendf(nil, `{"seq":%d,`, r.number), m.Value[1:]...)
	r.slot++
	r.number = (r.number + 1) % r.round
	return m
}

// report has the device send for a while, and then something become of what comes next.
func (r *reporter) report(random *rand.Rand) {
	for range 20 + random.IntN(40) {
		r.ready = append(r.ready, r.message())
	}
	n := 1 + random.IntN(15)
	switch random.IntN(3) {
	case 0: // lost before Kafka
		for range n {
			r.message()
		}
		r.want = append(r.want, ruled{"lost", n})
	case 1: // not sent
		r.slot += int64(n) + 1
		r.want = append(r.want, ruled{"silent", 0})
	default: // refused: it does not name its tenant
		for range n {
			m := r.message()
			m.Value = bytes.Replace(m.Value, []byte(`"tenant":"acme"`), []byte(`"tenant":"ACME"`), 1)
			r.ready = append(r.ready, m)
		}
		r.want = append(r.want, ruled{"refused", n})
	}
}

// verdicts asks for the holes of a device, and reports whether the answer is complete.
func (d *dev) verdicts(device string, from, to int64) (all []ruled, complete bool) {
	q := url.Values{"device": {device}, "from": {fmt.Sprint(from)}, "to": {fmt.Sprint(to)}, "expect": {"10s"}}
	req, err := http.NewRequest(http.MethodGet, "http://"+d.api+"/api/v1/gaps?"+q.Encode(), nil)
	require.NoError(d.t, err)
	req.Header.Set("X-Scope-OrgID", "acme")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, false
	}
	defer resp.Body.Close()
	var answer struct {
		Complete bool
		Gaps     []ruled
	}
	if resp.StatusCode != http.StatusOK || json.NewDecoder(resp.Body).Decode(&answer) != nil {
		return nil, false
	}
	return answer.Gaps, answer.Complete
}

// Causes are injected at random, and everything is killed again and again while they are: every verdict becomes the
// injected truth, with the number of messages, and no answer ever says that the store lacks something. What is refused
// at this moment may not be known as that for a while.
func TestVerdictsUnderKills(t *testing.T) {
	t.Parallel()
	seed := seedOf(t, 0)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	launch := func() *dev {
		hold := []string{"100ms", "12h"}[random.IntN(2)]
		d := launchDev(t, dir, "--fleet=0", "--sequence=seq", "--hold="+hold, "--journal-every=1s")
		soon(t, time.Minute, d.ready, "/readyz is 200")
		return d
	}
	d := launch()
	var all []*reporter
	for i, round := range []int64{256, 1 << 16, 1 << 32} {
		all = append(all, &reporter{device: fmt.Sprintf("m%d", i), begin: noon() - 6*3_600_000, round: round,
			number: round - 1 - random.Int64N(100)})
	}
	told := 0
	for range 6 {
		for _, r := range all {
			r.report(random)
			d.publish(r.ready...)
			r.ready = nil
		}
		if random.IntN(3) > 0 { // at any moment of what it does with them
			d.kill()
			d = launch()
		}
		for _, r := range all { // the last one's end is not sent yet
			known := len(r.want) - 1
			var found []ruled
			var complete bool
			if !assert.Eventually(t, func() bool {
				found, complete = d.verdicts(r.device, r.begin, r.begin+(r.slot-1)*10_000)
				for _, g := range found {
					require.NotEqual(t, "damaged", g.Verdict)
				}
				return complete && len(found) >= known && slices.Equal(r.want[:known], found[:known])
			}, 2*time.Minute, 20*time.Millisecond) {
				require.FailNow(t, "not the verdicts", "%s: want %v, got %v, complete %t", r.device, r.want[:known], found,
					complete)
			}
			told += known
		}
	}
	require.Equal(t, 3*(1+2+3+4+5), told)
}
