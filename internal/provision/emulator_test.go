package provision_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/provision"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// service is an emulated account, reached through azcosmos, on a clock of its own.
type service struct {
	now       time.Time
	capacity  string
	server    *emulator.Server
	client    *cosmos.Client
	directory *control.Directory
	*provision.Provisioner
}

func newService(t *testing.T, start string, retention time.Duration, policy provision.Policy) *service {
	s := &service{now: at(start)}
	s.open(t, retention)
	require.NoError(t, s.client.EnsureBase(t.Context()))
	var err error
	s.Provisioner, err = provision.New(provision.Config{
		Containers: s.client.Containers(), Directory: s.directory, Policy: policy, Now: func() time.Time { return s.now },
		Recheck: time.Nanosecond,
	})
	require.NoError(t, err)
	return s
}

// open opens the account, which is empty.
func (s *service) open(t *testing.T, retention time.Duration) {
	clock := func() time.Time { return s.now }
	var err error
	s.server, err = emulator.Open(emulator.Config{InMemory: true, Now: clock, Unlimited: true, Capacity: s.capacity})
	require.NoError(t, err)
	s.client, err = cosmos.New(cosmos.Config{Endpoint: s.server.Endpoint(), Credential: cosmos.FixedKey(emulator.Key),
		Transport: s.server.Transport(), Now: clock})
	require.NoError(t, err)
	t.Cleanup(func() {
		s.client.Close()
		require.NoError(t, s.server.Close())
	})
	s.directory = control.NewDirectory(control.DirectoryConfig{Documents: s.client.Documents(), Now: clock,
		Retention: retention})
}

// shape makes the provisioner anew, of a profile, and the database if there is none.
func (s *service) shape(t *testing.T, profile provision.Profile) {
	p, err := provision.New(provision.Config{
		Containers: s.client.Containers(), Directory: s.directory, Policy: provision.DefaultPolicy(), Profile: profile,
		Now: func() time.Time { return s.now }, Recheck: time.Nanosecond,
	})
	require.NoError(t, err)
	s.Provisioner = p
}

// An account is made small and becomes large from a day on, on the service: what shares goes on sharing, new months
// have their own, and old years go when nobody keeps them.
func TestSmallBecomesLargeOnTheService(t *testing.T) {
	s := &service{now: at("2026-11-23 12:00")}
	s.open(t, 40*day)
	require.NoError(t, s.client.EnsureShared(t.Context(), store.Throughput{RUs: 400}))
	require.NoError(t, s.client.EnsureBase(t.Context()))
	s.shape(t, provision.Small)
	_, err := s.Once(t.Context())
	require.NoError(t, err)
	_, err = s.directory.Register(t.Context(), "acme")
	require.NoError(t, err)
	s.settle(t)
	require.Equal(t, map[string]int{"chunks-2026": 0}, s.tiers(t))
	state, err := s.client.Containers().ReadThroughput(t.Context(), store.Database)
	require.NoError(t, err)
	require.Equal(t, 400, state.Throughput.RUs)

	s.now = at("2026-12-10 12:00")
	s.shape(t, provision.Large)
	s.settle(t)
	require.Equal(t, map[string]int{"chunks-2026": 0, "chunks-2026-12": 4000}, s.tiers(t))
	acme, _ := s.directory.Snapshot().Tenant("acme")
	today := telemetry.DayOf(s.now.UnixMilli())
	require.Equal(t, "chunks-2026", acme.Placement.ContainerOn(today))
	require.Equal(t, "chunks-2026-12", acme.Placement.ContainerOn(today+1))
	s.now = at("2027-02-20 12:00")
	s.settle(t)
	s.now = s.now.Add(control.DropAfter)
	s.settle(t)
	require.Equal(t, map[string]int{"chunks-2027-02": 4000}, s.tiers(t))
}

// settle runs rounds until nothing is left to do.
func (s *service) settle(t *testing.T) {
	t.Helper()
	for range 5 {
		steps, err := s.Once(t.Context())
		require.NoError(t, err)
		idle := true
		for _, step := range steps {
			idle = idle && (step.Action == provision.None || step.Waits != "")
		}
		if idle {
			return
		}
	}
	require.Fail(t, "the rounds do not settle")
}

// tiers is the RU/s of the containers of chunks, as the service has them.
func (s *service) tiers(t *testing.T) map[string]int {
	t.Helper()
	names, err := s.client.Containers().List(t.Context())
	require.NoError(t, err)
	out := make(map[string]int)
	for _, name := range names {
		if slices.Contains(store.BaseContainers(), name) {
			continue
		}
		state, err := s.client.Containers().ReadThroughput(t.Context(), name)
		require.NoError(t, err)
		out[name] = state.Throughput.RUs
	}
	return out
}

// write stores a chunk of a tenant's device on the current day, as ingest does.
func (s *service) write(t *testing.T, tenant string) telemetry.Day {
	t.Helper()
	v, err := s.directory.Register(t.Context(), tenant)
	require.NoError(t, err)
	owner, ok := v.Tenant(tenant)
	require.True(t, ok)
	day := telemetry.DayOf(s.now.UnixMilli())
	key := owner.Placement.Key("m1", day, 0)
	doc := map[string]any{"id": day.String() + ".1.00000.000000", "tenantShard": key.TenantShard, "device": key.Device,
		"from": s.now.UnixMilli(), "to": s.now.UnixMilli()}
	if ttl := owner.TTL(day, s.now.UnixMilli()); ttl > 0 {
		doc["ttl"] = ttl
	}
	body, err := json.Marshal(doc)
	require.NoError(t, err)
	_, err = s.client.Chunks().Create(t.Context(), key, doc["id"].(string), body)
	require.NoError(t, err)
	return day
}

// found counts the chunks of a tenant's device on a day.
func (s *service) found(t *testing.T, tenant string, day telemetry.Day) int {
	t.Helper()
	owner, ok := s.directory.Snapshot().Tenant(tenant)
	require.True(t, ok)
	usage, err := s.client.Chunks().Scan(t.Context(), store.Scan{
		Key: owner.Placement.Key("m1", day, 0), Range: telemetry.Range{From: day.Start(), To: day.End()},
	}, func([]byte) error { return nil })
	if !errors.Is(err, store.ErrNoContainer) {
		require.NoError(t, err)
	}
	return usage.Documents
}

// Five months of an account with a retention of 40 days: a month is made ahead of time, heats up, cools
// down, its readings vanish one day at a time, and it goes.
func TestMonthLifecycle(t *testing.T) {
	s := newService(t, "2026-11-20 12:00", 40*day, provision.DevPolicy())
	s.settle(t)
	require.Equal(t, map[string]int{"chunks-2026-11": 2000}, s.tiers(t))
	first := s.write(t, "globex")
	require.Equal(t, 1, s.found(t, "globex", first))

	s.now = at("2026-11-28 00:01")
	s.settle(t)
	require.Equal(t, map[string]int{"chunks-2026-11": 2000, "chunks-2026-12": 400}, s.tiers(t), "next")
	s.now = at("2026-11-30 23:30")
	last := s.write(t, "globex")
	s.settle(t)
	require.Equal(t, map[string]int{"chunks-2026-11": 2000, "chunks-2026-12": 2000}, s.tiers(t), "hot")
	s.now = at("2026-12-03 00:00")
	s.settle(t)
	require.Equal(t, map[string]int{"chunks-2026-11": 800, "chunks-2026-12": 2000}, s.tiers(t), "warm")

	s.now = at("2026-12-30 23:59") // 40 days after the end of November 20
	require.Equal(t, 1, s.found(t, "globex", first))
	s.now = at("2026-12-31 00:00")
	require.Equal(t, 0, s.found(t, "globex", first), "its time to live is over")
	require.Equal(t, 1, s.found(t, "globex", last))

	s.now = at("2027-01-10 23:59") // 41 days after the end of November: retention and grace
	s.settle(t)
	require.Contains(t, s.tiers(t), "chunks-2026-11")
	s.now = at("2027-01-11 00:00")
	s.settle(t)
	require.Contains(t, s.tiers(t), "chunks-2026-11")
	s.now = at("2027-01-11 02:00")
	s.settle(t)
	require.Equal(t, map[string]int{"chunks-2026-12": 800, "chunks-2027-01": 2000}, s.tiers(t), "expired")
	require.False(t, s.directory.Snapshot().HasContainer("chunks-2026-11"))
	require.Equal(t, 0, s.found(t, "globex", last))
}

// A tenant that keeps for ever: old months are cold, and stay. So it is in dev.
func TestWithoutRetentionNothingExpires(t *testing.T) {
	s := newService(t, "2026-11-20 12:00", 0, provision.DevPolicy())
	s.settle(t)
	first := s.write(t, "acme")
	s.now = at("2027-02-01 12:00")
	s.settle(t)
	require.Equal(t, map[string]int{"chunks-2026-11": 400, "chunks-2027-02": 2000}, s.tiers(t))
	s.now = at("2046-11-20 12:00")
	s.settle(t)
	require.Equal(t, 400, s.tiers(t)["chunks-2026-11"])
	require.Equal(t, 1, s.found(t, "acme", first))
}

// The account's limit, through the SDK: the chunk waits, and is written as soon as there is room.
func TestFullAccountOnTheEmulator(t *testing.T) {
	policy := provision.DevPolicy()
	policy.MaxContainers = 6 // the database, its base containers, the current month and one more
	s := newService(t, "2026-11-20 12:00", 0, policy)
	s.settle(t)
	require.NoError(t, s.directory.AskMonth(t.Context(), "chunks-1970-02", ""))
	require.NoError(t, s.directory.AskMonth(t.Context(), "chunks-1970-01", ""))
	steps, err := s.Once(t.Context())
	require.NoError(t, err)
	require.Contains(t, lines(steps), "chunks-1970-01 cold create 0->400 waits")
	require.Equal(t, map[string]int{"chunks-1970-02": 400, "chunks-2026-11": 2000}, s.tiers(t), "the newest first")

	v, err := s.directory.Register(t.Context(), "acme")
	require.NoError(t, err)
	acme, _ := v.Tenant("acme")
	key := acme.Placement.Key("m1", 3, 0)
	doc := []byte(`{"id":"x","tenantShard":"` + key.TenantShard + `","device":"m1","from":1,"to":2}`)
	_, err = s.client.Chunks().Create(t.Context(), key, "x", doc)
	require.True(t, errors.Is(err, store.ErrNoContainer), "%v", err)
	require.NoError(t, s.client.Containers().Delete(t.Context(), "chunks-1970-02"))
	_, err = s.directory.Mark(t.Context(), s.directory.Snapshot().Month("chunks-1970-02"), control.MonthExpired)
	require.NoError(t, err)
	_, err = s.Once(t.Context())
	require.NoError(t, err)
	_, err = s.client.Chunks().Create(t.Context(), key, "x", doc)
	require.NoError(t, err)
}
