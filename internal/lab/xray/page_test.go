package xray_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"binnacle/internal/cosmos"
	"binnacle/internal/lab/xray"
	"binnacle/internal/store"
	"binnacle/sharding"
	"binnacle/sharding/epk"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write what TestPartitioningPage measures into docs/")

// The fleet of the page: a whale with 80 % of the devices, nine other tenants.
const (
	pageDevices    = 400
	pagePartitions = 10
	pageDocuments  = 4 // of a device
)

// layout is a row of the page's table.
type layout struct {
	name   string
	key    func(r reading, random *rand.Rand) []string
	device func(tenant, device string) [][]string // keys that may hold a device
	tenant func(tenant string) [][]string         // first levels that may hold a tenant; nil: any
}

func suffixed(tenant string, n int) (out [][]string) {
	for i := range n {
		out = append(out, []string{fmt.Sprint(tenant, "~", i)})
	}
	return out
}

func spread(tenant string, n int) (out [][]string) {
	for _, slot := range sharding.Spread(tenant, n) {
		out = append(out, []string{sharding.Shard(tenant, slot)})
	}
	return out
}

func hashOf(device string) uint64 {
	_, low := epk.Sum(epk.String(device))
	return low
}

// fixed is a layout under which a device has one key.
func fixed(name string, key func(tenant, device string) []string, tenant func(string) [][]string) layout {
	return layout{name, func(r reading, _ *rand.Rand) []string { return key(r.tenant, r.device) },
		func(t, d string) [][]string { return [][]string{key(t, d)} }, tenant}
}

func pageLayouts() []layout {
	out := []layout{fixed("no suffix: `/tenant`, `/device`", func(t, d string) []string { return []string{t, d} },
		func(t string) [][]string { return [][]string{{t}} })}
	for _, n := range []int{10, 20, 100} {
		out = append(out, layout{fmt.Sprintf("random suffix of %d: `/tenant~r`, `/device`", n),
			func(r reading, random *rand.Rand) []string {
				return []string{fmt.Sprint(r.tenant, "~", random.IntN(n)), r.device}
			},
			func(t, d string) (keys [][]string) {
				for _, k := range suffixed(t, n) {
					keys = append(keys, []string{k[0], d})
				}
				return keys
			}, func(t string) [][]string { return suffixed(t, n) }})
	}
	level2 := func(t, d string) []string { return []string{t, fmt.Sprint(d, "~", hashOf(d)%10)} }
	out = append(out, fixed("suffix of 10 on level 2: `/tenant`, `/device~s`", level2,
		func(t string) [][]string { return [][]string{{t}} }),
		fixed("hash of the device: `/hash`", func(_, d string) []string {
			return []string{fmt.Sprintf("%x", hashOf(d)%1000)}
		}, nil))
	minute := func(r reading) string { return r.at.Format("2006-01-02T15:04") }
	out = append(out, layout{"device, then minute: `/device`, `/timestamp`", func(r reading, _ *rand.Rand) []string {
		return []string{r.device, minute(r)}
	}, func(_, d string) [][]string { return [][]string{{d}} }, nil},
		layout{"device and minute: `/deviceMinute`", func(r reading, _ *rand.Rand) []string {
			return []string{r.device + "_" + minute(r)}
		}, func(_, _ string) [][]string { return nil }, nil})
	for _, n := range []int{sharding.DefaultSlots, pagePartitions} {
		name := fmt.Sprintf("Binnacle, %d slots", n)
		if n == pagePartitions {
			name = "Binnacle, a slot for each partition"
		}
		slots := func(t string) [][]string { return spread(t, n) }
		key := func(t, d string) []string { return []string{slots(t)[hashOf(d)%uint64(n)][0], d} }
		out = append(out, fixed(name, key, slots))
	}
	return out
}

// The table and the picture of docs/reference/partitioning.md are measured here: each layout is written to the emulator
// and read.
func TestPartitioningPage(t *testing.T) {
	var rows, bars strings.Builder
	layouts := append(pageLayouts(), balancedLayout(t))
	fmt.Fprint(&rows, "| layout | hottest/mean | keys of a device | RU | keys of the whale | RU |\n",
		"|---|---|---|---|---|---|\n")
	ratios := map[string]float64{}
	for i, l := range layouts {
		ratio, shares, device, tenant := measure(t, l)
		ratios[l.name] = ratio
		keys, own := "all", "all"
		if l.tenant != nil {
			keys = fmt.Sprint(len(l.tenant("whale")))
		}
		if of := l.device("whale", "truck-0007"); of != nil {
			own = fmt.Sprint(len(of))
		}
		fmt.Fprintf(&rows, "| %s | %.2f | %s | %.1f | %s | %.0f |\n",
			l.name, ratio, own, device, keys, tenant)
		y := 20 + i*34
		fmt.Fprintf(&bars, `<text x="8" y="%d">%s</text>`+"\n", y+16, strings.ReplaceAll(l.name, "`", ""))
		for p, share := range shares {
			fmt.Fprintf(&bars, `<rect x="%d" y="%d" width="36" height="22" fill="%s"><title>%.1f %%</title></rect>`+"\n",
				370+p*39, y, pageColour(share), 100*share)
		}
		fmt.Fprintf(&bars, `<text x="768" y="%d">%.2f</text>`+"\n", y+16, ratio)
	}
	require.Greater(t, ratios[layouts[0].name], 7.5, "one first-level key is in one physical partition")
	require.Greater(t, ratios[layouts[4].name], 7.5, "a suffix on the second level changes nothing")
	require.Less(t, ratios["Binnacle, a slot for each partition"], ratios["Binnacle, 4 slots"])
	require.Less(t, ratios["Binnacle, with the balancer"], 1.1)
	picture := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 820 %d" font-family="sans-serif" font-size="12" `+
		`fill="#6b7580"><title>RU of each of %d physical partitions by layout</title>`+"\n%s</svg>\n", 30+len(layouts)*34,
		pagePartitions, bars.String())
	pictures := map[string]string{"partitioning.svg": picture, "partitioning-epochs.svg": epochsPicture(t)}
	const begin, end = "<!-- make partitioning: begin -->\n", "<!-- make partitioning: end -->"
	const path = "../../../docs/reference/partitioning.md"
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(page), begin)
	require.True(t, ok)
	was, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(before+begin+rows.String()+end+after), 0o644))
	} else {
		require.Equal(t, rows.String(), was, "make partitioning writes it anew")
	}
	for name, picture := range pictures {
		name = "../../../docs/reference/" + name
		if *update {
			require.NoError(t, os.WriteFile(name, []byte(picture), 0o644))
		}
		drawn, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, picture, string(drawn), "make partitioning writes it anew")
	}
}

// pageColour returns the colour of a physical partition with a share of the RU.
func pageColour(share float64) string {
	red := min(255, int(60+195*share/0.3))
	return fmt.Sprintf("rgb(%d,90,%d)", red, max(40, 200-red/2))
}

// measure writes a layout and returns hottest over mean, the share of each physical partition, and what reads of a
// device and of the whale are charged.
func measure(t *testing.T, l layout) (ratio float64, shares []float64, device, tenant float64) {
	w := newWorld(t, pagePartitions)
	defer w.close()
	r := rand.New(rand.NewPCG(5, 5))
	w.container("other", len(l.key(reading{began, "whale", "truck-0000", 0}, r)))
	var all []reading
	for n := range pageDocuments * pageDevices {
		d := n % pageDevices
		owner, device := pageDevice(d)
		all = append(all, reading{began.Add(time.Duration(n) * 20 * time.Second), owner, device, 400})
	}
	w.write("other", all, func(t, d string, at time.Time) []string { return l.key(reading{at, t, d, 0}, r) })
	parts, err := w.server.Partitions(store.Database, "other")
	require.NoError(t, err)
	ratio, rus := w.hottest("other")
	for _, p := range parts {
		shares = append(shares, p.RUs/rus)
	}
	f := w.client.Foreign(store.Database, "other")
	ranges, err := f.Ranges(t.Context())
	require.NoError(t, err)
	ask := func(keys [][]string, property, value string) float64 {
		before := f.Charged()
		if keys == nil {
			keys = [][]string{nil}
		}
		for _, k := range keys {
			q := cosmos.ForeignQuery{SQL: "SELECT * FROM c WHERE c." + property + " = @p0", Values: []any{value}, MaxRUs: 1e9}
			for i, v := range k {
				q.SQL, q.Values = q.SQL+fmt.Sprintf(" AND c.k%d = @p%d", i, i+1), append(q.Values, v)
			}
			for _, r := range ranges {
				if len(k) == 0 || r.Contains(xray.Hash(k)) {
					require.NoError(t, f.Query(t.Context(), r.ID, q, func([]byte) error { return nil }))
				}
			}
		}
		return f.Charged() - before
	}
	var prefixes [][]string
	if l.tenant != nil {
		prefixes = l.tenant("whale")
	}
	device = ask(l.device("whale", "truck-0007"), "deviceId", "truck-0007")
	return ratio, shares, device, ask(prefixes, "tenantId", "whale")
}
