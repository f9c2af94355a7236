package control_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

func TestSetPeriod(t *testing.T) {
	d, docs, _ := newDirectory(t)
	ctx := t.Context()
	v, err := d.Register(ctx, "before")
	require.NoError(t, err)
	require.Equal(t, "chunks-2026-11", v.SharedOn(telemetry.DayOf(noon.UnixMilli())))
	require.NoError(t, d.SetPeriod(ctx, sharding.PeriodEpoch{Period: sharding.Month}), "it is so already")
	require.Empty(t, d.Snapshot().Periods())
	require.Error(t, d.SetPeriod(ctx, sharding.PeriodEpoch{Period: "fortnight"}))

	require.NoError(t, d.SetPeriod(ctx, sharding.PeriodEpoch{Period: sharding.Week}))
	tomorrow := telemetry.DayOf(noon.UnixMilli()) + 1
	require.Equal(t, []sharding.PeriodEpoch{{From: tomorrow, Period: sharding.Week}}, d.Snapshot().Periods())
	require.NoError(t, d.SetPeriod(ctx, sharding.PeriodEpoch{Period: sharding.Week}), "it is decided already")
	require.NoError(t, d.SetPeriod(ctx, sharding.PeriodEpoch{Period: sharding.Day}), "what was stored stays")
	require.Equal(t, []sharding.PeriodEpoch{{From: tomorrow, Period: sharding.Week},
		{From: tomorrow + 1, Period: sharding.Day}}, d.Snapshot().Periods())
	_, err = d.Register(ctx, "after")
	require.NoError(t, err)

	other := control.NewDirectory(control.DirectoryConfig{Documents: docs})
	v, err = other.Refresh(ctx)
	require.NoError(t, err)
	before, _ := v.Tenant("before")
	after, _ := v.Tenant("after")
	for i, want := range []string{"chunks-2026-11", "chunks-2026-W47", "chunks-2026-11-22"} {
		require.Equal(t, want, before.Placement.ContainerOn(tomorrow-1+telemetry.Day(i)))
	}
	require.Equal(t, "chunks-2026-11-20", after.Placement.ContainerOn(tomorrow-1), "it has no days of months")
	require.Equal(t, "chunks-2026-W47", after.Placement.ContainerOn(tomorrow))
	require.Equal(t, []string{"chunks-2026-11-22"}, containersAfter(t, other, "chunks-2026-11-22", "chunks-2026-W30"))
}

// containersAfter asks for containers and returns those that may hold chunks of a tenant on November 22.
func containersAfter(t *testing.T, d *control.Directory, names ...string) []string {
	for _, name := range names {
		require.NoError(t, d.AskMonth(t.Context(), name, ""))
	}
	at := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC).UnixMilli()
	return d.Snapshot().ContainersOf("before", telemetry.Range{From: at, To: at + 1})
}

// A binary from before periods reads a period as an epoch whose id is not its own, and refuses all.
func TestPeriodIsNoEpochOfATenant(t *testing.T) {
	d, docs, _ := newDirectory(t)
	require.NoError(t, d.SetPeriod(t.Context(), sharding.PeriodEpoch{Period: sharding.Year}))
	stored, err := docs.List(t.Context(), tenant.KindEpoch)
	require.NoError(t, err)
	require.Len(t, stored, 1)
	require.Equal(t, "~period.20261121", stored[0].ID)
	require.JSONEq(t, `{"created": 1795176000000, "from": 20778, "period": "year"}`, string(stored[0].Body))
	require.Error(t, telemetry.CheckTenant("~period"))
}

// Whatever tenants, epochs and periods come, whichever process restarts, and however old the readings are: all
// processes that may place a reading place it under one key, and readers find it there, and nowhere else.
func TestPlacementIsOneInRandomHistories(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { (&history{T: t, rnd: rand.New(rand.NewPCG(seed, 19))}).run() })
	}
}

type history struct {
	*testing.T
	rnd       *rand.Rand
	docs      *storetest.Documents
	now       time.Time
	processes []*control.Directory
	chunks    map[chunkOf]sharding.Key
	order     []chunkOf
}

type chunkOf struct {
	tenant, device string
	day            telemetry.Day
	number         uint32
}

func (h *history) process() *control.Directory {
	return control.NewDirectory(control.DirectoryConfig{Documents: h.docs, Now: func() time.Time { return h.now },
		MaxMonths: 1 << 20})
}

func (h *history) run() {
	h.docs, h.now, h.chunks = storetest.NewDocuments(h.T), noon, map[chunkOf]sharding.Key{}
	for range 3 {
		h.processes = append(h.processes, h.process())
	}
	for range 150 {
		i := h.rnd.IntN(len(h.processes))
		d, tenant := h.processes[i], fmt.Sprint("t", h.rnd.IntN(3))
		switch h.rnd.IntN(12) {
		case 0:
			h.processes[i] = h.process()
		case 1:
			like := sharding.PeriodEpoch{Period: sharding.Periods[h.rnd.IntN(len(sharding.Periods))]}
			require.NoError(h, d.SetPeriod(h.Context(), like))
		case 2:
			e := sharding.Epoch{From: telemetry.DayOf(h.now.Add(2*time.Hour).UnixMilli()) + 1 + telemetry.Day(h.rnd.IntN(3)),
				Slots: sharding.Spread(tenant, 1+h.rnd.IntN(4)), Dedicated: h.rnd.IntN(2) == 0}
			if h.rnd.IntN(2) == 0 {
				e.Heavy = map[string][]sharding.Slot{"d0": sharding.Spread("x", 3)}
			}
			_ = d.AddEpoch(h.Context(), tenant, e) // there may be one, or no such tenant
		case 3, 4:
			h.now = h.now.Add(time.Duration(h.rnd.Int64N(int64(30 * time.Hour))))
		case 5:
			_, err := d.Refresh(h.Context())
			require.NoError(h, err)
		default:
			h.place(d, tenant)
		}
	}
	h.check()
}

// place has a process place a chunk of now, of the time to come or of long ago, or one that another has placed.
func (h *history) place(d *control.Directory, tenant string) {
	at := h.now.Add(time.Hour - time.Duration(h.rnd.Int64N(int64(3*time.Hour)))).UnixMilli()
	if h.rnd.IntN(2) == 0 {
		at -= h.rnd.Int64N(400 * telemetry.DayMillis)
	}
	c := chunkOf{tenant, fmt.Sprint("d", h.rnd.IntN(2)), telemetry.DayOf(at), h.rnd.Uint32N(4)}
	if len(h.order) > 0 && h.rnd.IntN(2) == 0 {
		c = h.order[h.rnd.IntN(len(h.order))]
		at = c.day.Start()
	}
	v, err := d.Register(h.Context(), c.tenant)
	require.NoError(h, err)
	if !v.CanPlace(at) {
		v, err = d.Refresh(h.Context())
		require.NoError(h, err)
	}
	require.True(h, v.CanPlace(at))
	known, _ := v.Tenant(c.tenant)
	key := known.Placement.Key(c.device, c.day, c.number)
	if before, ok := h.chunks[c]; ok {
		require.Equal(h, before, key, "%v is under one key", c)
		return
	}
	require.NoError(h, d.AskMonth(h.Context(), key.Container, c.tenant))
	h.chunks[c], h.order = key, append(h.order, c)
}

// check reads as a reader does that knows all of it.
func (h *history) check() {
	v, err := h.process().Refresh(h.Context())
	require.NoError(h, err)
	for c, key := range h.chunks {
		tenant, _ := v.Tenant(c.tenant)
		r := telemetry.Range{From: c.day.Start() - h.rnd.Int64N(50*telemetry.DayMillis),
			To: c.day.End() + h.rnd.Int64N(50*telemetry.DayMillis)}
		require.Contains(h, v.ContainersOf(c.tenant, r), key.Container)
		require.Contains(h, tenant.Placement.Keys(c.device, c.day), key)
		found := 0
		for _, visit := range tenant.Placement.Visits([]string{c.device}, r) {
			if visit.Key == key && visit.Range.Contains(c.day.Start()) {
				found++
			}
		}
		require.Equal(h, 1, found, "%v under %v", c, key)
	}
}
