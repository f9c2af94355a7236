package provision_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/control"
	"binnacle/internal/provision"
	"binnacle/internal/store"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func scale(name string, from, to int) provision.Step {
	return provision.Step{Container: name, Tier: provision.Hot, Action: provision.Scale,
		Now: store.Throughput{RUs: from}, Wanted: store.Throughput{RUs: to}, Why: "used"}
}

// What is bought together stays below the ceiling, in the order of urgency; what is bought already is not taken away.
func TestCeilingOfThroughput(t *testing.T) {
	create := func(name string, of store.Throughput) provision.Step {
		return provision.Step{Container: name, Tier: provision.Hot, Action: provision.Create, Wanted: of, Why: "now"}
	}
	there := provision.Step{Container: "control", Tier: provision.Base, Action: provision.None,
		Now: store.Throughput{RUs: 400}, Wanted: store.Throughput{RUs: 400}}
	for name, c := range map[string]struct {
		most  int
		steps []provision.Step
		want  []string
	}{
		"none": {0, []provision.Step{there, scale("chunks-2026-11", 2000, 90_000)},
			[]string{"chunks-2026-11 hot scale 2000->90000", "control base - 400->400"}},
		"a part of it": {5000, []provision.Step{there, scale("chunks-2026-11", 2000, 90_000)},
			[]string{"chunks-2026-11 hot scale 2000->4600", "control base - 400->400"}},
		"nothing is left": {2450, []provision.Step{there, scale("chunks-2026-11", 2000, 90_000)},
			[]string{"chunks-2026-11 hot scale 2000->90000 waits", "control base - 400->400"}},
		"more is bought": {1000, []provision.Step{there, scale("chunks-2026-11", 2000, 1500)},
			[]string{"chunks-2026-11 hot scale 2000->1500", "control base - 400->400"}},
		"what is made gets the least": {2900, []provision.Step{there, scale("chunks-2026-10", 2000, 1900),
			create("chunks-2026-11", store.Throughput{RUs: 2000})},
			[]string{"chunks-2026-11 hot create 0->500", "chunks-2026-10 hot scale 2000->1900", "control base - 400->400"}},
		"not even that": {2700, []provision.Step{there, scale("chunks-2026-10", 2000, 1900),
			create("chunks-2026-11", store.Throughput{RUs: 2000, Autoscale: true})},
			[]string{"chunks-2026-11 hot create 0->2000 waits", "chunks-2026-10 hot scale 2000->1900",
				"control base - 400->400"}},
		"readings wait for chunks": {1400, []provision.Step{there,
			{Container: "rollups-2026-11", Tier: provision.Base, Action: provision.Create, Wanted: store.Throughput{RUs: 1000}},
			{Container: "chunks-2020-11", Tier: provision.Cold, Action: provision.Create, Wanted: store.Throughput{RUs: 400}}},
			[]string{"chunks-2020-11 cold create 0->400", "rollups-2026-11 base create 0->600", "control base - 400->400"}},
		"two": {5400, []provision.Step{there, scale("chunks-2026-11", 2000, 3000), scale("chunks-a-2026-11", 1000, 9000)},
			[]string{"chunks-2026-11 hot scale 2000->3000", "chunks-a-2026-11 hot scale 1000->2000",
				"control base - 400->400"}},
	} {
		p := provision.DevPolicy()
		p.MaxRUs = c.most
		got := p.Limit(c.steps, 10, 10)
		require.Equal(t, c.want, lines(got), name)
		sum := 0
		for _, s := range got {
			if s.Beyond > 0 {
				require.Contains(t, s.Why, "are wanted, and all containers together may have", name)
			}
			if s.Waits == "" {
				sum += s.Wanted.RUs
			}
		}
		if name != "more is bought" && c.most > 0 {
			require.LessOrEqual(t, sum, c.most, name)
		}
	}
	p := provision.DevPolicy()
	p.MaxRUs = -1
	require.ErrorContains(t, p.Validate(), "-1 RU/s")
}

// A process that comes back to the lease counts what another one has bought meanwhile.
func TestCeilingOfTwoProvisioners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 4000
		b := newBench(t, time.Now, nil)
		policy := provision.DevPolicy()
		policy.MaxRUs = most
		p, err := provision.New(provision.Config{Containers: b.account, Directory: b.directory, Policy: policy,
			Lease: control.NewLeases(b.docs, "a", time.Now)})
		require.NoError(t, err)
		run := func() { // two rounds
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			require.NoError(t, p.Run(ctx))
		}
		run()
		require.Len(t, b.rus(), 1)
		time.Sleep(3 * time.Minute) // the process stands still
		for name := range b.rus() {
			require.NoError(t, b.SetThroughput(t.Context(), name, store.Throughput{RUs: most})) // another one buys, and dies
		}
		require.NoError(t, b.directory.AskMonth(t.Context(), "chunks-1970-01", ""))
		run()
		bought := 0
		for _, rus := range b.rus() {
			bought += rus
		}
		require.LessOrEqual(t, bought, most)
	})
}

// A tenant that asks for all that there is has throughput raised up to a ceiling, which a log line and a metric tell.
func TestThroughputEndsAtACeiling(t *testing.T) {
	now := at("2026-11-23 12:00")
	l := &load{"chunks-2026", 20}
	b := newSmall(t, func() time.Time { return now }, l, provision.Small)
	b.once(t)
	_, err := b.directory.Register(t.Context(), "acme")
	require.NoError(t, err)
	shared := func() int { return b.containers[store.Database].Throughput.RUs }
	for range 2 * 60 {
		now = now.Add(time.Minute)
		l.rus = float64(shared())
		b.once(t)
	}
	require.Equal(t, ru.PartitionRUs, b.MaxRUs(), "the plan at the start wants little")
	require.Equal(t, ru.PartitionRUs, shared())
	require.Equal(t, 1, strings.Count(b.log.String(), "throughput is at its ceiling"))
	require.NoError(t, testutil.GatherAndCompare(b.metrics, strings.NewReader(`
# HELP binnacle_provision_request_units_beyond_ceiling RU/s that are wanted beyond what all containers together may have, and not bought.
# TYPE binnacle_provision_request_units_beyond_ceiling gauge
binnacle_provision_request_units_beyond_ceiling 5000
`), "binnacle_provision_request_units_beyond_ceiling"))
	l.rus = 100
	now = now.Add(20 * time.Minute)
	b.once(t)
	require.Less(t, shared(), ru.PartitionRUs)
	require.Contains(t, b.log.String(), "below its ceiling again")
}
