package loadtest

import (
	"context"
	"fmt"
	"time"

	"binnacle/internal/charges/ru"
)

// Pace is devices that report alike, and nothing else in the fleet: what their pace makes of the hold.
type Pace struct {
	Devices  int
	Metrics  int // of each reading
	Interval time.Duration
}

// AllPaces returns fast and slow devices, as many of each as show what one costs: the more rarely a device reports, the
// more of them are simulated.
func AllPaces() []Pace {
	return []Pace{
		{10, 10, time.Second}, {100, 10, 10 * time.Second}, {200, 10, time.Minute}, {500, 3, 5 * time.Minute},
	}
}

func (p Pace) validate() error {
	if p.Devices < 1 || p.Metrics < 1 || p.Metrics > metrics || p.Interval < time.Second {
		return fmt.Errorf("a pace of %d devices with %d metrics every %s: at least one device, 1 to %d metrics and a "+
			"second are allowed", p.Devices, p.Metrics, p.Interval, metrics)
	}
	return nil
}

// PaceResult is what Binnacle writes of the devices of a pace, over a day. Request units are modelled.
type PaceResult struct {
	Devices         int         `json:"devices"`
	Metrics         int         `json:"metrics"`
	IntervalSeconds float64     `json:"interval_seconds"`
	PerDay          float64     `json:"chunks_per_device_day"`
	Readings        float64     `json:"readings_per_chunk"`
	DocumentBytes   float64     `json:"bytes_per_document"`
	PerMillion      float64     `json:"ru_per_million_values"`
	ByModel         ru.Interval `json:"ru_per_million_values_by_model"`
	Journaled       float64     `json:"journal_bytes_per_value"`
	Published       float64     `json:"message_bytes_per_value"` // with their keys
}

// measurePace runs the devices of a pace, without budgets, for a hold and a day.
func measurePace(ctx context.Context, cfg Config, p Pace, tick func()) (PaceResult, error) {
	cfg.Devices, cfg.Interval, cfg.Window = p.Devices, p.Interval, day
	run := pass{cfg: cfg, scenario: Uniform, layout: Binnacle, metrics: p.Metrics, tick: tick}
	t, err := run.run(ctx)
	if err != nil {
		return PaceResult{}, err
	}
	if err := run.check(t); err != nil {
		return PaceResult{}, err
	}
	rus, _, _ := t.sum()
	byModel := rus.Times(1e6 / float64(t.stored*p.Metrics)).Each(round)
	return PaceResult{
		Devices: p.Devices, Metrics: p.Metrics, IntervalSeconds: p.Interval.Seconds(),
		PerDay:        round(float64(t.chunks) / float64(p.Devices)),
		Readings:      round(float64(t.stored) / float64(t.chunks)),
		DocumentBytes: round(float64(t.bytes) / float64(t.chunks)),
		PerMillion:    byModel.Likely,
		ByModel:       byModel,
		Journaled:     round(float64(t.journaled) / float64(t.offered*p.Metrics)),
		Published:     round(float64(t.published) / float64(t.offered*p.Metrics)),
	}, nil
}
