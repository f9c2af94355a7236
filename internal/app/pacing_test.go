package app_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/bins"
	"binnacle/ingest/ingesttest"
	"binnacle/ingest/worker"
	"binnacle/ingest/write"
	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/store"
	"binnacle/internal/stream"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/stretchr/testify/require"
)

// paced is a Worker on an account of four physical partitions with 400 RU/s each, as it would run: an attempt at a job
// takes a while, and others go on meanwhile. Time is simulated.
type paced struct {
	t         *testing.T
	now       time.Time
	server    *emulator.Server
	client    *cosmos.Client
	directory *control.Directory
	local     *ingest.Local
	place     tenant.Tenant
	offset    int64
	under     []attempt                  // jobs under way
	spent     time.Duration              // by the attempt that is being made: on the way, and waiting inside the adapter
	stored    map[string]int             // chunks by device
	fed       map[string]time.Time       // devices with readings that are not stored, since when
	delays    map[string][]time.Duration // from a reading to its chunk, by container
}

type attempt struct {
	job  write.Job
	ends time.Time
}

const (
	pacedContainer = "chunks-2026-11"
	latency        = 50 * time.Millisecond // of the account
)

func newPaced(t *testing.T) *paced {
	p := &paced{t: t, now: time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC), stored: map[string]int{},
		fed: map[string]time.Time{}, delays: map[string][]time.Duration{}}
	clock := func() time.Time { return p.now }
	server, err := emulator.Open(emulator.Config{InMemory: true, PhysicalPartitions: 4, Now: clock})
	require.NoError(t, err)
	client, err := cosmos.New(cosmos.Config{Endpoint: server.Endpoint(), Credential: cosmos.FixedKey(emulator.Key),
		Transport: far{server.Transport(), p}, Now: clock, Jitter: func() float64 { return 0.5 },
		Sleep: func(_ context.Context, d time.Duration) error { p.spent += d; return nil }})
	require.NoError(t, err)
	t.Cleanup(func() {
		client.Close()
		require.NoError(t, server.Close())
	})
	require.NoError(t, client.EnsureBase(t.Context()))
	require.NoError(t, client.Containers().SetThroughput(t.Context(), store.CatalogContainer,
		store.Throughput{RUs: 40_000, Autoscale: true}))
	require.NoError(t, client.Containers().Create(t.Context(), pacedContainer, store.Throughput{RUs: 1600}))
	dir := control.NewDirectory(control.DirectoryConfig{Documents: client.Documents(), Now: clock})
	view, err := dir.Register(t.Context(), "acme")
	require.NoError(t, err)
	p.server, p.client, p.directory = server, client, dir
	p.place, _ = view.Tenant("acme")
	p.local = ingest.NewLocal(ingest.Config{
		Config: worker.Config{Register: true, Hold: 500 * time.Millisecond, MaxWrites: 12, Past: -1}, Now: clock,
		Logger: slog.New(slog.DiscardHandler),
	}, ingest.Stores{
		Chunks: client.Chunks(), Directory: dir, Catalog: client.Catalog(),
		Streams: stream.NewStreams(client.Documents()), DeadLetters: noDeadLetters{},
	}, worker.Assignment{Stream: 1})
	return p
}

// far is the way to the account.
type far struct {
	policy.Transporter
	p *paced
}

func (f far) Do(r *http.Request) (*http.Response, error) {
	f.p.spent += latency
	return f.Transporter.Do(r)
}

// devices are n whose chunks go to the physical partitions that the first of them goes to, or to all others.
func (p *paced) devices(n int, hot bool) (names []string) {
	day := telemetry.DayOf(p.now.UnixMilli())
	first := p.place.Placement.Key("d0", day, 0).TenantShard
	for i := 0; len(names) < n; i++ {
		name := fmt.Sprintf("d%d", i)
		if (p.place.Placement.Key(name, day, 0).TenantShard == first) == hot {
			names = append(names, name)
		}
	}
	return names
}

// feed has a device report as much text as that.
func (p *paced) feed(device string, bytes int) { p.feedOf(device, bytes, p.now) }

// feedOf is feed of a reading with another event time than now.
func (p *paced) feedOf(device string, bytes int, at time.Time) {
	if p.fed[device].IsZero() {
		p.fed[device] = p.now
	}
	now := p.now.UnixMilli()
	text := fmt.Sprintf("%x", ingesttest.Random(bytes/2, p.offset))
	require.NoError(p.t, p.local.Take(p.t.Context(), admit.Record{Offset: p.offset, Time: now, Value: fmt.Appendf(nil,
		`{"tenant":"acme","device":%q,"ts":%d,"values":{"t":%q}}`, device, at.UnixMilli(), text)}))
	p.offset++
}

// until does what is due as an Ingester does it, jobs beside each other, until the time has come.
func (p *paced) until(end time.Time) {
	for p.now.Before(end) {
		for _, j := range p.local.Due() {
			p.spent = 0
			require.NoError(p.t, p.local.Attempt(p.t.Context(), j))
			p.under = append(p.under, attempt{j, p.now.Add(p.spent)})
		}
		next := p.local.Next(p.now)
		for _, a := range p.under {
			next = earlier(next, a.ends)
		}
		p.now = earlier(end, later(next, p.now.Add(time.Millisecond)))
		var under []attempt
		for _, a := range p.under {
			if a.ends.After(p.now) {
				under = append(under, a)
				continue
			}
			if c, ok := a.job.(*write.Create); ok && c.Outcome().Fault == bins.None {
				p.stored[c.Key.Device]++
				p.delays[c.Key.Container] = append(p.delays[c.Key.Container], p.now.Sub(p.fed[c.Key.Device]))
				delete(p.fed, c.Key.Device)
			}
			p.local.Done(a.job, p.now)
		}
		p.under = under
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// One tenant's devices flood one physical partition for a while: what goes to the others goes as if that weren't
// there, the flooded one is used to the full, and the service is not asked in vain.
func TestHotPartitionDelaysNoOther(t *testing.T) {
	const warm, seconds = 5, 20 // at first all chains are looked up and all devices noted
	run := func(flood int) (cold int, hot, refused float64) {
		p := newPaced(t)
		colds, hots := p.devices(60, false), p.devices(40, true)
		for second := range warm + seconds {
			if second == warm {
				clear(p.stored)
				p.server.ResetStats()
			}
			for _, d := range colds {
				p.feed(d, 1000)
			}
			for _, d := range hots[:flood] {
				p.feed(d, 30_000)
			}
			p.until(p.now.Add(time.Second))
		}
		parts, err := p.server.Partitions(store.Database, pacedContainer)
		require.NoError(t, err)
		for _, part := range parts {
			hot = max(hot, part.RUs)
			refused += float64(part.Throttled)
		}
		for _, d := range colds {
			cold += p.stored[d]
		}
		return cold, hot, refused
	}
	alone, _, none := run(0)
	require.Zero(t, none, "the cold ones have enough")
	beside, hot, refused := run(40)
	t.Logf("chunks of others: %d alone, %d beside the flood; the flooded partition: %.0f RU of %d, %.0f refusals",
		alone, beside, hot, 400*seconds, refused)
	require.GreaterOrEqual(t, beside, alone*98/100)
	require.GreaterOrEqual(t, hot, 0.8*400*seconds)
	require.LessOrEqual(t, refused, 2.0*seconds)
}

// A flood of year-old readings from the same tenant, many times what their month's container takes, slows what is live
// by two requests at most, and costs its container nothing: late chunks wait for their own month.
func TestFloodOfLateDataSlowsNothing(t *testing.T) {
	const warm, seconds, late = 3, 8, "chunks-2025-11"
	run := func(flood int) (p50, p99 time.Duration, live, old float64) {
		p := newPaced(t)
		require.NoError(t, p.client.Containers().Create(t.Context(), late, store.Throughput{RUs: 400}))
		require.NoError(t, p.directory.AskMonth(t.Context(), late, ""))
		devices := p.devices(60+flood, false)
		for second := range warm + seconds {
			if second == warm {
				clear(p.delays)
				p.server.ResetStats()
			}
			for _, d := range devices[:60] {
				p.feed(d, 1000)
			}
			for _, d := range devices[60:] {
				p.feedOf(d, 30_000, p.now.AddDate(-1, 0, 0))
			}
			p.until(p.now.Add(time.Second))
		}
		for _, of := range []struct {
			container string
			rus       *float64
		}{{pacedContainer, &live}, {late, &old}} {
			parts, err := p.server.Partitions(store.Database, of.container)
			require.NoError(t, err)
			for _, part := range parts {
				*of.rus += part.RUs
			}
		}
		delays := p.delays[pacedContainer]
		slices.Sort(delays)
		return delays[len(delays)/2], delays[len(delays)*99/100], live, old
	}
	show := func(flood int) (p99 time.Duration, live, old float64) {
		p50, p99, live, old := run(flood)
		t.Logf("late readings/s %d: live p50 %v, p99 %v, live RU/s %.0f, late RU/s %.0f of 400", flood, p50, p99,
			live/seconds, old/seconds)
		return p99, live, old
	}
	p99, live, _ := show(0)
	flooded, beside, old := show(40)
	require.LessOrEqual(t, flooded, p99+2*latency)
	require.InEpsilon(t, live, beside, 0.01)
	require.Greater(t, old, 0.5*400*seconds, "it goes at its own pace")
}
