package loadtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"binnacle/binning"
	"binnacle/binning/chunk"
	"binnacle/ingest/bins"
	"binnacle/internal/control"
	"binnacle/internal/telemetry"
)

// simChunk is a chunk of a day as a sampled device has written it.
type simChunk struct {
	at    int64 // ms since the day began
	due   bool  // the device's phase decides when; else it was full
	gap   int64 // ms until another sampled device has this chunk full: others are between both
	rus   float32
	bytes int32
}

// simSample is what a sampled device writes of a day.
type simSample struct {
	first  int64 // its phase, ms
	chunks []simChunk
	rus    float64
	bytes  float64
	values float64
}

// sampleDay takes the readings of some devices through ingest, without budgets, and returns the chunks of a day.
func sampleDay(ctx context.Context, cfg Config) ([]simSample, error) {
	cfg.Devices, cfg.Partitions, cfg.Window, cfg.Progress = simSamples, minPartitions, 2*day, nil
	p := pass{cfg: cfg, scenario: Uniform, layout: Binnacle}
	t, err := p.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("sample devices: %w", err)
	}
	of := cfg.firstDay() + 1
	byDevice := map[string]*simSample{}
	for _, w := range t.written {
		c, err := chunk.Parse(w.doc)
		if err != nil {
			return nil, err
		}
		if c.Header.ID.Day != of {
			continue
		}
		s := byDevice[w.key.Device]
		if s == nil {
			s = &simSample{first: binning.FirstHold(w.key.Device, cfg.Hold).Milliseconds()}
			byDevice[w.key.Device] = s
		}
		at := w.at.UnixMilli() - of.Start()
		s.chunks = append(s.chunks, simChunk{at: at, due: cfg.Hold < bins.LongHold || at >= telemetry.DayMillis,
			rus: float32(w.rus), bytes: int32(len(w.doc))})
		s.rus, s.bytes, s.values = s.rus+w.rus, s.bytes+float64(len(w.doc)), s.values+float64(w.readings*metrics)
	}
	out := make([]simSample, 0, len(byDevice))
	for i := range simSamples {
		if s := byDevice[truckID(i)]; s != nil {
			out = append(out, *s)
		}
	}
	if len(out) == 0 {
		return nil, errNothing
	}
	for i := range out {
		for n := range out[i].chunks {
			out[i].chunks[n].gap = gapOf(out, i, n)
		}
	}
	return out, nil
}

// gapOf returns the time from a chunk of a sample to the next one with its number of any other, 0 for none, in ms.
func gapOf(all []simSample, i, n int) (gap int64) {
	for _, o := range all {
		if n < len(o.chunks) && !o.chunks[n].due {
			if after := o.chunks[n].at - all[i].chunks[n].at; after > 0 && (gap == 0 || after < gap) {
				gap = after
			}
		}
	}
	return gap
}

// truckID returns the id of a device, as package fleet has it.
func truckID(i int) string { return fmt.Sprintf("truck-%04d", i) }

// Day is one day of a scenario that lasts several.
type Day struct {
	// Hottest is the load of the hottest physical partition over the mean, by request units.
	Hottest float64 `json:"hottest_over_mean"`
	// Keys is how many keys Binnacle has for the tenant of the scenario.
	Keys int `json:"keys_of_tenant,omitempty"`
}

// days returns the days of a pass that has columns of hours, nil for others.
func (p pass) days(t totals) (out []Day) {
	if !p.cfg.sliced || t.trace == nil {
		return nil
	}
	hours := int(p.cfg.settles() / time.Hour) // hours that are over when the window opens
	last := 0
	for from := 0; from < len(t.trace.Stored); from = last {
		last = min(from+24-(hours+from)%24, len(t.trace.Stored))
		var sum, most float64
		for _, partition := range t.trace.Partitions {
			rus := 0.0
			for _, v := range partition.RUs[from:last] {
				rus += v
			}
			sum, most = sum+rus, max(most, rus)
		}
		day := Day{Hottest: round(most / sum * float64(len(t.trace.Partitions)))}
		if len(out) < len(t.keys) {
			day.Keys = t.keys[len(out)]
		}
		out = append(out, day)
	}
	return out
}

// keysByDay returns how many keys the largest tenant has on each day from the first on.
func keysByDay(dir *control.Directory, from, to telemetry.Day) (out []int) {
	for _, t := range dir.Snapshot().Tenants() {
		for at := from; t.Name == largestTenant && at <= to; at++ {
			out = append(out, len(t.Placement.EpochOn(at).Slots))
		}
	}
	return out
}

func (r Result) byDay() string {
	var hottest, keys []string
	for _, d := range r.Days {
		hottest = append(hottest, fmt.Sprintf("%.2f", d.Hottest))
		keys = append(keys, fmt.Sprint(d.Keys))
	}
	text := "Day by day the hottest physical partition has " + list(hottest) + " times the mean"
	if r.Layout.chunked() {
		text += ", and " + largestTenant + " has " + list(keys) + " keys"
	}
	return text + "."
}

func list(all []string) string {
	last := len(all) - 1
	if len(slices.Compact(slices.Clone(all))) == 1 {
		return all[0]
	}
	return strings.Join(all[:last], ", ") + " and " + all[last]
}
