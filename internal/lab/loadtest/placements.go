package loadtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/cosmos"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// The scenario placements: chunks of a tenant that floods, and of its neighbours, and what each asks, in containers
// with what is bought for them. Rates are of a tenant.
const (
	placedCalm  = 5 * time.Second // before the flood
	placedFlood = 10 * time.Second
	placedAfter = 10 * time.Second
	// placedEvery is the time between two chunks of a tenant.
	placedEvery = 500 * time.Millisecond
	// floodedEvery is the time between two chunks of the loud tenant in the flood.
	floodedEvery  = 5 * time.Millisecond
	askedEvery    = time.Second // the last chunk of a device
	askedDevice   = "asked"
	placedDevices = 50
	sharedRUs     = 1000
	enoughRUs     = 2500
	leastRUs      = 400
	// rollupsRUs is the autoscale maximum of the rollups that belong to each container of chunks.
	rollupsRUs     = 1000
	chosenTenant   = "quiet-0"
	placedInterval = 10 * time.Second
)

// placement is one case of the comparison.
type placement struct {
	name string
	// quiet leaves the flood out.
	quiet  bool
	shared int            // RU/s of the shared container
	own    map[string]int // RU/s of the containers of tenants with their own
}

var placements = []placement{
	{name: "shared, calm", quiet: true, shared: sharedRUs},
	{name: "shared", shared: sharedRUs},
	{name: "shared, more RU/s", shared: enoughRUs},
	{name: "dedicated loud one", shared: sharedRUs, own: map[string]int{loudTenant: sharedRUs}},
	{name: "mixed", shared: sharedRUs, own: map[string]int{chosenTenant: leastRUs}},
}

// PlacementResult is what a placement of tenants has come to.
type PlacementResult struct {
	Case string `json:"case"`
	// RUs lists the throughput of the containers of chunks, the shared one first.
	RUs     []int           `json:"ru_per_second"`
	Dollars float64         `json:"dollars_per_month"`
	Tenants []PlacedTenants `json:"tenants"`
}

// PlacedTenants is what some tenants have got while one flooded. All figures are modelled.
type PlacedTenants struct {
	Tenants   string  `json:"tenants"`
	Offered   float64 `json:"values_per_second_offered"`
	Accepted  float64 `json:"values_per_second_accepted"` // stored before the flood ended
	Throttled int     `json:"answers_429"`
	// WriteP50 is the time from the cut of a chunk in the flood until the chunk is stored.
	WriteP50 float64 `json:"write_p50_seconds"`
	WriteP99 float64 `json:"write_p99_seconds"`
	// QueryP50 is the duration of queries asked in the flood.
	QueryP50 float64 `json:"query_p50_seconds"`
	QueryP99 float64 `json:"query_p99_seconds"`
}

// placedRequest is a chunk to store, or a query when it has no document.
type placedRequest struct {
	due  time.Time
	key  []string
	id   string
	body []byte
	of   *placedGroup
	via  *route
	// at is when the request is sent, or sent again.
	at    time.Time
	tries int
}

// placedGroup counts for some tenants.
type placedGroup struct {
	PlacedTenants
	writes, queries []float64
}

// route is the way of one process to one container. After a 429 it closes for the time that the answer asks
// for, as the adapter's gate of a physical partition does.
type route struct {
	items *cosmos.Items
	opens time.Time
}

// routes lead to one container.
type routes struct{ ingester, querier *route }

// placementRun is one case.
type placementRun struct {
	cfg    Config
	of     placement
	chunk  writtenChunk
	a      *account
	random *rand.Rand
	// ahead lists the requests in the order of their sending.
	ahead  []*placedRequest
	groups []*placedGroup
	cost   ru.Bill
	r      PlacementResult
}

// comparePlacements runs all cases, with a chunk that Binnacle has written.
func comparePlacements(ctx context.Context, cfg Config) ([]PlacementResult, error) {
	cfg.Devices, cfg.Interval, cfg.Window, cfg.Hold, cfg.Partitions = tenants, placedInterval, time.Hour, time.Hour, 1
	run := pass{cfg: cfg, scenario: Uniform, layout: Binnacle}
	t, err := run.run(ctx)
	if err != nil {
		return nil, err
	}
	if len(t.written) == 0 {
		return nil, errNothing
	}
	var out []PlacementResult
	for _, of := range placements {
		s := placementRun{cfg: cfg, of: of, chunk: t.written[0], random: rand.New(rand.NewPCG(cfg.Seed, 0))}
		if err := s.run(ctx); err != nil {
			return nil, fmt.Errorf("placement %s: %w", of.name, err)
		}
		out = append(out, s.r)
	}
	return out, nil
}

func (s *placementRun) run(ctx context.Context) (err error) {
	if s.a, err = open(ctx, s.cfg, false); err != nil {
		return err
	}
	defer s.a.close()
	s.a.clock.reach(midnight)
	s.r.Case = s.of.name
	if err := s.prepare(ctx); err != nil {
		return err
	}
	slices.SortStableFunc(s.ahead, bySending)
	for len(s.ahead) > 0 {
		r := s.ahead[0]
		s.ahead = s.ahead[1:]
		s.a.clock.reach(r.at)
		wait, err := max(0, r.via.opens.Sub(r.at)), error(nil)
		if wait == 0 {
			wait, err = s.send(ctx, r)
		}
		if err != nil {
			return err
		}
		if wait > 0 {
			spread := min(wait<<min(r.tries, 10), time.Second) // the adapter spreads retries the same way
			r.at = s.a.clock.now().Add(wait + time.Duration(s.random.Float64()*float64(spread)))
			i, _ := slices.BinarySearchFunc(s.ahead, r, bySending)
			s.ahead = slices.Insert(s.ahead, i, r)
		}
	}
	s.r.Dollars = round(s.cost.Least)
	for _, g := range s.groups {
		g.Offered, g.Accepted = round(g.Offered/placedFlood.Seconds()), round(g.Accepted/placedFlood.Seconds())
		g.WriteP50, g.WriteP99 = quantile(g.writes, 0.5), quantile(g.writes, 0.99)
		g.QueryP50, g.QueryP99 = quantile(g.queries, 0.5), quantile(g.queries, 0.99)
		s.r.Tenants = append(s.r.Tenants, g.PlacedTenants)
	}
	return nil
}

// prepare makes the containers, and what each tenant stores and asks.
func (s *placementRun) prepare(ctx context.Context) error {
	quiet := &placedGroup{PlacedTenants: PlacedTenants{Tenants: "neighbours"}}
	loud := &placedGroup{PlacedTenants: PlacedTenants{Tenants: "the loud one"}}
	s.groups = append(s.groups, quiet)
	day := telemetry.DayOf(midnight.UnixMilli())
	processes := map[string]routes{}
	for n := range tenants {
		tenant, of, rus := fmt.Sprintf("quiet-%d", n), quiet, s.of.shared
		if n == tenants-1 {
			tenant, of = loudTenant, loud
		}
		e := sharding.FirstEpoch(tenant, 4)
		if own, ok := s.of.own[tenant]; ok {
			e.Dedicated, rus = true, own
			if of == quiet {
				of = &placedGroup{PlacedTenants: PlacedTenants{Tenants: "dedicated neighbour"}}
				s.groups = append(s.groups, of)
			}
		}
		p, err := sharding.NewPlacement(tenant, []sharding.Epoch{e})
		if err != nil {
			return err
		}
		container := p.ContainerOn(day)
		if _, ok := processes[container]; !ok {
			if err := s.a.client.Containers().Create(ctx, container, store.Throughput{RUs: rus}); err != nil {
				return err
			}
			items := s.a.client.Items(container)
			processes[container] = routes{ingester: &route{items: items}, querier: &route{items: items}}
			s.r.RUs = append(s.r.RUs, rus)
			s.cost = s.cost.Plus(ru.Price(ru.Priced{RUs: float64(rus), Container: true},
				ru.Priced{RUs: rollupsRUs, Autoscale: true, Container: true}))
		}
		asked := s.request(p, askedDevice, midnight)
		if _, err := processes[container].ingester.items.Create(ctx, asked.key, asked.id, asked.body); err != nil {
			return err
		}
		s.plan(p, of, processes[container])
	}
	s.groups = append(s.groups, loud)
	if i := slices.Index(s.r.RUs, s.of.shared); i > 0 && s.of.shared != 0 {
		s.r.RUs[0], s.r.RUs[i] = s.r.RUs[i], s.r.RUs[0]
	}
	return nil
}

// plan adds what a tenant stores and asks.
func (s *placementRun) plan(p *sharding.Placement, of *placedGroup, to routes) {
	shift := time.Duration(sharding.GroupOf(p.Tenant(), int(placedEvery))) // tenants are not in step
	begins := midnight.Add(time.Second)
	flood, ends := begins.Add(placedCalm), begins.Add(placedCalm+placedFlood)
	n := 0
	for at := begins.Add(shift); at.Before(ends.Add(placedAfter)); n++ {
		r := s.request(p, fmt.Sprintf("truck-%d", n%placedDevices), at)
		r.of, r.via = of, to.ingester
		s.ahead = append(s.ahead, r)
		if p.Tenant() == loudTenant && !s.of.quiet && !at.Before(flood) && at.Before(ends) {
			at = at.Add(floodedEvery)
		} else {
			at = at.Add(placedEvery)
		}
	}
	for at := begins.Add(2 * shift); at.Before(ends.Add(placedAfter)); at = at.Add(askedEvery) {
		r := s.request(p, askedDevice, at)
		r.body, r.of, r.via = nil, of, to.querier
		s.ahead = append(s.ahead, r)
	}
}

// request returns the writing of a chunk of a device.
func (s *placementRun) request(p *sharding.Placement, device string, at time.Time) *placedRequest {
	key := p.Key(device, telemetry.DayOf(midnight.UnixMilli()), 0)
	r := &placedRequest{due: at, at: at, key: []string{key.TenantShard, device},
		id: fmt.Sprintf("%s-%d", s.chunk.id, at.Sub(midnight))}
	r.body = s.chunk.doc
	for _, name := range [][2]string{
		{`"id":"` + s.chunk.id + `"`, `"id":"` + r.id + `"`},
		{`"tenantShard":"` + s.chunk.key.TenantShard + `"`, `"tenantShard":"` + r.key[0] + `"`},
		{`"device":"` + s.chunk.key.Device + `"`, `"device":"` + device + `"`},
	} {
		r.body = bytes.Replace(r.body, []byte(name[0]), []byte(name[1]), 1)
	}
	return r
}

// bySending orders requests by when they are sent.
func bySending(a, b *placedRequest) int { return a.at.Compare(b.at) }

// send sends a request, and returns for how long its container wants to be left alone, where it refuses it.
func (s *placementRun) send(ctx context.Context, r *placedRequest) (time.Duration, error) {
	flood := midnight.Add(time.Second + placedCalm)
	counts := !r.due.Before(flood) && r.due.Before(flood.Add(placedFlood))
	var receipt store.Receipt
	var err error
	if r.body != nil {
		receipt, err = r.via.items.Create(ctx, r.key, r.id, r.body)
	} else {
		var usage store.Usage
		usage, _, err = r.via.items.Query(ctx, r.key, "SELECT TOP 1 * FROM c WHERE c.device = @device ORDER BY c.to DESC",
			map[string]any{"@device": askedDevice})
		receipt.RUs = usage.RUs
	}
	now := s.a.clock.now()
	if answer, ok := errors.AsType[*cosmos.Error](err); ok && answer.Status == http.StatusTooManyRequests {
		if counts {
			r.of.Throttled++
		}
		wait := max(answer.RetryAfter, time.Millisecond)
		r.tries, r.via.opens = r.tries+1, now.Add(wait)
		return wait, nil
	}
	if err != nil {
		return 0, err
	}
	done := now.Add(roundTrip + time.Duration(receipt.RUs/ru.PartitionRUs*float64(time.Second)))
	if r.body != nil && done.Before(flood.Add(placedFlood)) && !done.Before(flood) {
		r.of.Accepted += float64(s.chunk.readings * metrics)
	}
	if took := done.Sub(r.due).Seconds(); counts && r.body != nil {
		r.of.Offered += float64(s.chunk.readings * metrics)
		r.of.writes = append(r.of.writes, took)
	} else if counts {
		r.of.queries = append(r.of.queries, took)
	}
	return 0, nil
}

// quantile returns the least value that a share of values do not exceed.
func quantile(of []float64, share float64) float64 {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	return round(of[int(math.Ceil(share*float64(len(of))))-1])
}
