package provision_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"binnacle/internal/provision"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// even is the load of containers that take a steady 300 RU/s.
type even struct{}

func (even) Of(_ context.Context, names []string, _ time.Time) (map[string]provision.Load, error) {
	out := map[string]provision.Load{}
	for _, name := range names {
		l := provision.Load{Most: 10_000}
		for range 26 * 60 {
			l.RUs, l.Throttled = append(l.RUs, 300), append(l.Throttled, 0)
		}
		out[name] = l
	}
	return out, nil
}

func (even) OfTenant(string, string, time.Time) provision.Load { return provision.Load{} }

// rus is the throughput of every container; -1 for one of a serverless account.
func (s *service) rus(t *testing.T) map[string]int {
	t.Helper()
	names, err := s.client.Containers().List(t.Context())
	require.NoError(t, err)
	out := map[string]int{}
	for _, name := range names {
		state, err := s.client.Containers().ReadThroughput(t.Context(), name)
		require.NoError(t, err)
		if out[name] = state.Throughput.RUs; state.Throughput.Serverless {
			out[name] = -1
		}
	}
	return out
}

// An account begins serverless, with five containers, whatever the profile is. Once it is provisioned its containers
// are taken over: those that nobody asks come down to the least at once, the others by their load at the end of the
// hour, and containers are of a month again.
func TestServerlessGrowsOnTheService(t *testing.T) {
	for _, profile := range []provision.Profile{"", provision.Small, provision.Large, provision.Auto} {
		t.Run(string(profile), func(t *testing.T) {
			s := &service{now: at("2026-11-23 12:05"), capacity: "serverless"}
			s.open(t, 400*day)
			require.NoError(t, s.client.EnsureShared(t.Context(), store.Throughput{RUs: 400}))
			require.NoError(t, s.client.EnsureBase(t.Context()))
			var log bytes.Buffer
			policy := provision.DefaultPolicy()
			policy.RollupsRUs, policy.MaxRUs = 2000, 4000
			follow := provision.DefaultFollow()
			policy.Follow = &follow
			p, err := provision.New(provision.Config{
				Containers: s.client.Containers(), Directory: s.directory, Policy: policy, Profile: profile,
				Now: func() time.Time { return s.now }, Loads: even{}, Base: base(), Serverless: true,
				Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			require.NoError(t, err)
			s.Provisioner = p
			s.settle(t)
			_, err = s.directory.Register(t.Context(), "acme")
			require.NoError(t, err)
			s.settle(t)
			small := map[string]int{"control": -1, "catalog": -1, "heat": -1, "chunks-2026": -1, "rollups-2026": -1}
			require.Equal(t, small, s.rus(t))
			s.now = s.now.Add(24 * time.Hour)
			s.settle(t)
			require.Equal(t, small, s.rus(t))
			require.Equal(t, "serverless", s.Capacity())

			require.NoError(t, s.server.BecomeProvisioned())
			for name := range small {
				require.Equal(t, 5000, s.rus(t)[name], name)
			}
			s.now = s.now.Add(11 * time.Minute) // 12:16: throughput is read again
			s.settle(t)
			require.Equal(t, "provisioned", s.Capacity())
			require.Contains(t, log.String(), "the account has become provisioned")
			require.Contains(t, log.String(), "dollars_per_hour=2")
			got := s.rus(t)
			require.Equal(t, 400, got["control"])
			require.Equal(t, 5000, got["chunks-2026"], "the hour is paid for")
			s.now = at("2026-11-24 12:59")
			s.settle(t)
			for name := range small {
				require.Equal(t, 400, s.rus(t)[name], name)
			}
			if profile == provision.Small {
				_, err := s.Once(t.Context())
				require.NoError(t, err, "what was decided stays")
				return
			}
			s.now = at("2026-12-02 12:00")
			s.settle(t)
			acme, _ := s.directory.Snapshot().Tenant("acme")
			require.Equal(t, "chunks-2026-12", acme.Placement.ContainerOn(telemetry.DayOf(s.now.UnixMilli())))
		})
	}
}

// base is what every account has.
func base() []store.ContainerState {
	return []store.ContainerState{{Name: "control", Throughput: store.Throughput{RUs: 400}},
		{Name: "catalog", Throughput: store.Throughput{RUs: 2000, Autoscale: true}},
		{Name: "heat", Throughput: store.Throughput{RUs: 1000, Autoscale: true}}}
}
