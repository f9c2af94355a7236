package xray_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"binnacle/internal/lab/xray"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
	"binnacle/sharding/balance"
	"binnacle/sharding/epk"

	"github.com/stretchr/testify/require"
)

// pageDevice returns the tenant and the name of a device of the page's fleet.
func pageDevice(d int) (tenant, device string) {
	tenant = "whale"
	if d%5 == 4 {
		tenant = fmt.Sprint("tenant-", d/5%9)
	}
	return tenant, fmt.Sprintf("truck-%04d", d)
}

// placed is where the tenants of the page's fleet write to.
type placed map[string]*sharding.Placement

func newPlaced(t *testing.T) placed {
	p := placed{}
	for d := range pageDevices {
		tenant, _ := pageDevice(d)
		var err error
		p[tenant], err = sharding.NewPlacement(tenant,
			[]sharding.Epoch{sharding.FirstEpoch(tenant, sharding.DefaultSlots)})
		require.NoError(t, err)
	}
	return p
}

// decide has the balancer decide for the next day from what a day's documents were charged, by tenant and device.
func (p placed) decide(t *testing.T, ranges []epk.Range, day telemetry.Day, rus map[string]float64) {
	in := balance.Input{Day: day + 1, Measured: day, Ranges: ranges}
	for _, name := range slices.Sorted(maps.Keys(p)) {
		in.Tenants = append(in.Tenants, balance.Tenant{Name: name, Placement: p[name]})
	}
	for d := range pageDevices {
		owner, device := pageDevice(d)
		i := slices.IndexFunc(in.Tenants, func(x balance.Tenant) bool { return x.Name == owner })
		x := &in.Tenants[i]
		x.Devices = append(x.Devices, balance.Device{Name: device, RUs: rus[device]})
		shard := p[owner].Key(device, day, 0).TenantShard
		k := slices.IndexFunc(x.Keys, func(k balance.Key) bool { return k.Shard == shard })
		if k < 0 {
			k, x.Keys = len(x.Keys), append(x.Keys, balance.Key{Shard: shard})
		}
		x.Keys[k].Writes += rus[device]
	}
	for _, c := range balance.Decide(in).Changes {
		var err error
		p[c.Tenant], err = sharding.NewPlacement(c.Tenant, append(p[c.Tenant].Epochs(), c.Epoch))
		require.NoError(t, err)
	}
}

// pageDay is the day on which the page's fleet begins.
var pageDay = telemetry.DayOf(began.UnixMilli())

// balancedLayout is the row of the table with the keys that the balancer decides when each device was charged the same.
func balancedLayout(t *testing.T) layout {
	p, rus := newPlaced(t), map[string]float64{}
	for d := range pageDevices {
		_, device := pageDevice(d)
		rus[device] = 1
	}
	p.decide(t, epk.Split(pagePartitions), pageDay, rus)
	key := func(t, d string) []string { return []string{p[t].Key(d, pageDay+1, 0).TenantShard, d} }
	return fixed("Binnacle, with the balancer", key, func(t string) (keys [][]string) {
		for _, slot := range p[t].EpochOn(pageDay + 1).Slots {
			keys = append(keys, []string{p[t].Shard(slot)})
		}
		return keys
	})
}

// position returns where an effective partition key lies in the space of the first level, from 0 to 1.
func position(key string) float64 {
	if key == epk.Max {
		return 1
	}
	const digits = 13
	x, _ := strconv.ParseUint((key + "0000000000000")[:digits], 16, 64)
	return float64(x) / (1 << (4*digits - 2))
}

// epochsPicture draws four days of a container: with the first keys, after the balancer, after splits, and after the
// balancer has read the new ranges. Each day is written to the emulator.
func epochsPicture(t *testing.T) string {
	w := newWorld(t, pagePartitions)
	defer w.close()
	w.container("epochs", 2)
	p, random := newPlaced(t), rand.New(rand.NewPCG(5, 5))
	var b strings.Builder
	var ratios []float64
	const width, height = 820, 92
	for i, title := range []string{
		"Day 1: each tenant has its first four keys", "Day 2: the balancer has given the whale other keys",
		"Day 3: three splits; documents stay under their keys", "Day 4: the balancer has read the new ranges",
	} {
		day := pageDay + telemetry.Day(i)
		if i == 2 {
			w.split(random, "epochs", 3)
		}
		w.server.ResetStats()
		var all []reading
		for d := range pageDevices {
			owner, device := pageDevice(d)
			at := time.UnixMilli(day.Start()).Add(time.Duration(d) * 20 * time.Second)
			all = append(all, reading{at, owner, device, 400})
		}
		byKey := w.write("epochs", all, func(t, d string, _ time.Time) []string {
			return []string{p[t].Key(d, day, 0).TenantShard, d}
		})
		parts, err := w.server.Partitions(store.Database, "epochs")
		require.NoError(t, err)
		ratio, rus := w.hottest("epochs")
		ratios = append(ratios, ratio)
		y := 8 + i*height
		fmt.Fprintf(&b, `<text x="8" y="%d" font-weight="bold">%s</text><text x="812" y="%d" text-anchor="end">hottest/mean %.2f</text>`+
			"\n", y+12, title, y+12, ratio)
		var ranges []epk.Range
		for _, part := range parts {
			ranges = append(ranges, epk.Range{Min: part.Min, Max: part.Max})
			from, to := position(part.Min), position(part.Max)
			x, wide := 8+804*from, 804*(to-from)
			share := part.RUs / rus
			fmt.Fprintf(&b, `<rect x="%.1f" y="%d" width="%.1f" height="22" fill="%s"><title>%.1f %%</title></rect>`+"\n",
				x+0.5, y+20, wide-1, pageColour(share), 100*share)
			if wide > 38 {
				fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle" fill="#fff">%.2f</text>`+"\n",
					x+wide/2, y+35, share*float64(len(parts)))
			}
		}
		drawKeys(&b, keyLoads(byKey), y+52, rus)
		charged := map[string]float64{}
		for key, r := range byKey {
			_, device, _ := strings.Cut(key, ", ")
			charged[device] += r
		}
		p.decide(t, ranges, day, charged)
	}
	require.Greater(t, ratios[0], 2.0)
	require.Less(t, ratios[1], 1.15)
	require.Greater(t, ratios[2], ratios[1])
	require.Less(t, ratios[3], ratios[2])
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" `+
		`fill="#6b7580"><title>Physical partitions and first-level keys over four days</title>`+"\n%s"+
		`<text x="8" y="%d">Boxes: physical partitions by their range of hashes, with RU over the mean. Circles: first-level `+
		`keys, the whale's filled; area: RU.</text>`+"\n</svg>\n", width, 4*height+30, b.String(), 4*height+20)
}

// keyLoads returns the RU of first-level keys.
func keyLoads(byKey map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for key, rus := range byKey {
		shard, _, _ := strings.Cut(key, ", ")
		out[shard] += rus
	}
	return out
}

// drawKeys draws first-level keys where they lie.
func drawKeys(b *strings.Builder, loads map[string]float64, y int, rus float64) {
	for _, shard := range slices.Sorted(maps.Keys(loads)) {
		radius, fill := max(1.5, 22*math.Sqrt(loads[shard]/rus)), "none"
		if strings.HasPrefix(shard, "whale~") {
			fill = "#b45309"
		}
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%d" r="%.1f" fill="%s" fill-opacity="0.8" stroke="#6b7580"><title>%s: %.1f %%</title></circle>`+"\n",
			8+804*position(xray.Hash([]string{shard})), y+4, radius, fill, shard, 100*loads[shard]/rus)
	}
}
