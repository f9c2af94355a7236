package loadtest

import (
	"context"
	"fmt"

	"binnacle/binning"
	"binnacle/binning/chunk"
	"binnacle/ingest/bins"
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

// sampled returns how many devices of a scenario are sampled, and how many metrics each has.
func (s Scenario) sampled() (devices, each int) {
	if s == Sensors {
		return sensorSamples, sensorMetrics
	}
	return simSamples, metrics
}

// sampleDay takes the readings of some devices through ingest, without budgets, and returns the chunks of a day.
func sampleDay(ctx context.Context, cfg Config, s Scenario) ([]simSample, error) {
	n, metrics := s.sampled()
	cfg.Devices, cfg.Partitions, cfg.Window, cfg.Progress = n, minPartitions, 2*day, nil
	if s != Sensors {
		s = Uniform
	}
	p := pass{cfg: cfg, scenario: s, layout: Binnacle}
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
	for i := range n {
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
