package provision_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/provision"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/tenant"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// account is provision.Containers in memory. It fails the test when something is asked for that the
// service refuses.
type account struct {
	t *testing.T

	mu         sync.Mutex // guards below
	containers map[string]store.ContainerState
	fail       map[string]error // by operation
	reads      int
	changes    int
}

func newAccount(t *testing.T) *account {
	return &account{t: t, containers: make(map[string]store.ContainerState), fail: make(map[string]error)}
}

func (a *account) List(context.Context) ([]string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.containers)), a.fail["list"]
}

func (a *account) ReadThroughput(_ context.Context, name string) (store.ContainerState, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reads++
	s, ok := a.containers[name]
	if !ok {
		return s, store.ErrNoContainer
	}
	return s, a.fail["read"]
}

func (a *account) Create(_ context.Context, name string, t store.Throughput) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.fail["create"]; err != nil {
		return err
	}
	if _, ok := a.containers[name]; ok {
		a.t.Errorf("%s is made twice", name)
	}
	a.containers[name] = store.ContainerState{Name: name, Throughput: t, MinRUs: 400}
	return nil
}

func (a *account) SetThroughput(_ context.Context, name string, t store.Throughput) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changes++
	s, ok := a.containers[name]
	if !ok || s.Pending || t.RUs < s.MinRUs || t.RUs%100 != 0 || t.Autoscale != s.Throughput.Autoscale {
		a.t.Errorf("%s: %+v can't become %+v", name, s, t)
	}
	s.Throughput = t
	a.containers[name] = s
	return a.fail["set"]
}

func (a *account) Delete(_ context.Context, name string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.fail["delete"]; err != nil {
		return err
	}
	delete(a.containers, name)
	return nil
}

func (a *account) rus() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make(map[string]int)
	for name, s := range a.containers {
		out[name] = s.Throughput.RUs
	}
	return out
}

// bench is a Provisioner over an account in memory.
type bench struct {
	*account
	docs      *storetest.Documents
	directory *control.Directory
	log       *bytes.Buffer
	metrics   *prometheus.Registry
	*provision.Provisioner
}

func newBench(t *testing.T, now func() time.Time, change func(*provision.Config, *control.DirectoryConfig)) *bench {
	b := &bench{account: newAccount(t), docs: storetest.NewDocuments(t), log: &bytes.Buffer{},
		metrics: prometheus.NewRegistry()}
	dc := control.DirectoryConfig{Documents: b.docs, Now: now}
	pc := provision.Config{
		Containers: b.account, Policy: provision.DevPolicy(), Now: now,
		Logger: slog.New(slog.NewTextHandler(b.log, nil)), Registerer: b.metrics,
	}
	if change != nil {
		change(&pc, &dc)
	}
	b.directory = control.NewDirectory(dc)
	pc.Directory = b.directory
	var err error
	b.Provisioner, err = provision.New(pc)
	require.NoError(t, err)
	return b
}

func (b *bench) once(t *testing.T) {
	t.Helper()
	_, err := b.Once(t.Context())
	require.NoError(t, err)
}

func TestRoundConverges(t *testing.T) {
	now := at("2026-11-28 12:00")
	b := newBench(t, func() time.Time { return now }, nil)
	b.once(t)
	require.Equal(t, map[string]int{"chunks-2026-11": 2000, "chunks-2026-12": 400}, b.rus())
	require.True(t, b.directory.Snapshot().HasContainer("chunks-2026-12"), "writers need not ask for it")
	steps, err := b.Once(t.Context())
	require.NoError(t, err)
	for _, s := range steps {
		require.Equal(t, provision.None, s.Action)
	}
	reads := b.reads
	b.once(t)
	require.Equal(t, reads, b.reads, "what is known is not read again")
	now = now.Add(10 * time.Minute)
	b.once(t)
	require.Equal(t, reads+2, b.reads, "for a while")
}

func TestPlanChangesNothing(t *testing.T) {
	now := at("2026-11-28 12:00")
	b := newBench(t, func() time.Time { return now }, nil)
	steps, err := b.Plan(t.Context())
	require.NoError(t, err)
	require.Len(t, steps, 2)
	require.Empty(t, b.rus())
	months, err := b.docs.List(t.Context(), control.KindMonth)
	require.NoError(t, err)
	require.Empty(t, months)
}

func TestThroughputChangesAreLimited(t *testing.T) {
	now := at("2026-11-20 12:00")
	b := newBench(t, func() time.Time { return now }, func(c *provision.Config,
		_ *control.DirectoryConfig) {
		c.Policy.MaxChanges = 3
	})
	for _, name := range []string{"chunks-2026-01", "chunks-2026-02", "chunks-2026-03", "chunks-2026-04",
		"chunks-2026-05"} {
		b.containers[name] = seen(name, 800)
		require.NoError(t, b.directory.AskMonth(t.Context(), name, ""))
	}
	b.once(t)
	require.Equal(t, 3, b.changes)
	now = now.Add(4 * time.Minute)
	b.once(t)
	require.Equal(t, 3, b.changes)
	now = now.Add(time.Minute)
	b.once(t)
	require.Equal(t, 5, b.changes)
	require.Equal(t, 400, b.rus()["chunks-2026-01"])
}

// When the account is full, what is needed waits, provision says so, and the month is made as soon as there is room.
func TestFullAccount(t *testing.T) {
	now := at("2026-11-20 12:00")
	for _, c := range []struct {
		name   string
		change func(*provision.Config, *control.DirectoryConfig)
		break_ func(*bench)
		mend   func(*bench)
	}{
		{"by count", func(c *provision.Config, _ *control.DirectoryConfig) { c.Policy.MaxContainers = 3 },
			func(b *bench) { b.containers["chunks-1999-01"] = seen("chunks-1999-01", 400) },
			func(b *bench) { delete(b.containers, "control") }},
		{"by what the service says", nil,
			func(b *bench) { b.fail["create"] = store.ErrAccountFull },
			func(b *bench) { delete(b.fail, "create") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, func() time.Time { return now }, c.change)
			b.containers["control"] = seen("control", 400)
			c.break_(b)
			b.once(t)
			require.NotContains(t, b.rus(), "chunks-2026-11")
			require.Contains(t, b.log.String(), "level=ERROR")
			require.Contains(t, b.log.String(), "chunks-2026-11")
			require.Equal(t, 1., gauge(t, b.metrics, "binnacle_provision_containers_without_room"))
			c.mend(b)
			b.once(t)
			require.Contains(t, b.rus(), "chunks-2026-11")
			require.Zero(t, gauge(t, b.metrics, "binnacle_provision_containers_without_room"))
		})
	}
}

func gauge(t *testing.T, r *prometheus.Registry, name string) float64 {
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	require.Fail(t, "no metric "+name)
	return 0
}

// A step that fails does not hold back the others, and is tried again.
func TestFailedStep(t *testing.T) {
	now := at("2026-11-28 12:00")
	b := newBench(t, func() time.Time { return now }, nil)
	b.containers["chunks-2026-11"] = seen("chunks-2026-11", 2000)
	b.containers["chunks-2026-08"] = seen("chunks-2026-08", 800)
	require.NoError(t, b.directory.AskMonth(t.Context(), "chunks-2026-11", ""))
	require.NoError(t, b.directory.AskMonth(t.Context(), "chunks-2026-08", ""))
	broken := errors.New("no connection")
	b.fail["create"] = broken
	_, err := b.Once(t.Context())
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "create chunks-2026-12")
	require.Equal(t, 400, b.rus()["chunks-2026-08"])
	delete(b.fail, "create")
	b.once(t)
	require.Contains(t, b.rus(), "chunks-2026-12")
	n, err := testutil.GatherAndCount(b.metrics, "binnacle_provision_steps_total")
	require.NoError(t, err)
	require.Equal(t, 3, n, "create failed, create done, scale done")
}

// What is done to containers is kept; a step that fails in every round is one action.
func TestStepsAreRecordedAsActions(t *testing.T) {
	now := at("2026-11-28 12:00")
	var actions *control.Actions
	b := newBench(t, func() time.Time { return now }, func(pc *provision.Config, dc *control.DirectoryConfig) {
		actions = control.NewActions(dc.Documents, "provision@pod", slog.New(slog.DiscardHandler), dc.Now)
		pc.Actions = actions
	})
	b.containers["chunks-2026-08"] = seen("chunks-2026-08", 800)
	require.NoError(t, b.directory.AskMonth(t.Context(), "chunks-2026-08", ""))
	b.fail["create"] = errors.New("no connection")
	for range 5 {
		_, err := b.Once(t.Context())
		require.Error(t, err)
		now = now.Add(time.Minute)
	}
	kept := func() (lines []string) {
		all, err := actions.List(t.Context(), time.Time{})
		require.NoError(t, err)
		for _, a := range all {
			require.Equal(t, "provision@pod", a.Who)
			lines = append(lines, a.Verb+" "+a.Object+" "+a.Details()+": "+a.Outcome)
		}
		return lines
	}
	require.ElementsMatch(t, []string{
		"container scale chunks-2026-08 autoscale=false rus=400 rus_before=800 tier=cold " +
			"why=its days ended 89 days ago: done",
		"container create chunks-2026-11 autoscale=false rus=2000 tier=hot " +
			"why=readings of now: create chunks-2026-11: no connection",
		"container create chunks-2026-12 autoscale=false rus=400 tier=next " +
			"why=readings come from 2026-12-01 on: create chunks-2026-12: no connection",
	}, kept())
	delete(b.fail, "create")
	b.once(t)
	require.Len(t, kept(), 3)
	for _, line := range kept() {
		require.Contains(t, line, ": done")
	}
}

// Between the mark and the drop lies a fresh look at the tenants.
func TestNewTenantKeepsExpiredContainer(t *testing.T) {
	now := at("2026-11-20 12:00")
	for _, comes := range []bool{false, true} {
		b := newBench(t, func() time.Time { return now }, func(_ *provision.Config,
			c *control.DirectoryConfig) {
			c.Retention = 30 * day
		})
		_, err := b.directory.Register(t.Context(), "globex")
		require.NoError(t, err)
		b.containers["chunks-2020-01"] = seen("chunks-2020-01", 400)
		b.once(t) // marks it
		require.Contains(t, b.rus(), "chunks-2020-01")
		require.False(t, b.directory.Snapshot().HasContainer("chunks-2020-01"))
		if comes {
			other := control.NewDirectory(control.DirectoryConfig{Documents: b.docs}) // keeps for ever
			v, err := other.Register(t.Context(), "acme")
			require.NoError(t, err)
			require.False(t, v.HasContainer("chunks-2020-01"), "it can see that it must keep off")
		}
		b.once(t)
		require.Contains(t, b.rus(), "chunks-2020-01", "all writers are given time to see it")
		now = now.Add(control.DropAfter)
		b.once(t)
		require.Equal(t, comes, b.rus()["chunks-2020-01"] != 0)
		v, err := b.directory.Refresh(t.Context())
		require.NoError(t, err)
		require.Equal(t, comes, v.HasContainer("chunks-2020-01"))
	}
}

// While a document of a tenant can't be understood nothing is dropped: the tenant may keep it.
func TestDamagedTenantKeepsContainers(t *testing.T) {
	now := at("2026-11-20 12:00")
	b := newBench(t, func() time.Time { return now }, func(_ *provision.Config, c *control.DirectoryConfig) {
		c.Retention = 30 * day
	})
	for _, tenant := range []string{"acme", "globex"} {
		_, err := b.directory.Register(t.Context(), tenant)
		require.NoError(t, err)
	}
	for _, name := range []string{"chunks-2020-01", "chunks-2020-02"} {
		b.containers[name] = seen(name, 400)
	}
	old, _, err := b.docs.Read(t.Context(), tenant.Kind, "globex")
	require.NoError(t, err)
	damaged := old
	damaged.Body = []byte(`{"retentionSeconds":"for ever"}`)
	old.ETag, err = b.docs.Replace(t.Context(), damaged)
	require.NoError(t, err)
	for range 3 {
		b.once(t)
		now = now.Add(time.Hour)
	}
	require.Contains(t, b.rus(), "chunks-2020-01")
	require.Contains(t, b.rus(), "chunks-2020-02")
	_, err = b.docs.Replace(t.Context(), old)
	require.NoError(t, err)
	for range 3 {
		b.once(t)
		now = now.Add(time.Hour)
	}
	require.NotContains(t, b.rus(), "chunks-2020-01")
}

// A request of the same process wakes it; others are found at the next poll.
func TestRequestedMonthIsCreatedPromptly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, time.Now, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		synctest.Wait()
		require.Len(t, b.rus(), 1, "the current month")

		require.NoError(t, b.directory.AskMonth(ctx, "chunks-1970-01", ""))
		b.Wake()
		b.Wake()
		synctest.Wait()
		require.Contains(t, b.rus(), "chunks-1970-01")

		require.NoError(t, b.directory.AskMonth(ctx, "chunks-1970-02", ""))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Contains(t, b.rus(), "chunks-1970-02")

		b.mu.Lock()
		b.fail["create"] = errors.New("no connection")
		b.mu.Unlock()
		require.NoError(t, b.directory.AskMonth(ctx, "chunks-1970-03", ""))
		b.Wake()
		synctest.Wait()
		b.mu.Lock()
		delete(b.fail, "create")
		b.mu.Unlock()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Contains(t, b.rus(), "chunks-1970-03", "what failed is tried again at the next poll")
		cancel()
		require.NoError(t, <-done)
	})
}

func TestConfigIsChecked(t *testing.T) {
	_, err := provision.New(provision.Config{Policy: provision.DevPolicy()})
	require.Error(t, err)
	_, err = provision.New(provision.Config{Containers: newAccount(t),
		Directory: control.NewDirectory(control.DirectoryConfig{})})
	require.ErrorContains(t, err, "RU/s")
}

// A shorter retention drops no container before the time that it announces, and none at all if it is taken back until
// then (rule X5).
func TestShorterRetentionDropsNothingBeforeItSays(t *testing.T) {
	now := at("2026-11-23 12:00")
	b := newBench(t, func() time.Time { return now }, nil)
	b.once(t)
	_, err := b.directory.Register(t.Context(), "acme")
	require.NoError(t, err)
	months := []string{"2025-11", "2026-06", "2026-09"}
	for _, month := range months {
		require.NoError(t, b.directory.AskMonth(t.Context(), "chunks-"+month, ""))
	}
	pass := func(d time.Duration) {
		for end := now.Add(d); now.Before(end); now = now.Add(10 * time.Minute) {
			b.once(t)
		}
	}
	kept := func() (n int) {
		v, err := b.directory.Refresh(t.Context())
		require.NoError(t, err)
		for _, month := range months {
			if v.HasContainer("chunks-" + month) {
				n++
			}
		}
		return n
	}
	set := func(text string) {
		c, err := tenant.RetentionChange(text, func() time.Time { return now })
		require.NoError(t, err)
		require.NoError(t, tenant.NewTenants(b.docs).Set(t.Context(), "acme", c))
	}
	pass(25 * time.Hour) // they were asked for more than a day ago
	require.Equal(t, 3, kept())
	set("40d")
	pass(110 * time.Minute)
	require.Equal(t, 3, kept())
	set("forever")
	pass(24 * time.Hour)
	require.Equal(t, 3, kept(), "it was taken back")
	set("40d")
	pass(2 * time.Hour)
	require.Equal(t, 3, kept())
	pass(6 * time.Hour)
	require.Zero(t, kept())
	require.NotContains(t, b.rus(), "chunks-2026-09")
	require.Contains(t, b.rus(), "chunks-2026-11")
}

// standing is an account at which a process stands still for three minutes in its first Create.
type standing struct {
	*account
	made int
}

func (a *standing) Create(ctx context.Context, name string, t store.Throughput) error {
	if a.made++; a.made == 1 {
		time.Sleep(3 * time.Minute)
	}
	return a.account.Create(ctx, name, t)
}

// A process that stood still in its round does no more of what it has decided: another one has the lease by now.
func TestRoundEndsWithItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a *standing
		b := newBench(t, time.Now, func(pc *provision.Config, dc *control.DirectoryConfig) {
			a = &standing{account: pc.Containers.(*account)}
			pc.Containers, pc.Lease = a, control.NewLeases(dc.Documents, "a", time.Now)
		})
		require.NoError(t, b.directory.AskMonth(t.Context(), "chunks-1999-12", ""))
		for _, made := range []int{1, 2} {
			ctx, cancel := context.WithTimeout(t.Context(), 190*time.Second)
			require.NoError(t, b.Run(ctx))
			cancel()
			require.Equal(t, made, a.made)
		}
	})
}
