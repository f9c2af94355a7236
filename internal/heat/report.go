package heat

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"binnacle/sharding/epk"
)

// Report says how hot the physical partitions of a container are, and why. It is what the API answers.
type Report struct {
	Container string    `json:"container"`
	From      time.Time `json:"from"`
	To        time.Time `json:"to"`
	Diagnosis string    `json:"diagnosis"`
	BoughtRUs int       `json:"bought_rus"` // RU/s of the container; with autoscale the most
	Autoscale bool      `json:"autoscale,omitempty"`
	// PartitionRUs are the RU/s of one partition.
	PartitionRUs float64 `json:"partition_rus"`

	Partitions []PartitionReport `json:"partitions"`
	Tenants    []Share           `json:"tenants"` // the hottest first
	Devices    []Share           `json:"devices,omitempty"`

	FoldedKeys int `json:"folded_keys,omitempty"` // keys that are in sums by slot alone
	// LostRUs were not written, and are missing in all other figures.
	LostRUs float64 `json:"lost_rus,omitempty"`
}

// PartitionReport is one physical partition, by its place in the key space.
type PartitionReport struct {
	Partition int    `json:"partition"`
	Min       string `json:"min"` // effective partition keys
	Max       string `json:"max"`
	// Share is the part of the container's RU.
	Share      float64 `json:"share"`
	RUs        float64 `json:"rus"`         // RU/s on average
	BusiestRUs float64 `json:"busiest_rus"` // RU/s in the busiest minute, or hour where steps are hours
	// BusiestUsed is the part of the partition's throughput.
	BusiestUsed float64 `json:"busiest_used"`
	Throttled   int64   `json:"throttled"` // answers 429
	// Bytes counts the stored bytes.
	Bytes       int64     `json:"bytes"`
	ExpectedRUs []float64 `json:"expected_rus"` // RU/s by clock hour: the rest of this one, and twelve more
	Keys        []Share   `json:"keys"`         // the hottest
}

// Share is what a key, a tenant or a device has of the RU of a container.
type Share struct {
	Key       string  `json:"key,omitempty"` // "" is the sum of keys without a name
	Tenant    string  `json:"tenant,omitempty"`
	Device    string  `json:"device,omitempty"`
	Share     float64 `json:"share"`
	RUs       float64 `json:"rus"` // RU/s on average
	Throttled int64   `json:"throttled,omitempty"`
	// SlotsTomorrow is how many slots the device has from the next UTC day on, where that changes.
	SlotsTomorrow int `json:"slots_tomorrow,omitempty"`
}

// Facts is what a Report is made of.
type Facts struct {
	Grid      Grid
	To        int64 // ms, end of what the grid covers
	Forecast  Forecast
	Ranges    []epk.Range
	BoughtRUs int
	Autoscale bool
	Devices   []Share // the hottest first, with Key, Tenant, Device, Share
}

// How many keys and tenants a report lists.
const (
	listedKeys    = 5
	listedTenants = 10
)

// NewReport returns the report of facts.
func NewReport(f Facts) Report {
	g := f.Grid
	seconds := max(1, float64(f.To-g.From)/1000)
	r := Report{Container: g.Container, From: time.UnixMilli(g.From).UTC(), To: time.UnixMilli(f.To).UTC(),
		BoughtRUs: f.BoughtRUs, Autoscale: f.Autoscale, Devices: f.Devices, FoldedKeys: g.Folded, LostRUs: g.Lost}
	if len(f.Ranges) > 0 {
		r.PartitionRUs = float64(f.BoughtRUs) / float64(len(f.Ranges))
	}
	parts := OnPartitions(g, f.Forecast.OfContainer(g.Container), f.Ranges)
	all := 0.0
	for i := range parts {
		all += parts[i].Sum.Total()
	}
	share := func(rus float64) float64 { return rus / max(all, math.SmallestNonzeroFloat64) }
	for i := range parts {
		p := &parts[i]
		out := PartitionReport{Partition: i, Min: p.Range.Min, Max: p.Range.Max, Share: share(p.Sum.Total()),
			RUs: p.Sum.Total() / seconds, BusiestRUs: p.Busiest / (float64(g.Step) / 1000), Throttled: p.Sum.Throttled,
			Bytes: p.Sum.Bytes}
		if r.PartitionRUs > 0 {
			out.BusiestUsed = out.BusiestRUs / r.PartitionRUs
		}
		for h, rus := range p.Expected {
			length := float64(f.Forecast.Start(h+1)-max(f.Forecast.At, f.Forecast.Start(h))) / 1000
			out.ExpectedRUs = append(out.ExpectedRUs, rus/max(1, length))
		}
		for _, k := range p.Keys[:min(listedKeys, len(p.Keys))] {
			out.Keys = append(out.Keys, Share{Key: k.Shard, Tenant: k.Tenant(), Share: share(k.Amount.Total()),
				RUs: k.Amount.Total() / seconds, Throttled: k.Throttled})
		}
		r.Partitions = append(r.Partitions, out)
	}
	r.Tenants = tenantShares(g, share, seconds)
	r.Diagnosis = r.diagnose(all)
	return r
}

func tenantShares(g Grid, share func(float64) float64, seconds float64) (out []Share) {
	at := map[string]int{}
	for i := range g.Rows {
		name := g.Rows[i].Tenant()
		j, ok := at[name]
		if !ok {
			j = len(out)
			at[name], out = j, append(out, Share{Tenant: name})
		}
		sum := g.Rows[i].Total()
		out[j].RUs += sum.Total() / seconds
		out[j].Share += share(sum.Total())
		out[j].Throttled += sum.Throttled
	}
	slices.SortFunc(out, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.RUs, a.RUs), strings.Compare(a.Tenant, b.Tenant))
	})
	return out[:min(listedTenants, len(out))]
}

// Bounds from which on a diagnosis says something.
const (
	evenRatio   = 1.15 // hottest over mean up to which the load is even
	keyMatters  = 0.10 // share of a key
	deviceShare = 0.05 // share of a device
)

func (r *Report) diagnose(all float64) string {
	if all == 0 || len(r.Partitions) == 0 {
		return "nothing was charged in this time"
	}
	hot, throttled, most := &r.Partitions[0], int64(0), &r.Partitions[0]
	for i := range r.Partitions {
		p := &r.Partitions[i]
		if p.Share > hot.Share {
			hot = p
		}
		if p.Throttled > most.Throttled {
			most = p
		}
		throttled += p.Throttled
	}
	var b strings.Builder
	fmt.Fprintf(&b, "partition %d takes %s of the RU", hot.Partition, percent(hot.Share))
	ratio := hot.Share * float64(len(r.Partitions))
	switch {
	case len(r.Partitions) == 1:
		b.WriteString(": there is one")
	case ratio <= evenRatio:
		fmt.Fprintf(&b, ", %.2f times the mean: the load is even", ratio)
	default:
		fmt.Fprintf(&b, ", %.2f times the mean", ratio)
	}
	r.blame(&b, hot)
	if throttled > 0 {
		fmt.Fprintf(&b, "; %d requests were answered 429, %d of them by partition %d", throttled, most.Throttled,
			most.Partition)
	} else if hot.BusiestUsed > 0 {
		fmt.Fprintf(&b, "; at its busiest it takes %s of what it may use", percent(hot.BusiestUsed))
	}
	return b.String()
}

// blame names the device, or else the key, that makes a partition hot.
func (r *Report) blame(b *strings.Builder, hot *PartitionReport) {
	for _, d := range r.Devices {
		in := epk.Range{Min: hot.Min, Max: hot.Max}.Contains(epk.MultiHash(epk.String(d.Key), epk.String(d.Device)))
		if d.Share < deviceShare || !in {
			continue
		}
		fmt.Fprintf(b, "; %s/%s alone %s", d.Key, d.Device, percent(d.Share))
		if d.SlotsTomorrow > 1 {
			fmt.Fprintf(b, "; from tomorrow it has %d slots", d.SlotsTomorrow)
		}
		return
	}
	if len(hot.Keys) > 0 && hot.Keys[0].Key != "" && hot.Keys[0].Share >= keyMatters {
		fmt.Fprintf(b, "; %s alone %s", hot.Keys[0].Key, percent(hot.Keys[0].Share))
	}
}

func percent(part float64) string {
	if p := part * 100; p >= 0.5 || p == 0 {
		return fmt.Sprintf("%.0f %%", p)
	}
	return fmt.Sprintf("%.2g %%", part*100)
}
