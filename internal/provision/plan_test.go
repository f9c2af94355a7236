package provision_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/provision"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

func at(s string) time.Time {
	t, err := time.Parse("2006-01-02 15:04", s)
	if err != nil {
		panic(err)
	}
	return t
}

func newTenant(t *testing.T, name string, retention time.Duration, later ...sharding.Epoch) tenant.Tenant {
	p, err := sharding.NewPlacement(name, append(later, sharding.FirstEpoch(name, 4)))
	require.NoError(t, err)
	return tenant.Tenant{Name: name, Retention: retention, Placement: p}
}

func dedicated(from string) sharding.Epoch {
	d, err := telemetry.ParseDay(from)
	if err != nil {
		panic(err)
	}
	return sharding.Epoch{From: d, Slots: []sharding.Slot{1}, Dedicated: true}
}

func seen(name string, rus int) store.ContainerState {
	return store.ContainerState{Name: name, Throughput: store.Throughput{RUs: rus}, MinRUs: 400}
}

func asked(name string) control.Month {
	return control.Month{Container: name, State: control.MonthAsked}
}

func inState(name string, s control.MonthState) control.Month {
	return control.Month{Container: name, State: s}
}

// lines is steps in a form that tables compare.
func lines(steps []provision.Step) []string {
	out := []string{}
	for _, s := range steps {
		line := fmt.Sprintf("%s %s %s %d->%d", s.Container, s.Tier, s.Action, s.Now.RUs, s.Wanted.RUs)
		if s.Waits != "" {
			line += " waits"
		}
		out = append(out, line)
	}
	return out
}

const day = 24 * time.Hour

func TestPlan(t *testing.T) {
	forever := newTenant(t, "acme", 0)
	month := newTenant(t, "globex", 30*day)
	for _, c := range []struct {
		name    string
		now     string
		seen    []store.ContainerState
		months  []control.Month
		tenants []tenant.Tenant
		want    []string
	}{
		{"an empty account gets the current month", "2026-11-20 12:00", nil, nil, nil,
			[]string{"chunks-2026-11 hot create 0->2000"}},
		{"the next month is made ahead of time", "2026-11-28 12:00",
			[]store.ContainerState{seen("chunks-2026-11", 2000)}, []control.Month{asked("chunks-2026-11")},
			[]tenant.Tenant{forever},
			[]string{"chunks-2026-11 hot - 2000->2000", "chunks-2026-12 next create 0->400"}},
		{"it is raised before it begins", "2026-11-30 23:00",
			[]store.ContainerState{seen("chunks-2026-11", 2000), seen("chunks-2026-12", 400)},
			[]control.Month{asked("chunks-2026-11"), asked("chunks-2026-12")}, nil,
			[]string{"chunks-2026-11 hot - 2000->2000", "chunks-2026-12 hot scale 400->2000"}},
		{"and not long before", "2026-11-30 22:59",
			[]store.ContainerState{seen("chunks-2026-11", 2000), seen("chunks-2026-12", 400)},
			[]control.Month{asked("chunks-2026-11"), asked("chunks-2026-12")}, nil,
			[]string{"chunks-2026-11 hot - 2000->2000", "chunks-2026-12 next - 400->400"}},
		{"a month cools down", "2026-11-20 12:00",
			[]store.ContainerState{seen("chunks-2026-11", 2000), seen("chunks-2026-10", 2000), seen("chunks-2026-08", 800)},
			[]control.Month{asked("chunks-2026-11"), asked("chunks-2026-10"), asked("chunks-2026-08")},
			[]tenant.Tenant{forever},
			[]string{"chunks-2026-08 cold scale 800->400", "chunks-2026-10 warm scale 2000->800",
				"chunks-2026-11 hot - 2000->2000"}},
		{"hot lasts for late readings", "2026-12-02 23:59",
			[]store.ContainerState{seen("chunks-2026-11", 2000), seen("chunks-2026-12", 2000)},
			[]control.Month{asked("chunks-2026-11"), asked("chunks-2026-12")}, nil,
			[]string{"chunks-2026-11 hot - 2000->2000", "chunks-2026-12 hot - 2000->2000"}},
		{"old data is asked for", "2026-11-20 12:00",
			[]store.ContainerState{seen("chunks-2026-11", 2000)}, []control.Month{asked("chunks-2026-11"),
				asked("chunks-1970-01"), asked("chunks-2026-09")}, []tenant.Tenant{forever},
			[]string{"chunks-1970-01 cold create 0->400", "chunks-2026-09 warm create 0->800",
				"chunks-2026-11 hot - 2000->2000"}},
		{"the service's floor holds", "2026-11-20 12:00",
			[]store.ContainerState{{Name: "chunks-2026-08", Throughput: store.Throughput{RUs: 60_000}, MinRUs: 650},
				seen("chunks-2026-11", 2000)},
			[]control.Month{asked("chunks-2026-08"), asked("chunks-2026-11")}, nil,
			[]string{"chunks-2026-08 cold scale 60000->700", "chunks-2026-11 hot - 2000->2000"}},
		{"autoscale stays autoscale", "2026-11-20 12:00",
			[]store.ContainerState{{Name: "chunks-2026-08", Throughput: store.Throughput{RUs: 4000, Autoscale: true},
				MinRUs: 1000}, seen("chunks-2026-11", 2000)},
			[]control.Month{asked("chunks-2026-08"), asked("chunks-2026-11")}, nil,
			[]string{"chunks-2026-08 cold scale 4000->1000", "chunks-2026-11 hot - 2000->2000"}},
		{"a change under way is left alone", "2026-11-20 12:00",
			[]store.ContainerState{{Name: "chunks-2026-11", Throughput: store.Throughput{RUs: 400}, Pending: true}},
			[]control.Month{asked("chunks-2026-11")}, nil,
			[]string{"chunks-2026-11 hot scale 400->2000 waits"}},
		{"one that nobody asked for is taken in", "2026-11-20 12:00",
			[]store.ContainerState{seen("chunks-2026-11", 2000), seen("control", 400)}, nil, nil,
			[]string{"control base - 400->400", "chunks-2026-11 hot keep 2000->2000"}},
		{"a tenant of its own gets its own", "2026-11-28 12:00",
			[]store.ContainerState{seen("chunks-2026-11", 2000)}, []control.Month{asked("chunks-2026-11")},
			[]tenant.Tenant{newTenant(t, "acme", 0, dedicated("20261201"))},
			[]string{"chunks-2026-11 hot - 2000->2000", "chunks-acme-2026-12 next create 0->400"}},

		{"retention is over, with its grace", "2026-11-01 00:00",
			[]store.ContainerState{seen("chunks-2026-09", 400), seen("chunks-2026-11", 2000)},
			[]control.Month{asked("chunks-2026-09"), asked("chunks-2026-11")}, []tenant.Tenant{month},
			[]string{"chunks-2026-09 expired expire 400->0", "chunks-2026-11 hot - 2000->2000"}},
		{"one of its own that it never used", "2026-11-01 00:00",
			[]store.ContainerState{seen("chunks-globex-2026-09", 400), seen("chunks-2026-11", 2000)},
			[]control.Month{asked("chunks-globex-2026-09"), asked("chunks-2026-11")}, []tenant.Tenant{month},
			[]string{"chunks-globex-2026-09 expired expire 400->0", "chunks-2026-11 hot - 2000->2000"}},
		{"one of its own that it never used, within the grace", "2026-10-31 23:59",
			[]store.ContainerState{seen("chunks-globex-2026-09", 800), seen("chunks-2026-10", 2000),
				seen("chunks-2026-11", 2000)},
			[]control.Month{asked("chunks-globex-2026-09"), asked("chunks-2026-10"), asked("chunks-2026-11")},
			[]tenant.Tenant{month},
			[]string{"chunks-globex-2026-09 warm - 800->800", "chunks-2026-10 hot - 2000->2000",
				"chunks-2026-11 hot - 2000->2000"}},
		{"within the grace it stays", "2026-10-31 23:59",
			[]store.ContainerState{seen("chunks-2026-09", 800), seen("chunks-2026-10", 2000), seen("chunks-2026-11", 2000)},
			[]control.Month{asked("chunks-2026-09"), asked("chunks-2026-10"), asked("chunks-2026-11")}, []tenant.Tenant{month},
			[]string{"chunks-2026-09 warm - 800->800", "chunks-2026-10 hot - 2000->2000", "chunks-2026-11 hot - 2000->2000"}},
		{"a marked one is dropped", "2026-11-01 00:00",
			[]store.ContainerState{seen("chunks-2026-09", 400), seen("chunks-2026-11", 2000)},
			[]control.Month{inState("chunks-2026-09", control.MonthExpired), asked("chunks-2026-11")}, []tenant.Tenant{month},
			[]string{"chunks-2026-09 expired drop 400->0", "chunks-2026-11 hot - 2000->2000"}},
		{"writers are given time to see the mark", "2026-11-01 00:00",
			[]store.ContainerState{seen("chunks-2026-09", 400), seen("chunks-2026-11", 2000)},
			[]control.Month{{Container: "chunks-2026-09", State: control.MonthExpired, Since: at("2026-10-31 23:51")},
				asked("chunks-2026-11")}, []tenant.Tenant{month},
			[]string{"chunks-2026-09 expired drop 400->0 waits", "chunks-2026-11 hot - 2000->2000"}},
		{"a drop that was cut short is finished", "2026-11-01 00:00",
			[]store.ContainerState{seen("chunks-2026-11", 2000)}, []control.Month{inState("chunks-2026-09",
				control.MonthExpired), asked("chunks-2026-11")}, []tenant.Tenant{month},
			[]string{"chunks-2026-09 expired drop 0->0", "chunks-2026-11 hot - 2000->2000"}},
		{"one tenant that keeps for ever keeps it", "2026-11-20 12:00",
			[]store.ContainerState{seen("chunks-2020-01", 400), seen("chunks-2026-11", 2000)},
			[]control.Month{asked("chunks-2020-01"), asked("chunks-2026-11")}, []tenant.Tenant{month, forever},
			[]string{"chunks-2020-01 cold - 400->400", "chunks-2026-11 hot - 2000->2000"}},
		{"a tenant that came after the mark keeps it", "2026-11-20 12:00",
			[]store.ContainerState{seen("chunks-2020-01", 400), seen("chunks-2026-11", 2000)},
			[]control.Month{inState("chunks-2020-01", control.MonthExpired), asked("chunks-2026-11")},
			[]tenant.Tenant{month, forever},
			[]string{"chunks-2020-01 cold keep 400->400", "chunks-2026-11 hot - 2000->2000"}},
		{"a tenant without an epoch in it does not matter", "2026-11-20 12:00",
			[]store.ContainerState{seen("chunks-2025-01", 400), seen("chunks-globex-2025-01", 400),
				seen("chunks-2026-11", 2000)},
			[]control.Month{asked("chunks-2025-01"), asked("chunks-globex-2025-01"), asked("chunks-2026-11")},
			[]tenant.Tenant{newTenant(t, "globex", 30*day, dedicated("20250101")), forever},
			[]string{"chunks-2025-01 cold - 400->400", "chunks-globex-2025-01 expired expire 400->0",
				"chunks-2026-11 hot - 2000->2000", "chunks-globex-2026-11 hot create 0->2000"}},
		{"what nobody is known for stays", "2026-11-20 12:00",
			[]store.ContainerState{seen("chunks-gone-2020-01", 400), seen("chunks-2026-11", 2000)},
			[]control.Month{asked("chunks-gone-2020-01"), asked("chunks-2026-11")}, []tenant.Tenant{month},
			[]string{"chunks-gone-2020-01 cold - 400->400", "chunks-2026-11 hot - 2000->2000"}},
		{"what was asked for lately stays", "2026-11-20 12:00", []store.ContainerState{seen("chunks-2026-11", 2000)},
			[]control.Month{{Container: "chunks-2020-01", State: control.MonthAsked, Asked: at("2026-11-19 13:00")},
				asked("chunks-2026-11")}, []tenant.Tenant{month},
			[]string{"chunks-2020-01 cold create 0->400", "chunks-2026-11 hot - 2000->2000"}},
		{"a dropped one is of no interest", "2026-11-20 12:00",
			[]store.ContainerState{seen("chunks-2026-11", 2000)}, []control.Month{inState("chunks-2020-01",
				control.MonthDropped), asked("chunks-2026-11")}, []tenant.Tenant{month},
			[]string{"chunks-2026-11 hot - 2000->2000"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, lines(provision.DevPolicy().Plan(at(c.now),
				provision.Found{Containers: c.seen, Months: c.months, Tenants: c.tenants})))
		})
	}
}

// A container that will be hot is born with the physical partitions for it, since raising it would split for hours.
func TestNextMonthStartsWithFullThroughput(t *testing.T) {
	p := provision.DevPolicy()
	p.HotRUs = 35_000
	have := []store.ContainerState{seen("chunks-2026-11", 35_000)}
	months := []control.Month{asked("chunks-2026-11"), asked("chunks-2026-12")}
	steps := p.Plan(at("2026-11-29 00:00"), provision.Found{Containers: have, Months: months, Tenants: nil})
	require.Equal(t, "chunks-2026-12 next create 0->18100", lines(steps)[1], "4 partitions of 6,000")

	have = append(have, store.ContainerState{Name: "chunks-2026-12", Throughput: steps[1].Wanted, MinRUs: 400})
	steps = p.Plan(at("2026-11-29 00:00"), provision.Found{Containers: have, Months: months, Tenants: nil})
	require.Equal(t, "chunks-2026-12 next scale 18100->400", lines(steps)[1])
}

func TestLimit(t *testing.T) {
	p := provision.DevPolicy()
	scale := func(name string, now, wanted int) provision.Step {
		return provision.Step{Container: name, Tier: provision.Cold, Action: provision.Scale, Now: store.Throughput{RUs: now},
			Wanted: store.Throughput{RUs: wanted}}
	}
	create := func(name string, tier provision.Tier) provision.Step {
		return provision.Step{Container: name, Tier: tier, Action: provision.Create, Wanted: store.Throughput{RUs: 400}}
	}
	drop := provision.Step{Container: "chunks-2020-01", Tier: provision.Expired, Action: provision.Drop,
		Now: store.Throughput{RUs: 400}}
	steps := []provision.Step{
		create("chunks-1970-01", provision.Cold), create("chunks-1990-01", provision.Cold),
		create("chunks-2026-12", provision.Next), create("chunks-2026-11", provision.Hot),
		scale("chunks-2026-08", 800, 400), scale("chunks-2026-09", 800, 400), scale("chunks-2026-10", 400, 800), drop,
	}
	require.Equal(t, []string{
		"chunks-2020-01 expired drop 400->0",
		"chunks-2026-10 cold scale 400->800",
		"chunks-2026-11 hot create 0->400",
		"chunks-2026-12 next create 0->400",
		"chunks-1990-01 cold create 0->400",
		"chunks-1970-01 cold create 0->400 waits",
		"chunks-2026-09 cold scale 800->400",
		"chunks-2026-08 cold scale 800->400 waits",
	}, lines(p.Limit(steps, 2, 2)), "room for two and what is dropped, two changes")
	for _, s := range p.Limit(steps, 100, 100) {
		require.Empty(t, s.Waits)
	}
}

func TestPrint(t *testing.T) {
	have := []store.ContainerState{seen("control", 400), seen("chunks-2026-11", 2000), seen("chunks-2026-10", 2000),
		seen("chunks-2026-09", 400)}
	months := []control.Month{asked("chunks-2026-11"), asked("chunks-2026-10"),
		inState("chunks-2026-09", control.MonthExpired), asked("chunks-2026-08")}
	p := provision.DevPolicy()
	p.Grace = 0
	steps := p.Plan(at("2026-11-28 12:00"), provision.Found{Containers: have, Months: months,
		Tenants: []tenant.Tenant{newTenant(t, "globex", 58*day)}})
	var out strings.Builder
	require.NoError(t, provision.Print(&out, p.Limit(steps, 1, 1)))
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.TrimSpace(line))
	}
	require.Equal(t, []string{
		"CONTAINER       TIER     RU/S NOW  WANTED  ACTION                                    $/MONTH NOW  AFTER",
		"control         base     400       400     -                                         23.61        23.61",
		"chunks-2026-08  expired  -         -       expire: no tenant's retention covers it   0.00         0.00",
		"chunks-2026-09  expired  400       -       drop: no tenant's retention covers it     23.61        0.00",
		"chunks-2026-10  warm     2000      800     scale: its days ended 28 days ago         117.05       46.97",
		"chunks-2026-11  hot      2000      2000    -                                         117.05       117.05",
		"chunks-2026-12  next     -         400     create: readings come from 2026-12-01 on  0.00         23.61",
		"total                    4800      3600                                              281.32       211.24",
		"",
		"on an account of the free tier (1000 RU/s and 25 GB): $151.84 a month",
	}, got)
}

func TestPolicies(t *testing.T) {
	require.NoError(t, provision.DefaultPolicy().Validate())
	require.NoError(t, provision.DevPolicy().Validate())
	p := provision.DevPolicy()
	p.ColdRUs, p.HotRUs, p.SharedRUs = 300, 450, 350
	err := p.Validate()
	for _, part := range []string{"300", "450", "350 RU/s to share"} {
		require.ErrorContains(t, err, part, "every fault at once")
	}
}

// A container of rollups comes after that of its chunks, stays as it is, and goes after it.
func TestRollupsHaveTheirOwnContainer(t *testing.T) {
	p := provision.DevPolicy()
	p.RollupsRUs = 2000
	require.NoError(t, p.Validate())
	now := at("2026-11-20 12:00")
	plan := func(have []store.ContainerState, months ...control.Month) map[string]provision.Action {
		out := make(map[string]provision.Action)
		for _, s := range p.Plan(now, provision.Found{Containers: have, Months: months,
			Tenants: []tenant.Tenant{newTenant(t, "acme", 30*day)}}) {
			out[s.Container] = s.Action
			if s.Container == "rollups-2026-11" && s.Action == provision.Create {
				require.Equal(t, store.Throughput{RUs: 2000, Autoscale: true}, s.Wanted)
			}
		}
		return out
	}
	require.Equal(t, provision.Create, plan(nil)["rollups-2026-11"], "in one round with that of the chunks")
	steps := p.Limit(p.Plan(now, provision.Found{Containers: nil, Months: nil,
		Tenants: []tenant.Tenant{newTenant(t, "acme", 0)}}), 1, 1)
	require.Equal(t, []string{"chunks-2026-11 hot create 0->2000", "rollups-2026-11 base create 0->2000 waits"},
		lines(steps), "chunks come first")
	chunks := seen("chunks-2026-11", 2000)
	require.Equal(t, provision.Create, plan([]store.ContainerState{chunks}, asked("chunks-2026-11"))["rollups-2026-11"])
	rollups := store.ContainerState{Name: "rollups-2026-11", Throughput: store.Throughput{RUs: 9000, Autoscale: true}}
	require.Equal(t, provision.None,
		plan([]store.ContainerState{chunks, rollups}, asked("chunks-2026-11"))["rollups-2026-11"])

	old := seen("chunks-2026-05", 400)
	oldRollups := store.ContainerState{Name: "rollups-2026-05", Throughput: store.Throughput{RUs: 2000, Autoscale: true}}
	expired := inState("chunks-2026-05", control.MonthExpired)
	require.Equal(t, provision.None, plan([]store.ContainerState{old, oldRollups}, expired)["rollups-2026-05"])
	require.NotContains(t, plan([]store.ContainerState{old}, expired), "rollups-2026-05", "it is about to go")
	gone := inState("chunks-2026-05", control.MonthDropped)
	require.Equal(t, provision.Drop, plan([]store.ContainerState{oldRollups}, gone)["rollups-2026-05"])
	require.Equal(t, provision.None, plan([]store.ContainerState{oldRollups})["rollups-2026-05"], "nothing is known")
	p.RollupsRUs = 0
	require.NotContains(t, plan([]store.ContainerState{chunks}, asked("chunks-2026-11")), "rollups-2026-11")
	p.RollupsRUs = 1500
	require.ErrorContains(t, p.Validate(), "1500")
}
