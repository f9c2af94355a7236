package fault_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator/fault"
)

// hits are the requests of some that a rule hits, by their index.
func hits(t *testing.T, seed uint64, requests []fault.Request, rules ...fault.Rule) []int {
	t.Helper()
	var s fault.Set
	require.NoError(t, s.Replace(seed, rules...))
	out := []int{}
	for i, q := range requests {
		if _, hit := s.Match(q); hit {
			out = append(out, i)
		}
	}
	return out
}

func TestWhatARuleIsFor(t *testing.T) {
	requests := []fault.Request{
		{Operation: fault.Create, Database: "db", Container: "chunks-2026-11"},
		{Operation: fault.Create, Database: "db", Container: "chunks-2026-12"},
		{Operation: fault.Query, Database: "db", Container: "chunks-2026-11"},
		{Operation: fault.Query, Database: "db", Container: "control"},
		{Operation: fault.Metadata, Database: "db", Container: "control"},
		{Operation: fault.Metadata},
		{Operation: fault.Read, Database: "other", Container: "control"},
	}
	for name, c := range map[string]struct {
		rule fault.Rule
		want []int
	}{
		"all but metadata":        {fault.Rule{}, []int{0, 1, 2, 3, 6}},
		"operations":              {fault.Rule{Operations: []string{fault.Create, fault.Read}}, []int{0, 1, 6}},
		"metadata":                {fault.Rule{Operations: []string{fault.Metadata}}, []int{4, 5}},
		"metadata of a container": {fault.Rule{Operations: []string{fault.Metadata}, Container: "control"}, []int{4}},
		"a pattern":               {fault.Rule{Container: "chunks-*"}, []int{0, 1, 2}},
		"a database":              {fault.Rule{Database: "other"}, []int{6}},
		"after skipping":          {fault.Rule{Skip: 2}, []int{2, 3, 6}},
		"so many":                 {fault.Rule{Count: 2}, []int{0, 1}},
		"so many after skipping":  {fault.Rule{Skip: 1, Count: 2}, []int{1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			c.rule.Status = 503
			require.Equal(t, c.want, hits(t, 1, requests, c.rule))
		})
	}
}

// The first rule that hits a request counts; one that does not hit it leaves it to the next.
func TestRulesInTheirOrder(t *testing.T) {
	var s fault.Set
	require.False(t, s.On())
	require.NoError(t, s.Replace(0, fault.Rule{Name: "a", Count: 1, Status: 503}, fault.Rule{Name: "b", LatencyMs: 5}))
	require.True(t, s.On())
	create := fault.Request{Operation: fault.Create}
	for _, want := range []string{"a", "b", "b"} {
		e, hit := s.Match(create)
		require.True(t, hit)
		require.Equal(t, want, e.Name)
	}
	require.Equal(t, fault.State{Rules: []fault.Counts{
		{Rule: fault.Rule{Name: "a", Count: 1, Status: 503}, Matched: 3, Hits: 1},
		{Rule: fault.Rule{Name: "b", LatencyMs: 5}, Matched: 2, Hits: 2},
	}}, s.State())
	e, _ := s.Match(create)
	require.Equal(t, 5*time.Millisecond, e.Latency)
	s.Clear()
	<-e.Changed
	require.False(t, s.On())
	require.Empty(t, s.State().Rules)
}

func TestChanceIsTheSeed(t *testing.T) {
	requests := make([]fault.Request, 1000)
	for i := range requests {
		requests[i].Operation = fault.Upsert
	}
	rule := fault.Rule{Status: 429, Probability: 0.3}
	first := hits(t, 7, requests, rule)
	require.InDelta(t, 300, len(first), 60)
	require.Equal(t, first, hits(t, 7, requests, rule))
	require.NotEqual(t, first, hits(t, 8, requests, rule))

	latencies := func() (all []time.Duration) {
		var s fault.Set
		require.NoError(t, s.Replace(7, fault.Rule{LatencyMs: 10, JitterMs: 20}))
		for _, q := range requests {
			e, hit := s.Match(q)
			require.True(t, hit)
			require.GreaterOrEqual(t, e.Latency, 10*time.Millisecond)
			require.LessOrEqual(t, e.Latency, 30*time.Millisecond)
			all = append(all, e.Latency)
		}
		return all
	}
	require.Equal(t, latencies(), latencies())
}

func TestInvalidRules(t *testing.T) {
	for name, c := range map[string]struct {
		rule fault.Rule
		want string
	}{
		"no effect": {fault.Rule{}, "no effect"},
		"operation": {fault.Rule{Operations: []string{"write"}, Drop: true},
			`the operation "write" is none of create, `},
		"pattern":           {fault.Rule{Container: "[", Drop: true}, "no pattern"},
		"count":             {fault.Rule{Count: -1, Drop: true}, "at least 0"},
		"probability":       {fault.Rule{Probability: 1.1, Drop: true}, "not from 0 to 1"},
		"latency":           {fault.Rule{LatencyMs: -1, Drop: true}, "at least 0"},
		"too late":          {fault.Rule{JitterMs: 1 << 40}, "at most 3600000"},
		"a success":         {fault.Rule{Status: 201}, "not from 400 to 599"},
		"no status":         {fault.Rule{Substatus: 3200, Drop: true}, "need a status"},
		"two kinds of ends": {fault.Rule{Status: 503, Hang: true}, "exclude each other"},
	} {
		t.Run(name, func(t *testing.T) {
			var s fault.Set
			require.ErrorContains(t, s.Replace(1, c.rule), c.want)
		})
	}

	// All that is wrong is said at once, and nothing changes.
	var s fault.Set
	require.NoError(t, s.Replace(1, fault.Rule{Drop: true}))
	err := s.Replace(2, fault.Rule{Drop: true}, fault.Rule{Count: -1}, fault.Rule{Status: 100})
	require.ErrorContains(t, err, "rule 1: skip and count")
	require.ErrorContains(t, err, "rule 1: it has no effect")
	require.ErrorContains(t, err, "rule 2: the status 100")
	require.NotContains(t, err.Error(), "rule 0")
	require.EqualValues(t, 1, s.State().Seed)
}

func FuzzRules(f *testing.F) {
	f.Add(`{"operations":["create"],"container":"chunks-*","status":503,"applied":true}`)
	f.Add(`{"container":"chunks-*","latencyMs":9223372036854775807,"jitterMs":9223372036854775807}`)
	f.Fuzz(func(t *testing.T, text string) {
		var r fault.Rule
		d := json.NewDecoder(strings.NewReader(text))
		if d.Decode(&r) != nil {
			return
		}
		var s fault.Set
		if s.Replace(1, r) != nil {
			return
		}
		e, hit := s.Match(fault.Request{Operation: fault.Create, Database: "db", Container: "chunks-2026-11"})
		if hit && e.Latency < 0 {
			t.Fatalf("%s: %v", text, e.Latency)
		}
	})
}
