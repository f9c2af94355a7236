package provision

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/control"
	"binnacle/internal/retry"
	"binnacle/internal/settings"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/sharding"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// SweeperConfig is what a Sweeper needs. Chunks, Documents and Snapshot have no default.
type SweeperConfig struct {
	Chunks interface {
		store.HeaderReader
		store.Deleter
	}
	Documents store.Documents
	Snapshot  func(ctx context.Context) (*control.Snapshot, error) // read a moment ago
	Actions   *control.Actions                                     // none
	Lease     *control.Leases                                      // so that one process sweeps; none

	RUs        float64               // budget a second; 0 sweeps nothing
	Now        func() time.Time      // time.Now
	Every      time.Duration         `default:"10m"` // between two rounds
	Logger     *slog.Logger          // none
	Registerer prometheus.Registerer // none
}

// Sweeper deletes the chunks of days that a shorter retention hides (rule X3), whole chains of a day, from number 0 up.
// It may die anywhere, and two of them do no harm.
type Sweeper struct {
	cfg     SweeperConfig
	pacer   retry.RUPacer
	deleted prometheus.Counter
	left    prometheus.Gauge
}

// NewSweeper makes a Sweeper.
func NewSweeper(cfg SweeperConfig) *Sweeper {
	settings.Defaults(&cfg)
	f := promauto.With(cfg.Registerer)
	return &Sweeper{
		cfg: cfg, pacer: retry.RUPacer{Rate: cfg.RUs, Now: cfg.Now, Sleep: retry.Pause},
		deleted: f.NewCounter(prometheus.CounterOpts{Name: "binnacle_sweep_chunks_deleted_total",
			Help: "Chunks of hidden days that were deleted."}),
		left: f.NewGauge(prometheus.GaugeOpts{Name: "binnacle_sweep_days_left",
			Help: "Hidden days of tenants whose chunks are still to be deleted."}),
	}
}

// Run does a round now and then, until the context ends; then it returns nil.
func (s *Sweeper) Run(ctx context.Context) error {
	if s.cfg.RUs <= 0 {
		<-ctx.Done()
		return nil
	}
	loop := retry.Loop{Spends: true, Every: s.cfg.Every, Log: s.cfg.Logger, Failing: "hidden days are not swept",
		Over: "hidden days are swept again"}
	return loop.Run(ctx, s.Round)
}

// sweepLease is the lease of the process that sweeps. Another process waits for its length when the holder has died.
const sweepLease = "sweep"

// Round deletes of all tenants what is due. What fails is tried again in the next round, from the day on that failed.
func (s *Sweeper) Round(ctx context.Context) error {
	if held, err := s.cfg.Lease.Take(ctx, sweepLease, 2*s.cfg.Every); err != nil || !held {
		return err
	}
	v, err := s.cfg.Snapshot(ctx)
	if err != nil {
		return err
	}
	var passes []*sweepPass
	var errs []error
	s.left.Set(0)
	for _, tenant := range v.Tenants() {
		if !tenant.HidesSome() {
			continue
		}
		p, err := s.plan(ctx, v, tenant)
		if err != nil {
			errs = append(errs, fmt.Errorf("sweep %s: %w", tenant.Name, err))
			continue
		}
		s.left.Add(float64(len(p.due)))
		passes = append(passes, p)
	}
	for _, p := range passes {
		if err := p.run(ctx); err != nil {
			errs = append(errs, fmt.Errorf("sweep %s: %w", p.tenant.Name, err))
		}
	}
	return errors.Join(errs...)
}

// sweepPass deletes what of one tenant was hidden at one time.
type sweepPass struct {
	*Sweeper
	snapshot *control.Snapshot
	tenant   tenant.Tenant
	was      tenant.Sweep
	now      tenant.Sweep
	due      []telemetry.Day
	action   *control.StartedAction // once there is something to delete
}

// plan returns what is due of a tenant, as far as there are containers.
func (s *Sweeper) plan(ctx context.Context, v *control.Snapshot, t tenant.Tenant) (*sweepPass, error) {
	p := &sweepPass{Sweeper: s, snapshot: v, tenant: t}
	var err error
	if p.was, err = tenant.ReadSweep(ctx, s.cfg.Documents, t.Name); err != nil {
		return nil, err
	}
	p.now = p.was // a pass ends where no container is left
	begin := int64(math.MaxInt64)
	for _, name := range v.ContainersOf(t.Name, telemetry.Range{From: math.MinInt64, To: math.MaxInt64}) {
		_, span, _ := sharding.ParseContainer(name)
		begin = min(begin, span.Range().From)
	}
	if begin < math.MaxInt64 {
		p.now, p.due = t.Sweep(p.was, telemetry.DayOf(begin), s.cfg.Now().UnixMilli())
	}
	return p, nil
}

// run deletes the days one by one, and stores after each that had chunks how far it is.
func (p *sweepPass) run(ctx context.Context) (err error) {
	if len(p.due) == 0 && p.was.UpTo == 0 {
		return nil
	}
	defer func() {
		if p.action != nil {
			err = errors.Join(err, p.action.End(ctx, err))
		}
	}()
	for _, day := range p.due {
		n, err := p.day(ctx, day)
		p.now.Chunks += n
		if err != nil {
			return fmt.Errorf("day %s: %w", day, err)
		}
		p.left.Dec()
		if p.now.Next = day + 1; n > 0 {
			p.cfg.Logger.Info("hidden day deleted", "tenant", p.tenant.Name, "day", day, "chunks", n)
			if err := p.now.Store(ctx, p.cfg.Documents); err != nil {
				return err
			}
		}
	}
	p.now.Done, p.now.UpTo, p.now.Next = p.now.UpTo, 0, 0
	return p.now.Store(ctx, p.cfg.Documents)
}

type hiddenChunk struct {
	key sharding.Key
	id  chunk.ID
}

// day deletes the chunks of the devices that the day is hidden of. The last chunk of a chain goes last: while one is
// left, a late writer continues behind it, and a reader that does not know the retention finds a gap.
func (p *sweepPass) day(ctx context.Context, day telemetry.Day) (n int64, err error) {
	var found []hiddenChunk
	for _, container := range p.snapshot.ContainersOf(p.tenant.Name, telemetry.Range{From: day.Start(), To: day.End()}) {
		scan := store.HeaderScan{Container: container, Day: day, Tenant: p.tenant.Name,
			Charge: func(rus float64) error { return p.pacer.Wait(ctx, rus) }}
		_, err := p.cfg.Chunks.Headers(ctx, scan, func(header []byte) error {
			var h struct{ ID, TenantShard, Device string }
			if err := json.Unmarshal(header, &h); err != nil {
				return err
			}
			owner, _, _ := strings.Cut(h.TenantShard, "~")
			id, err := chunk.ParseID(h.ID)
			// What is damaged is left to the audit.
			if err == nil && id.Day == day && owner == p.tenant.Name && p.now.Hides(h.Device, day) {
				found = append(found, hiddenChunk{sharding.Key{Container: container, TenantShard: h.TenantShard,
					Device: h.Device}, id})
			}
			return nil
		})
		if err != nil && !errors.Is(err, store.ErrNoContainer) {
			return 0, err
		}
	}
	slices.SortFunc(found, func(a, b hiddenChunk) int {
		return cmp.Or(cmp.Compare(a.key.Device, b.key.Device), cmp.Compare(a.id.Stream, b.id.Stream),
			cmp.Compare(a.id.Partition, b.id.Partition), cmp.Compare(a.id.Number, b.id.Number))
	})
	if len(found) > 0 {
		if err := p.begin(ctx); err != nil {
			return 0, err
		}
	}
	for _, c := range found {
		receipt, err := p.cfg.Chunks.DeleteChunk(ctx, c.key, c.id.String())
		if err != nil {
			return n, err
		}
		n++
		p.deleted.Inc()
		if err := p.pacer.Wait(ctx, receipt.RUs); err != nil {
			return n, err
		}
	}
	return n, nil
}

func (p *sweepPass) begin(ctx context.Context) (err error) {
	if p.action != nil {
		return nil
	}
	p.action, err = p.cfg.Actions.Begin(ctx, control.Action{Verb: "retention sweep", Tenant: p.tenant.Name,
		Detail: map[string]string{"days": strconv.Itoa(len(p.due)), "from": p.due[0].String(),
			"to": p.due[len(p.due)-1].String()}})
	return err
}
