package heatlog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"binnacle/internal/heat"
	"binnacle/internal/retry"
	"binnacle/internal/settings"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// Config is what a Collector needs.
type Config struct {
	// Role begins the names of documents: ingest, query, ...
	Role   string
	Logger *slog.Logger     // none
	Now    func() time.Time // time.Now

	// BudgetRUs is the RU/s that writing may take, over some minutes: ten processes may take 4 RU/s.
	BudgetRUs float64 `default:"0.4"`
}

// How often a process writes what.
const (
	frameEvery    = time.Minute
	forecastEvery = 10 * time.Minute
	weightsEvery  = 6 * time.Hour
)

// What writing takes at most, and how long it may take.
const (
	// documentRUs is the modelled charge of a document of heat.TargetBytes.
	documentRUs   = 12.0
	burstMinutes  = 4
	writeTimeout  = 10 * time.Second
	finishTimeout = 3 * time.Second
)

// Collector counts charges and writes them. Count is safe for any number of callers and never waits; Run is called
// once.
type Collector struct {
	cfg     Config
	writer  string
	trouble retry.Trouble // owned by Run
	budget  float64       // RU that may be spent; owned by Run
	lost    float64       // RU that no frame has had yet; owned by Run

	mu       sync.Mutex // guards below
	minute   int64      // ms, begin of the minute that is counted
	counts   counts
	devices  deviceCounts
	since    int64 // ms, since when devices are counted
	forecast Forecaster
	stored   map[string]int64 // bytes of chunks of recent days since the last forecast, by tenant
}

// Forecaster returns the RU that writes of chunks are expected to take. It gets the bytes of the chunks that the
// process has stored since the last forecast, by tenant.
type Forecaster func(now time.Time, stored map[string]int64) []heat.Expected

// NewCollector returns a Collector that counts from now on.
func NewCollector(cfg Config) *Collector {
	settings.Defaults(&cfg)
	now := cfg.Now().UnixMilli()
	return &Collector{
		cfg:     cfg,
		writer:  cfg.Role + "-" + strings.ToLower(rand.Text()[:8]),
		trouble: retry.Trouble{Log: cfg.Logger, Failing: "heat is not written", Over: "heat is written again"},
		budget:  burstMinutes * 60 * cfg.BudgetRUs,
		minute:  now - now%heat.Minute, since: now,
		stored:  map[string]int64{},
		counts:  counts{keys: map[shardKey]*counter{}},
		devices: deviceCounts{tenants: map[string]*tenantDevices{}},
	}
}

// SetForecast sets where the forecast comes from, in a process that learns it after it has begun to count.
func (c *Collector) SetForecast(forecast Forecaster) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forecast = forecast
}

// Count counts a charge.
func (c *Collector) Count(charge heat.Charge) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.add(&charge, c.minute)
	if c.forecast != nil && charge.Kind == heat.ChunkWrites && charge.Bytes > 0 {
		c.stored[heat.Key{Shard: charge.Shard}.Tenant()] += int64(charge.Bytes)
	}
	if charge.Device != "" {
		c.devices.add(heat.Key{Shard: charge.Shard}.Tenant(), charge.Device, charge.RUs)
	}
}

// Run writes the counts every minute until ctx ends, and then the rest.
func (c *Collector) Run(ctx context.Context, docs store.HeatWriter) error {
	var end time.Time
	loop := retry.Loop{Delayed: true, Next: func() time.Duration {
		now := c.cfg.Now()
		end = now.Truncate(frameEvery).Add(frameEvery)
		return end.Sub(now)
	}}
	_ = loop.Run(ctx, func(ctx context.Context) error {
		bounded, cancel := context.WithTimeout(ctx, writeTimeout)
		defer cancel()
		c.Round(bounded, docs, end)
		return nil
	})
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	c.writeFrames(ending, docs, end.UnixMilli(), true)
	c.writeWeights(ending, docs)
	return nil
}

// Round writes what is due at the end of a minute. Run calls it.
func (c *Collector) Round(ctx context.Context, docs store.HeatWriter, now time.Time) {
	c.budget = min(c.budget+60*c.cfg.BudgetRUs, burstMinutes*60*c.cfg.BudgetRUs)
	every := min(retry.Paced(ctx, frameEvery), heat.MaxMinutes*frameEvery)
	if now.Truncate(every).Equal(now) {
		c.writeFrames(ctx, docs, now.UnixMilli(), every > frameEvery)
	} else {
		c.mu.Lock()
		c.minute = now.UnixMilli()
		c.mu.Unlock()
	}
	if now.Truncate(weightsEvery).Equal(now) {
		c.writeWeights(ctx, docs)
	}
	if every := retry.Paced(ctx, forecastEvery); now.Truncate(every).Equal(now) {
		c.writeForecast(ctx, docs, now)
	}
}

// writeFrames writes the counts up to the end of a minute; at the end of an hour, or of the process, all.
func (c *Collector) writeFrames(ctx context.Context, docs store.HeatWriter, end int64, all bool) {
	most := int(c.budget / documentRUs)
	all = all || end%heat.Hour == 0
	c.mu.Lock()
	expired := c.counts.expire(end)
	var cells []heat.Cell
	if most > 0 {
		cells = c.counts.take(end, all)
	}
	c.minute = end
	c.mu.Unlock()
	c.lost += expired
	if len(cells) == 0 {
		return
	}
	f := heat.Frame{Layer: heat.Minutes, From: max(end-heat.MaxMinutes*heat.Minute, (end-1)/heat.Hour*heat.Hour), To: end,
		Writer: c.writer, Cells: cells, Lost: c.lost}
	c.trouble.Report(c.write(ctx, docs, f, most))
}

// write writes a frame. Where the store has taken nothing, what it had is pending again; where that is not known, it is
// lost, as counting twice is worse.
func (c *Collector) write(ctx context.Context, docs store.HeatWriter, f heat.Frame, most int) error {
	bodies, err := f.Documents(most)
	if err != nil {
		return err
	}
	c.lost = 0
	for i, body := range bodies {
		err := c.create(ctx, docs, store.HeatDocument{Key: string(heat.Minutes), TTL: KeepMinutes, Body: body,
			ID: fmt.Sprintf("%013d.%s.%d", f.To, c.writer, i)})
		if err == nil {
			continue
		}
		untouched := errors.Is(err, store.ErrBusy) || errors.Is(err, store.ErrNoContainer) || errors.Is(err, store.ErrDenied)
		if !untouched {
			c.loseFrame(body)
			i++
		}
		c.putBack(bodies[i:])
		return err
	}
	return nil
}

// putBack counts the cells of documents again.
func (c *Collector) putBack(bodies [][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, body := range bodies {
		f, err := heat.DecodeFrame(body)
		if err != nil {
			continue // it was encoded a moment ago
		}
		c.lost += f.Lost
		for i := range f.Cells {
			c.counts.back(&f.Cells[i], f.To)
		}
	}
}

// loseFrame counts the cells of a document as lost.
func (c *Collector) loseFrame(body []byte) {
	f, err := heat.DecodeFrame(body)
	if err != nil {
		return // it was encoded a moment ago
	}
	c.lost += f.Lost
	for i := range f.Cells {
		c.lost += f.Cells[i].Total()
	}
}

// create stores a document and counts what it took. One that is there already was stored by an attempt that seemed to
// fail.
func (c *Collector) create(ctx context.Context, docs store.HeatWriter, d store.HeatDocument) error {
	receipt, err := docs.CreateHeat(ctx, d)
	c.budget -= receipt.RUs
	if errors.Is(err, store.ErrExists) {
		return nil
	}
	return err
}

// writeWeights writes what devices took since the last time.
func (c *Collector) writeWeights(ctx context.Context, docs store.HeatWriter) {
	to := c.cfg.Now().UnixMilli()
	c.mu.Lock()
	all, from := c.devices.take(), c.since
	c.since = to
	c.mu.Unlock()
	for _, w := range all {
		w.Writer, w.From, w.To = c.writer, from, to
		w.Day = telemetry.DayOf(from)
		body, err := w.Encode()
		if err == nil {
			err = c.create(ctx, docs, store.HeatDocument{Key: weightsKey(w.Day), TTL: KeepWeights, Body: body,
				ID: fmt.Sprintf("%s.%013d.%s", w.Tenant, from, c.writer)})
		}
		if c.trouble.Report(err); err != nil {
			return
		}
	}
}

func (c *Collector) writeForecast(ctx context.Context, docs store.HeatWriter, now time.Time) {
	c.mu.Lock()
	forecast, stored := c.forecast, c.stored
	c.stored = map[string]int64{}
	c.mu.Unlock()
	if forecast == nil || c.budget < documentRUs {
		return
	}
	f := heat.Forecast{At: now.UnixMilli(), Writer: c.writer, Cells: forecast(now, stored)}
	if len(f.Cells) == 0 {
		return
	}
	body, err := f.Encode()
	if err == nil {
		err = c.create(ctx, docs, store.HeatDocument{Key: forecastKey, TTL: KeepForecast, Body: body,
			ID: fmt.Sprintf("%013d.%s", f.At, c.writer)})
	}
	c.trouble.Report(err)
}
