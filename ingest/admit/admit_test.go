package admit_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/ingest/ingesttest"
	"binnacle/internal/control"
	"binnacle/internal/retry"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"

	"github.com/stretchr/testify/require"
)

// gate is an Admission of records of the tenant acme, with the devices of which it has taken readings.
type gate struct {
	*admit.Admission
	t         *testing.T
	directory *control.Directory
	moment    admit.Moment
	position  int64
	devices   map[string]bool
	cutting   bool
}

// Seen implements admit.Devices.
func (g *gate) Seen(_, device string, _ telemetry.Day) admit.Seen {
	known := g.devices[device]
	return admit.Seen{Devices: len(g.devices), Known: known, Chains: known, Chain: known, Cutting: g.cutting}
}

func newGate(t *testing.T, cfg admit.Config) *gate {
	stores := ingesttest.NewStores(t, "2026-10", "2026-11")
	began := time.UnixMilli(start)
	dir := control.NewDirectory(control.DirectoryConfig{Documents: stores.Docs, Now: func() time.Time { return began }})
	_, err := dir.Register(t.Context(), "acme")
	require.NoError(t, err)
	require.NoError(t, dir.AskMonth(t.Context(), "chunks-2026-11", ""))
	s, err := dir.Refresh(t.Context())
	require.NoError(t, err)
	g := &gate{t: t, directory: dir, moment: admit.Moment{Snapshot: s, Now: began}, devices: map[string]bool{}}
	cfg.Devices, cfg.Future = g, 10*time.Minute
	if cfg.HeldFor == 0 {
		cfg.HeldFor = 15 * time.Minute
	}
	cfg.Retry = func(least time.Duration) retry.Schedule { return retry.Schedule{First: time.Second, Least: least} }
	g.Admission = admit.New(cfg)
	return g
}

func message(device string, at int64) string {
	return fmt.Sprintf(`{"tenant":"acme","device":%q,"ts":%d,"values":{"a":1}}`, device, at)
}

// admit decides on the next record, now, and returns which devices' readings are taken, and why others are refused.
func (g *gate) admit(messages ...string) (taken, refused string) {
	rec := admit.Record{Offset: g.position, Time: g.moment.Now.UnixMilli(),
		Value: []byte("[" + strings.Join(messages, ",") + "]")}
	d, err := g.Admit(&rec, g.moment)
	require.NoError(g.t, err)
	g.position++
	g.moment.Log.Position, g.moment.Log.End = g.position, g.position
	return g.read(d)
}

func (g *gate) read(d *admit.Decision) (taken, refused string) {
	for _, r := range d.Take {
		g.devices[r.Device] = true
		taken += r.Device + " "
	}
	for _, r := range d.Refused {
		refused += fmt.Sprintf("%d:%s ", r.Bad.Index, r.Bad.Reason)
	}
	return strings.TrimSpace(taken), strings.TrimSpace(refused)
}

// again decides on a record of one device that is read again.
func (g *gate) again(offset int64, device string) (taken, refused string) {
	rec := admit.Record{Offset: offset, Time: start, Value: []byte(message(device, start+offset))}
	d, ok, err := g.AdmitAgain(&rec, g.moment)
	require.NoError(g.t, err)
	g.Limits.SkipTo(offset+1, g.moment.Log, g.moment.Now)
	if !ok {
		return "", ""
	}
	return g.read(d)
}

// Each reading of a record has a decision of its own, for the first reason in the order of the protocol.
func TestEachReadingHasItsDecision(t *testing.T) {
	g := newGate(t, admit.Config{Limits: tenant.IngestLimits{Devices: 2, Labels: 1}})
	taken, refused := g.admit(message("d0", start), `{"tenant":"acme"}`, message("d1", start+3600_000),
		message("d1", -5), message("d1", start), message("d2", start),
		strings.Replace(message("d0", start+1), `"ts"`, `"labels":{"x":"1","y":"2"},"ts"`, 1), message("d1", start+1))
	require.Equal(t, "d0 d1 d1", taken)
	require.Equal(t, fmt.Sprintf("1:%s 2:%s 3:%s 5:%s 6:%s", decode.Device, decode.Future, decode.Past, decode.Limit,
		decode.Limit), refused)
	_, err := g.Admit(&admit.Record{Offset: 1, Value: []byte(`{"tenant":"globex","device":"d","ts":1,"values":{"a":1}}`)},
		g.moment)
	require.Equal(t, &admit.UnknownTenant{Tenant: "globex"}, err)
}

// A record that is too large for a document is refused, and no other one.
func TestOversize(t *testing.T) {
	g := newGate(t, admit.Config{})
	letters, rnd := make([]byte, 900_000), rand.New(rand.NewPCG(1, 2))
	for i := range letters {
		letters[i] = 'a' + byte(rnd.IntN(26))
	}
	text := string(letters)
	large := func(device string) string {
		return strings.Replace(message(device, start), `"a":1`, fmt.Sprintf(`"a":%q,"b":%q`, text, text), 1)
	}
	taken, refused := g.admit(large("d0"), message("d1", start))
	require.Equal(t, "d1", taken)
	require.Equal(t, "0:"+string(decode.TooLarge), refused)
}

// What is over a rate is deferred from one record on, is taken in the order of the log once it is paid for, and is
// refused when it has waited for too long, unless rows of its chain are about to be cut.
func TestDeferred(t *testing.T) {
	g := newGate(t, admit.Config{Limits: tenant.IngestLimits{DeviceReadings: 1, Burst: tenant.PeriodOf(time.Second)}})
	for i, want := range []string{"d0", "d0", "", "", "d1"} {
		device := "d0"
		if i == 4 {
			device = "d1"
		}
		taken, refused := g.admit(message(device, start+int64(i)))
		require.Equal(t, want, taken, i)
		require.Empty(t, refused)
	}
	floor, ok := g.Limits.Floor()
	require.True(t, ok)
	require.EqualValues(t, 2, floor)
	require.Len(t, g.Limits.HeadDeferrals("acme", []string{"d0"}), 1)
	require.Empty(t, g.Limits.HeadDeferrals("acme", []string{"d1"}))
	require.Equal(t, "device-readings", g.Limits.Excesses("acme")[0].Limit)
	_, ok = g.Limits.Next(g.moment.Log, g.moment.Now)
	require.False(t, ok)

	g.moment.Now = g.moment.Now.Add(1500 * time.Millisecond)
	at, ok := g.Limits.Next(g.moment.Log, g.moment.Now)
	require.True(t, ok)
	require.EqualValues(t, 2, at)
	taken, _ := g.again(2, "d0")
	require.Equal(t, "d0", taken)
	taken, _ = g.again(3, "d0")
	require.Empty(t, taken, "it is not paid for yet")

	g.moment.Now = g.moment.Now.Add(time.Minute)
	_, ok = g.Limits.Next(g.moment.Log, g.moment.Now)
	require.True(t, ok)
	taken, _ = g.again(3, "d0")
	require.Equal(t, "d0", taken)
	g.Limits.SkipTo(5, g.moment.Log, g.moment.Now)
	require.Empty(t, g.Limits.Deferrals(""))
	_, ok = g.Limits.Floor()
	require.False(t, ok)
}

// Where the log holds nothing but readings of a tenant that is being registered, reading pauses, for a while; and those
// readings go before new ones once it is. So a backlog of a new tenant is not read twice.
func TestReadingPausesForARegistration(t *testing.T) {
	g := newGate(t, admit.Config{Register: true, Registrations: admit.NewRegistrations(60),
		Limits: tenant.IngestLimits{DeviceReadings: 1, Burst: tenant.PeriodOf(time.Second)}})
	unknown := strings.Replace(message("d", start), "acme", "globex", 1)
	for i := range 300 {
		require.Equal(t, i >= 256, g.Awaits(g.moment.Now), i)
		taken, refused := g.admit(unknown)
		require.Empty(t, taken+refused)
	}
	require.Equal(t, []string{"globex"}, g.Limits.NextRegistrations("t", g.moment.Now, g.moment.Snapshot))
	require.False(t, g.Awaits(g.moment.Now.Add(2*time.Second)), "others may come behind these records")
	require.False(t, g.CatchesUp())
	_, err := g.directory.Register(t.Context(), "globex")
	require.NoError(t, err)
	g.moment.Snapshot, err = g.directory.Refresh(t.Context())
	require.NoError(t, err)
	g.Limits.Registered("globex")
	require.Empty(t, g.Limits.NextRegistrations("t", g.moment.Now, g.moment.Snapshot))
	at, ok := g.Limits.Next(g.moment.Log, g.moment.Now)
	require.True(t, ok)
	require.Zero(t, at)
	require.True(t, g.CatchesUp())
	g.Limits.SkipTo(300, g.moment.Log, g.moment.Now)
	require.False(t, g.CatchesUp() || g.Awaits(g.moment.Now))
	taken, _ := g.admit(unknown)
	require.Equal(t, "d", taken)

	for range 300 {
		g.admit(message("d1", start))
		require.False(t, g.Awaits(g.moment.Now), "a limit may last")
	}
	g.moment.Now = g.moment.Now.Add(time.Minute)
	_, ok = g.Limits.Next(g.moment.Log, g.moment.Now)
	require.True(t, ok)
	require.False(t, g.CatchesUp())
}

// Ever new tenants delay the readings of others for a moment only, however many come.
func TestEverNewTenantsPauseReadingOnce(t *testing.T) {
	g := newGate(t, admit.Config{Register: true, Registrations: admit.NewRegistrations(60)})
	paused := time.Duration(0)
	for i := range 1000 {
		for ; g.Awaits(g.moment.Now); g.moment.Now = g.moment.Now.Add(time.Second) {
			paused += time.Second
		}
		g.admit(strings.Replace(message("d", start), "acme", fmt.Sprintf("t%d", i), 1))
	}
	require.Equal(t, 2*time.Second, paused)
}

// What has waited for too long is refused, but not while rows of its chain are about to be cut.
func TestDeferredForTooLong(t *testing.T) {
	g := newGate(t, admit.Config{Limits: tenant.IngestLimits{DeviceReadings: 1, Burst: tenant.PeriodOf(time.Second)}})
	var many []string
	for i := range int64(5000) {
		many = append(many, message("d0", start+i))
	}
	g.admit(many...)
	g.admit(message("d0", start))
	g.moment.Now = g.moment.Now.Add(20 * time.Minute)
	for _, g.cutting = range []bool{true, false} {
		at, ok := g.Limits.Next(g.moment.Log, g.moment.Now)
		require.True(t, ok)
		require.EqualValues(t, 1, at)
		taken, refused := g.again(1, "d0")
		require.Empty(t, taken)
		require.Equal(t, !g.cutting, refused != "", refused)
		g.moment.Now = g.moment.Now.Add(time.Second)
	}
	require.Empty(t, g.Limits.Deferrals(""))
}

// A device that is forgotten leaves nothing behind, and one that is deferred not before its readings are taken.
func TestForget(t *testing.T) {
	g := newGate(t, admit.Config{Limits: tenant.IngestLimits{DeviceReadings: 1, Series: 3,
		Burst: tenant.PeriodOf(time.Second)}})
	g.admit(message("d0", start))
	g.admit(message("d1", start))
	g.admit(message("d1", start))
	g.admit(message("d1", start))
	require.Len(t, g.Limits.Deferrals(""), 1)
	clear(g.devices)
	g.Limits.Forget("acme", "d0", false)
	g.Limits.Forget("acme", "d1", true)
	require.Positive(t, g.Limits.Bytes())
	g.moment.Now = g.moment.Now.Add(time.Minute)
	_, ok := g.Limits.Next(g.moment.Log, g.moment.Now)
	require.True(t, ok)
	g.Limits.SkipTo(4, g.moment.Log, g.moment.Now)
	require.Zero(t, g.Limits.Bytes())
}
