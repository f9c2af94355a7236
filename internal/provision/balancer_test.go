package provision_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/heat"
	"binnacle/internal/provision"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/sharding"
	"binnacle/sharding/epk"

	"github.com/stretchr/testify/require"
)

// evening is 19:00 of the 10th.
var evening = time.Date(2026, 11, 10, 19, 0, 0, 0, time.UTC)

// layout is provision.Ranges: ten equal ones of one container.
type layout struct{ container string }

func (l layout) RangesOf(_ context.Context, container string) ([]epk.Range, error) {
	if container != l.container {
		return nil, store.ErrNoContainer
	}
	return epk.Split(10), nil
}

// loads is provision.Heat: the whale acme has nine tenths of the load, of ten devices.
type loads struct{}

func (loads) Frames(_ context.Context, span heat.Span) ([]heat.Frame, error) {
	var cells []heat.Cell
	for tenant, rus := range map[string]float64{"acme": 9000, "globex": 1000} {
		for _, slot := range sharding.Spread(tenant, 4) {
			c := heat.Cell{Key: heat.KeyOf("chunks-2026-11", sharding.Shard(tenant, slot))}
			c.RUs[heat.ChunkWrites], c.RUs[heat.ChunkReads] = rus/8, rus/8
			cells = append(cells, c)
		}
	}
	return []heat.Frame{{Layer: heat.Hours, From: span.To - heat.Hour, To: span.To, Of: 1, Cells: cells}}, nil
}

func (loads) Weights(_ context.Context, day telemetry.Day) ([]heat.Weights, error) {
	w := heat.Weights{Tenant: "acme", Day: day}
	for i := range 10 {
		w.Devices = append(w.Devices, heat.Weight{Device: fmt.Sprint("truck-", i), RUs: 450})
	}
	return []heat.Weights{w}, nil
}

var quiet = slog.New(slog.DiscardHandler)

// scene is a set of control documents with two tenants, and a clock.
type scene struct {
	docs *storetest.Documents
	now  time.Time
}

func newScene(t *testing.T) *scene {
	s := &scene{storetest.NewDocuments(t), evening}
	for _, tenant := range []string{"acme", "globex"} {
		_, err := s.directory().Register(t.Context(), tenant)
		require.NoError(t, err)
	}
	return s
}

func (s *scene) directory() *control.Directory {
	return control.NewDirectory(control.DirectoryConfig{Documents: s.docs, Lead: 4 * time.Hour,
		Now: func() time.Time { return s.now }})
}

// balancer is one of a new process.
func (s *scene) balancer(name string, advise bool) *provision.Balancer {
	now := func() time.Time { return s.now }
	return provision.NewBalancer(provision.BalancerConfig{
		Epochs: s.directory(), Decisions: control.NewDecisions(s.docs), Advise: advise, From: 18 * time.Hour,
		Loads: provision.Loads{Ranges: layout{"chunks-2026-11"}, Heat: loads{}}, Now: now,
		Lease: control.NewLeases(s.docs, name, now), Actions: control.NewActions(s.docs, name, quiet, now),
	})
}

// placed returns the tenants' epochs.
func (s *scene) placed(t *testing.T) map[string][]sharding.Epoch {
	v, err := s.directory().Refresh(t.Context())
	require.NoError(t, err)
	out := map[string][]sharding.Epoch{}
	for _, tenant := range v.Tenants() {
		out[tenant.Name] = tenant.Placement.Epochs()
	}
	return out
}

func TestBalancerDecidesTomorrow(t *testing.T) {
	s := newScene(t)
	s.now = evening.Add(-2 * time.Hour)
	require.NoError(t, s.balancer("a", false).Round(t.Context()))
	require.Len(t, s.placed(t)["acme"], 1, "too early")
	s.now = evening.Add(2 * time.Hour)
	require.NoError(t, s.balancer("a", false).Round(t.Context()))
	require.Len(t, s.placed(t)["acme"], 1, "too late for the lead")

	s.now = evening
	require.NoError(t, s.balancer("a", true).Round(t.Context()))
	require.Len(t, s.placed(t)["acme"], 1, "advice changes nothing")
	all, err := control.NewDecisions(s.docs).List(t.Context(), "acme", 0)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.True(t, all[0].Advice)

	require.NoError(t, s.balancer("a", false).Round(t.Context()))
	epochs := s.placed(t)["acme"]
	require.Len(t, epochs, 2)
	require.Equal(t, telemetry.DayOf(evening.UnixMilli())+1, epochs[1].From)
	require.GreaterOrEqual(t, len(epochs[1].Slots), 10)
	require.NotEmpty(t, epochs[1].Heavy, "each of the devices is nearly half of a partition's share")
	all, err = control.NewDecisions(s.docs).List(t.Context(), "acme", 0)
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, 10, all[1].Partitions)
	require.Less(t, all[1].After, all[1].Before)
	require.Contains(t, all[1].Changes[0].Reason, "of the load")
	actions, err := control.NewActions(s.docs, "x", quiet, time.Now).List(t.Context(), time.Time{})
	require.NoError(t, err)
	require.Equal(t, "epoch add", actions[0].Verb)
	require.Equal(t, control.OutcomeDone, actions[0].Outcome)
}

func TestPinnedTenantStays(t *testing.T) {
	s := newScene(t)
	pin, err := tenant.PinChange(sharding.Pin{Keep: true})
	require.NoError(t, err)
	require.NoError(t, tenant.NewTenants(s.docs).Set(t.Context(), "acme", pin))
	require.NoError(t, s.balancer("a", false).Round(t.Context()))
	require.Len(t, s.placed(t)["acme"], 1)
}

// Two processes at once, neither of which heeds the lease, make the epochs of one decision.
func TestTwoBalancers(t *testing.T) {
	s := newScene(t)
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		b := provision.NewBalancer(provision.BalancerConfig{Epochs: s.directory(), Decisions: control.NewDecisions(s.docs),
			Loads: provision.Loads{Ranges: layout{"chunks-2026-11"}, Heat: loads{}}, Now: func() time.Time { return s.now },
			Actions: control.NewActions(s.docs, name, quiet, time.Now)})
		wg.Go(func() { require.NoError(t, b.Round(t.Context())) })
	}
	wg.Wait()
	require.Len(t, s.placed(t)["acme"], 2)
	all, err := control.NewDecisions(s.docs).List(t.Context(), "", 0)
	require.NoError(t, err)
	require.Len(t, all, 1)
}

// A process that holds the lease keeps the other one from deciding.
func TestLeaseIsHeeded(t *testing.T) {
	s := newScene(t)
	_, err := control.NewLeases(s.docs, "a", func() time.Time { return s.now }).Take(t.Context(), provision.LeaseName,
		time.Hour)
	require.NoError(t, err)
	require.NoError(t, s.balancer("b", false).Round(t.Context()))
	require.Len(t, s.placed(t)["acme"], 1)
}
