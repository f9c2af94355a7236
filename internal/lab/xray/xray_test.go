package xray_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"binnacle/internal/cosmos"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/lab/xray"
	"binnacle/internal/store"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

var accounts = flag.Int("xray.accounts", 1, "how many accounts are made; `make xray` makes 20")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an emulator with a clock, and a client of it.
type world struct {
	t      *testing.T
	now    time.Time
	server *emulator.Server
	client *cosmos.Client
}

var began = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

func newWorld(t *testing.T, partitions int) *world {
	w := &world{t: t, now: began}
	clock := func() time.Time { return w.now }
	var err error
	w.server, err = emulator.Open(emulator.Config{InMemory: true, Unlimited: true, PhysicalPartitions: partitions,
		Now: clock})
	require.NoError(t, err)
	w.client, err = cosmos.New(cosmos.Config{Endpoint: w.server.Endpoint(), Credential: cosmos.FixedKey(emulator.Key),
		Transport: w.server.Transport(), Now: clock})
	require.NoError(t, err)
	require.NoError(t, w.client.EnsureBase(t.Context()))
	return w
}

func (w *world) close() {
	w.client.Close()
	require.NoError(w.t, w.server.Close())
}

// container makes a container with that many levels in its key, k0 and k1.
func (w *world) container(name string, levels int) {
	l := cosmos.Layout{Name: name, Key: []string{"/k0", "/k1"}[:levels]}
	require.NoError(w.t, w.client.Containers().CreateAs(w.t.Context(), l, store.Throughput{RUs: 400}))
}

// reading is a document that a device writes.
type reading struct {
	at             time.Time
	tenant, device string
	size           int
}

// body returns the document under a key.
func (r reading) body(key []string, id string) []byte {
	b := fmt.Appendf(nil, `{"id":%q,"tenantId":%q,"deviceId":%q,"at":%d,"v":1.25,`, id, r.tenant, r.device, r.at.Unix())
	for i, k := range key {
		b = fmt.Appendf(b, `"k%d":%q,`, i, k)
	}
	return append(append(append(b, `"text":"`...), bytes.Repeat([]byte{'x'}, r.size)...), `"}`...)
}

// crowd is devices with random loads.
type crowd struct {
	devices []member
	several bool // tenants
}

type member struct {
	tenant, device string
	perDay, size   int
}

func newCrowd(r *rand.Rand) crowd {
	c := crowd{several: r.IntN(3) > 0}
	tenants := 1
	if c.several {
		tenants = 2 + r.IntN(6)
	}
	n := 60 + r.IntN(100)
	if *accounts == 1 {
		n = 40
	}
	for i := range n {
		t := int(float64(tenants) * r.Float64() * r.Float64())
		m := member{tenant: fmt.Sprintf("tenant-%d", t), device: fmt.Sprintf("dev-%d-%d", r.IntN(1e6), i),
			perDay: []int{2, 4, 8, 24}[r.IntN(4)], size: 100 + 200*r.IntN(5)}
		if r.IntN(60) == 0 {
			m.perDay *= 10
		}
		c.devices = append(c.devices, m)
	}
	return c
}

// day returns what the crowd writes in a day, in the order of time.
func (c crowd) day(day time.Time, r *rand.Rand) (out []reading) {
	for _, m := range c.devices {
		step := 24 * time.Hour / time.Duration(m.perDay)
		at := day.Add(time.Duration(r.Int64N(int64(step))))
		for range m.perDay {
			out = append(out, reading{at, m.tenant, m.device, m.size})
			at = at.Add(step)
		}
	}
	slices.SortStableFunc(out, func(a, b reading) int { return a.at.Compare(b.at) })
	return out
}

// keyer gives a reading its key.
type keyer func(tenant, device string, at time.Time) []string

// write writes readings, and returns what each key was charged.
func (w *world) write(container string, all []reading, key keyer) map[string]float64 {
	charged := map[string]float64{}
	items := w.client.Items(container)
	for i, r := range all {
		w.now = r.at
		k := key(r.tenant, r.device, r.at)
		id := fmt.Sprintf("%d.%d", r.at.UnixNano(), i)
		receipt, err := items.Create(w.t.Context(), k, id, r.body(k, id))
		require.NoError(w.t, err)
		charged[strings.Join(k, ", ")] += receipt.RUs
	}
	return charged
}

// hottest returns the hottest over the mean of the RU of a container's physical partitions.
func (w *world) hottest(container string) (ratio, rus float64) {
	parts, err := w.server.Partitions(store.Database, container)
	require.NoError(w.t, err)
	most := 0.0
	for _, p := range parts {
		rus += p.RUs
		most = max(most, p.RUs)
	}
	return most * float64(len(parts)) / rus, rus
}

// keyers are the keys that accounts are found with.
var keyers = []struct {
	name string
	key  keyer
}{
	{"device", func(_, d string, _ time.Time) []string { return []string{d} }},
	{"tenant", func(t, _ string, _ time.Time) []string { return []string{t} }},
	{"date", func(_, _ string, at time.Time) []string { return []string{at.Format("2006-01-02")} }},
	{"tenant, device", func(t, d string, _ time.Time) []string { return []string{t, d} }},
	{"device and hour", func(_, d string, at time.Time) []string { return []string{d + "_" + at.Format("2006010215")} }},
	{"tenant, date", func(t, _ string, at time.Time) []string { return []string{t, at.Format("2006-01-02")} }},
}

const (
	historyDays  = 6
	measuredDays = 3
)

// What an X-ray predicts of the container's own key holds on the days that follow, after unequal splits; what it
// predicts of others holds when they are written; and the one that it recommends is the best or within 5 % of it.
func TestPredictionsAreMeasured(t *testing.T) {
	for seed := range *accounts {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { examine(t, uint64(seed)) })
	}
}

func examine(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 18))
	c := newCrowd(r)
	kind := keyers[int(seed)%len(keyers)]
	w := newWorld(t, 2+r.IntN(7))
	defer w.close()
	w.container("found", len(kind.key("t", "d", began)))
	day := began
	for i := range historyDays {
		w.write("found", c.day(day, r), kind.key)
		if i == historyDays/2 {
			w.split(r, "found", 1+r.IntN(3))
		}
		day = day.AddDate(0, 0, 1)
	}
	const most = 500.0
	cfg := xray.Config{Database: store.Database, Container: "found", MaxRUs: most, Days: measuredDays, DeviceReads: 0.1,
		TenantReads: 0.01, Now: func() time.Time { return w.now }}
	before, err := w.server.Partitions(store.Database, "found")
	require.NoError(t, err)
	found, err := xray.Run(t.Context(), cfg, w.client)
	require.NoError(t, err)
	after, err := w.server.Partitions(store.Database, "found")
	require.NoError(t, err)
	spent := 0.0
	for i := range after {
		spent += after[i].RUs - before[i].RUs
		require.Equal(t, before[i].Items, after[i].Items, "nothing is written")
	}
	require.LessOrEqual(t, spent, most)
	require.LessOrEqual(t, found.RUs, most)
	require.InDelta(t, spent, found.RUs, 12, "the rest is metadata")

	var days [][]reading
	for range measuredDays {
		days = append(days, c.day(day, r))
		day = day.AddDate(0, 0, 1)
	}
	requireRemedies(t, found)
	// The container itself.
	ratio, share, total := 0.0, 0.0, 0.0
	for i, d := range days {
		w.server.ResetStats()
		charged := w.write("found", d, kind.key)
		hm, rus := w.hottest("found")
		ratio += hm / measuredDays
		total += rus
		if i == 0 || charged[found.Now.HottestKey] > 0 && !strings.Contains(kind.name, "date") {
			most := 0.0
			for _, v := range charged {
				most = max(most, v)
			}
			share = max(share, most/rus)
		}
	}
	t.Logf("%s, %d partitions, %d devices, %d of %d sampled for %.0f RU: hottest/mean %.3f, predicted %.3f; "+
		"hottest key %.4f, predicted %.4f",
		kind.name, len(after), len(c.devices), found.Sampled, found.Documents, found.RUs, ratio,
		found.Now.HottestOverMean, share,
		found.Now.HottestShare)
	require.InEpsilon(t, ratio, found.Now.HottestOverMean, 0.10)
	if !strings.Contains(kind.name, "hour") { // a key of an hour has one or two documents
		require.InEpsilon(t, share, found.Now.HottestShare, 0.05)
	}
	// The alternatives.
	alternatives(t, measured{c, days, found, total / measuredDays / 86400, kind.name})
}

// requireRemedies requires that what can be done stands where another key is recommended, and only there: a copy reads
// and writes all that is stored, an index leaves the hot key as it is, and Binnacle needs least.
func requireRemedies(t *testing.T, r xray.Report) {
	t.Helper()
	if r.Recommended == "" || r.Recommended == r.Now.Name {
		require.Empty(t, r.Remedies)
		return
	}
	require.Len(t, r.Remedies, 4)
	change, index, own := r.Remedies[0], r.Remedies[2], r.Remedies[3]
	require.Greater(t, change.OnceRUs, r.WriteRUs*r.To.Sub(r.From).Seconds())
	require.Less(t, change.NeedRUs, r.Now.NeedRUs)
	require.Greater(t, index.NeedRUs, r.Now.NeedRUs)
	require.Contains(t, index.Cures, "the hot key of writes stays")
	require.Less(t, own.NeedRUs, change.NeedRUs)
	var out bytes.Buffer
	require.NoError(t, xray.Print(&out, r))
	require.Contains(t, out.String(), "WHAT CAN BE DONE")
}

type measured struct {
	crowd
	days  [][]reading
	found xray.Report
	rate  float64 // RU/s of writes
	name  string
}

func alternatives(t *testing.T, m measured) {
	loads := map[[2]string]float64{}
	for _, d := range m.days {
		for _, r := range d {
			loads[[2]string{r.tenant, r.device}]++
		}
	}
	best, recommended := 0.0, 0.0
	schemes := xray.SchemesOf(loads, true, len(m.found.Partitions))
	require.Len(t, m.found.Others, len(schemes))
	for i, s := range schemes {
		predicted := m.found.Others[i]
		require.Equal(t, s.Name, predicted.Name)
		need, ratio := m.need(t, s, predicted)
		t.Logf("  %-42s hottest/mean %.3f, predicted %.3f; RU/s %.3f, predicted %.3f", s.Name, ratio,
			predicted.HottestOverMean, need, predicted.NeedRUs)
		require.InEpsilon(t, ratio, predicted.HottestOverMean, 0.10, s.Name)
		if best == 0 || need < best {
			best = need
		}
		if s.Name == m.found.Recommended {
			recommended = need
		}
	}
	if recommended > 0 {
		require.LessOrEqual(t, recommended, 1.05*best, m.found.Recommended)
	} else {
		require.Equal(t, m.found.Now.Name, m.found.Recommended)
		require.LessOrEqual(t, m.found.Now.NeedRUs, 1.1*best)
	}
}

// need writes a layout, reads from it, and returns the throughput that it needs by what was charged.
func (m measured) need(t *testing.T, s xray.Scheme, predicted xray.Layout) (need, ratio float64) {
	w := newWorld(t, len(m.found.Partitions))
	defer w.close()
	w.container("other", len(s.KeyOf(m.devices[0].tenant, m.devices[0].device, began)))
	key := func(tenant, device string, at time.Time) []string { return s.KeyOf(tenant, device, at) }
	for _, d := range m.days {
		w.server.ResetStats()
		w.write("other", d, key)
		hm, _ := w.hottest("other")
		ratio += hm / measuredDays
	}
	from := m.days[0][0].at.Truncate(24 * time.Hour)
	mid, big := m.typical(), m.biggest()
	foreign := w.client.Foreign(store.Database, "other")
	ranges, err := foreign.Ranges(t.Context())
	require.NoError(t, err)
	ask := func(keys [][]string, extra string, value string) float64 {
		before := foreign.Charged()
		if keys == nil {
			keys = [][]string{nil}
		}
		for _, k := range keys {
			sql := "SELECT * FROM c WHERE c.at >= @p0 AND c.at < @p1 AND c." + extra + " = @p2"
			values := []any{from.Unix(), from.Unix() + 86400, value}
			for i, v := range k {
				sql += fmt.Sprintf(" AND c.k%d = @p%d", i, 3+i)
				values = append(values, v)
			}
			for _, r := range ranges {
				if len(k) == 0 || r.Contains(xray.Hash(k)) {
					require.NoError(t, foreign.Query(context.Background(), r.ID,
						cosmos.ForeignQuery{SQL: sql, Values: values, MaxRUs: 1e9}, func([]byte) error { return nil }))
				}
			}
		}
		return foreign.Charged() - before
	}
	device := ask(s.DeviceKeys(mid.tenant, mid.device, from), "deviceId", mid.device)
	tenant := ask(s.TenantKeys(big, from), "tenantId", big)
	t.Logf("    a device's day %.1f RU, predicted %.1f; a tenant's day %.1f, predicted %.1f", device,
		predicted.DeviceDay.RUs, tenant, predicted.TenantDay.RUs)
	return m.rate*ratio + 0.1*device + 0.01*tenant, ratio
}

// typical returns the device in the middle.
func (m measured) typical() member {
	all := slices.Clone(m.devices)
	slices.SortFunc(all, func(a, b member) int { return b.perDay - a.perDay })
	return all[len(all)/2]
}

// biggest returns the tenant with the most documents.
func (m measured) biggest() string {
	sums, best := map[string]int{}, ""
	for _, d := range m.devices {
		sums[d.tenant] += d.perDay
	}
	for t, n := range sums {
		if best == "" || n > sums[best] {
			best = t
		}
	}
	return best
}

// split splits random physical partitions, so that ranges are unequal.
func (w *world) split(r *rand.Rand, container string, times int) {
	for range times {
		parts, err := w.server.Partitions(store.Database, container)
		require.NoError(w.t, err)
		p := parts[r.IntN(len(parts))]
		require.NoError(w.t, w.server.Split(store.Database, container, p.ID))
	}
}
