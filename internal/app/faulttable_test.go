package app_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"binnacle/binning"
	"binnacle/ingest"
	"binnacle/internal/catalog"
	"binnacle/internal/catalog/catalogcache"
	"binnacle/internal/kafka"
	"binnacle/internal/lab/emulator/fault"
	"binnacle/internal/ops"
	"binnacle/internal/telemetry"
	"binnacle/query"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

var allFaults = flag.Bool("full", false, "each call that fails in every way, done and not done, for `make full`")

// calls are all requests for items that an ingester makes, but for those that it makes for heads.
var calls = []fault.Rule{
	{Operations: []string{fault.Create}, Container: "chunks-*"},
	{Operations: []string{fault.Query}, Container: "chunks-*"},         // the lookup of a chain's tail
	{Operations: []string{fault.Read}, Container: "chunks-*"},          // of what a create met
	{Operations: []string{fault.Query}, Container: "catalog"},          // which pages there are
	{Operations: []string{fault.Query}, Container: "catalog", Skip: 1}, // a page that somebody else has stored
	{Operations: []string{fault.Create}, Container: "catalog"},
	{Operations: []string{fault.Query}, Container: "control"}, // the map
	{Operations: []string{fault.Read}, Container: "control"},
	{Operations: []string{fault.Create}, Container: "control"}, // tenants, months, streams
	{Operations: []string{fault.Replace}, Container: "control"},
	{Operations: []string{fault.Metadata}},
}

const (
	gone   = "container gone and back"
	silent = "timeout"
)

// storeFailures are the ways in which a call fails. Each happens more often than the SDK tries by itself.
var storeFailures = map[string]fault.Rule{
	"408":                {Status: 408},
	"410":                {Status: 410, Substatus: 1002},
	"429":                {Status: 429, Substatus: 3200, RetryAfterMs: 2},
	"449":                {Status: 449},
	"503":                {Status: 503},
	"timeout":            {Hang: true},
	"connection dropped": {Drop: true},
	gone:                 {Status: 404, Substatus: 1003},
}

// kafkaCalls are the requests to Kafka by their keys in the protocol.
var kafkaCalls = map[int16]string{
	0: "produce of dead letters", 1: "fetch", 3: "metadata", 8: "commit", 9: "committed offsets", 10: "coordinator",
	11: "join", 14: "sync",
}

// Every call of an ingester to the store fails in every way, done and not done, more than once; the ingester is
// stopped in the middle of it, another one goes on, and meets the same. What was published is what is answered, the
// statistics too.
func TestEveryStoreCallFails(t *testing.T) {
	t.Parallel()
	for i, call := range calls {
		for k, name := range slices.Sorted(maps.Keys(storeFailures)) {
			failure := storeFailures[name]
			if call.Container == "" && (name == gone || name == silent) {
				continue // the account is there; and the SDK asks for it without the context of its caller
			}
			for _, applied := range []bool{false, true} {
				if !*allFaults && (i%len(storeFailures) != k || applied != (i%2 == 0)) {
					continue // each call still meets a failure, and each failure a call
				}
				rule := failure
				rule.Operations, rule.Container, rule.Applied, rule.Count = call.Operations, call.Container, applied, 4
				rule.Skip = call.Skip
				row := fmt.Sprintf("%s %s after %d/%s/applied %v", call.Operations[0], call.Container, call.Skip, name, applied)
				t.Run(row, func(t *testing.T) {
					t.Parallel()
					crossed(t, rule)
				})
			}
		}
	}
}

// Every kind of request to Kafka loses its connection, before it was sent and after it was answered.
func TestEveryKafkaCallLosesConnection(t *testing.T) {
	t.Parallel()
	for key, name := range kafkaCalls {
		for _, applied := range []bool{false, true} {
			if !*allFaults && applied != (key%2 == 0) {
				continue
			}
			t.Run(fmt.Sprintf("%s/applied %v", name, applied), func(t *testing.T) {
				t.Parallel()
				c := newCrossing(t)
				c.cut = &cutter{key: key, applied: applied, count: 4}
				if name == "join" || name == "sync" {
					c.cut.count = 1 // each leaves a member behind, for which the group waits until its session ends
				}
				c.run(func() bool { return c.cut.hits() > 0 })
			})
		}
	}
}

// crossed has readings cross while a call fails.
func crossed(t *testing.T, rule fault.Rule) {
	c, rules := newCrossing(t), []fault.Rule{rule}
	lost := fault.Rule{Operations: []string{fault.Create}, Container: "chunks-*", Count: 1, Status: 408, Applied: true}
	if rule.Operations[0] == fault.Read {
		rules = append(rules, lost) // else no create meets a chunk that is there
	}
	require.NoError(t, c.emulator.Faults().Replace(1, rules...))
	c.run(func() bool { return c.emulator.Faults().State().Rules[0].Hits > 0 })
}

// crossing is readings on their way, and what they must be at the end of it.
type crossing struct {
	*system
	want map[point]float64
	cut  *cutter
}

func newCrossing(t *testing.T) *crossing {
	c := &crossing{system: newSystem(t), want: map[point]float64{}}
	id, page, err := catalog.Encode(catalog.Page{Updated: 1, Entries: []catalog.Entry{
		{Device: "d0", First: 1, Tags: []catalog.Tag{{Name: "site", Value: "hall", Updated: 1}}}}})
	require.NoError(t, err)
	require.NoError(t, c.client().Catalog().Create(t.Context(), "acme", id, page))
	return c
}

// run publishes and lets one ingester work until it was hit, and then another one to the end.
func (c *crossing) run(hit func() bool) {
	t := c.t.(*testing.T)
	if c.cut != nil {
		c.system.dial = c.cut.dial
	}
	p := c.process(hasty)
	refused := kafkago.Message{Key: []byte("acme/d0"), Value: []byte(`{"tenant":"acme","device":"d0","ts":"soon"}`)}
	c.publish(refused)
	for round := 0; !hit(); round++ {
		require.Less(t, round, 200, "the fault is never met")
		c.add(round, 5)
		time.Sleep(20 * time.Millisecond) // the ingester works meanwhile
	}
	p.stop()
	p = c.process(hasty)
	c.add(0, 3) // over what was there
	c.settled("binnacle")
	c.emulator.Faults().Clear()
	require.Equal(t, c.want, p.answer(t))
	c.statistics(p)
	c.listed()
	require.GreaterOrEqual(t, c.deadLetters(), int64(1))
}

// hasty is an ingester that has not much time for anything, nor for its end.
func hasty(c *ingest.Config) {
	c.Hold, c.Patience, c.DrainBudget = 40*time.Millisecond, 200*time.Millisecond, time.Millisecond
	c.Session = ingest.MinSession
}

// add publishes readings of a round, of three devices and two months, and one of a device that is new.
func (c *crossing) add(round, each int) {
	var messages []kafkago.Message
	for i := range each {
		for d := range 3 {
			device, ts := fmt.Sprintf("d%d", d), noon()-int64(d%2)*60*86_400_000+int64(round*each+i)*1000
			v := float64(len(c.want)) + 0.5
			messages = append(messages, reading(device, ts, v))
			c.want[point{device, ts}] = v
		}
	}
	device, v := fmt.Sprintf("n%d", len(c.want)), float64(len(c.want))+0.5
	c.want[point{device, noon()}] = v
	c.publish(append(messages, reading(device, noon(), v))...)
}

// listed compares what the catalog says with what was published: nothing is committed that it lacks.
func (c *crossing) listed() {
	want := map[string]catalog.Entry{}
	for at := range c.want {
		e := catalog.Entry{Device: at.device, First: at.time, Last: at.time,
			Metrics: []catalog.Metric{{Name: "v", Kind: telemetry.Float}}}
		if at.device == "d0" {
			e.Tags = []catalog.Tag{{Name: "site", Value: "hall", Updated: 1}}
		}
		if have, ok := want[at.device]; ok {
			e.Span(have.First, have.Last)
		}
		want[at.device] = e
	}
	known, err := catalogcache.New(catalogcache.Config{Catalog: c.client().Catalog()}).
		Get(context.Background(), "acme", time.Time{})
	require.NoError(c.t, err)
	got := map[string]catalog.Entry{}
	known.Use(func(x *catalog.Index) {
		for e := range x.Select(nil, 0, x.Blocks()).Each {
			got[e.Device] = e
		}
	})
	require.Equal(c.t, want, got)
}

// statistics are those of a plain map.
func (c *crossing) statistics(p *process) {
	type sums struct {
		count    int
		min, max float64
		sum      float64
	}
	want, got := map[string]sums{}, map[string]sums{}
	for at, v := range c.want {
		s, ok := want[at.device]
		if !ok {
			s.min, s.max = v, v
		}
		want[at.device] = sums{s.count + 1, min(s.min, v), max(s.max, v), s.sum + v}
	}
	result, err := p.query.Statistics(context.Background(), query.Request{
		Tenant: "acme", Range: binning.All, Strict: true,
	}, 0, func(s query.Statistic) error {
		require.NotContains(c.t, got, s.Device)
		got[s.Device] = sums{s.Count, s.Min.Float(), s.Max.Float(), s.Sum.Float()}
		return nil
	})
	require.NoError(c.t, err)
	require.True(c.t, result.Complete)
	require.Equal(c.t, want, got)
}

// deadLetters is how many dead letters there are.
func (c *crossing) deadLetters() (n int64) {
	cluster, err := kafka.New(kafka.Config{Brokers: []string{c.broker.Addr()}})
	require.NoError(c.t, err)
	defer cluster.Close()
	ends, err := cluster.Topic(ops.DeadLetters).LogEnds(context.Background())
	require.NoError(c.t, err)
	for _, e := range ends {
		n += e.End
	}
	return n
}
