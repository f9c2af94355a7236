package measured

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/catalog"
	"binnacle/internal/control"
	"binnacle/internal/lab/planner"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/text/duration"
)

// Account is an account of Binnacle to read a sample of.
type Account struct {
	Name      string
	Documents control.Documents
	Catalog   control.Catalog
	Chunks    store.Reader
	MaxRUs    float64 // that reading is charged, but for the requests under way
	Now       time.Time
}

// What is read of an account at most.
const (
	sampledDevices = 200
	chunksOfDevice = 16
	catalogShare   = 0.5 // of the budget
)

// errEnough ends a scan.
var errEnough = errors.New("enough was read")

// accountSample is what was read of an account.
type accountSample struct {
	Account
	meter store.Meter

	tenants   []control.Tenant
	read      int // catalogs
	kinds     map[string]*kindOfDevice
	all       float64 // devices
	ofTenant  map[string]float64
	fresh     float64 // of all, those with a first reading in the last 30 days
	retention float64 // seconds, of all devices together
	chunks    int
}

// kindOfDevice is devices with the same metrics.
type kindOfDevice struct {
	metrics string
	count   float64
	names   []deviceName // of those that may be read
	found   []*device
}

type deviceName struct {
	of     *control.Tenant
	device string
	last   int64
}

// Read reads tenants, catalogs until half of the budget is spent, and chunks of some devices of each kind.
func (a Account) Read(ctx context.Context) (Result, error) {
	s := &accountSample{Account: a, kinds: map[string]*kindOfDevice{}, ofTenant: map[string]float64{}}
	ctx = store.WithMeter(ctx, &s.meter)
	snapshot, err := control.NewDirectory(control.DirectoryConfig{Documents: a.Documents}).Refresh(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("read the tenants: %w", err)
	}
	s.tenants = snapshot.Tenants()
	r := rand.New(rand.NewPCG(21, 0))
	r.Shuffle(len(s.tenants), func(i, j int) { s.tenants[i], s.tenants[j] = s.tenants[j], s.tenants[i] })
	if err := s.catalogs(ctx); err != nil {
		return Result{}, err
	}
	if s.all == 0 {
		return Result{}, errors.New("the catalogs of the account have no device")
	}
	if err := s.sample(ctx, r); err != nil {
		return Result{}, err
	}
	switch {
	case s.chunks == 0 && s.spent() >= s.MaxRUs:
		return Result{}, fmt.Errorf("%.0f RU were spent on tenants and catalogs: no chunk was read; raise --max-rus",
			s.spent())
	case s.chunks == 0:
		return Result{}, errors.New("no chunk of the devices was found: they may not be stored yet; --from-topic reads Kafka")
	}
	return s.result(), nil
}

func (s *accountSample) spent() float64 { return s.meter.Read().RUs }

// catalogs counts devices by tenant and by their metrics.
func (s *accountSample) catalogs(ctx context.Context) error {
	for i := range s.tenants {
		if s.read > 0 && s.spent() >= catalogShare*s.MaxRUs {
			return nil
		}
		t := &s.tenants[i]
		cache := control.NewCatalogCache(control.CatalogCacheConfig{Catalog: s.Catalog})
		c, err := cache.Get(ctx, t.Name, time.Time{})
		if err != nil {
			return err
		}
		s.read++
		c.Use(func(x *catalog.Index) {
			for _, name := range x.Devices() {
				if entry, ok := x.Entry(name); ok && len(entry.Metrics) > 0 {
					s.add(t, entry)
				}
			}
		})
	}
	return nil
}

// add counts a device.
func (s *accountSample) add(t *control.Tenant, e catalog.Entry) {
	key := strings.Join(e.MetricNames(), " ")
	k := s.kinds[key]
	if k == nil {
		k = &kindOfDevice{metrics: key}
		s.kinds[key] = k
	}
	k.count++
	s.all++
	s.ofTenant[t.Name]++
	n := deviceName{t, e.Device, s.Now.UnixMilli()}
	if e.First <= e.Last {
		n.last = min(n.last, e.Last)
		if e.First > s.Now.Add(-30*duration.Day).UnixMilli() {
			s.fresh++
		}
	}
	keep := t.RetentionOf(e.Device, telemetry.DayOf(s.Now.UnixMilli()))
	if keep <= 0 {
		keep = 20 * 365 * duration.Day
	}
	s.retention += keep.Seconds()
	k.names = append(k.names, n)
}

// sorted returns the kinds of devices, the most frequent first.
func (s *accountSample) sorted() []*kindOfDevice {
	return slices.SortedFunc(maps.Values(s.kinds), func(a, b *kindOfDevice) int {
		return cmp.Or(cmp.Compare(b.count, a.count), strings.Compare(a.metrics, b.metrics))
	})
}

// sample reads chunks of devices, one of each kind in turn.
func (s *accountSample) sample(ctx context.Context, r *rand.Rand) error {
	kinds := s.sorted()
	for _, k := range kinds {
		r.Shuffle(len(k.names), func(i, j int) { k.names[i], k.names[j] = k.names[j], k.names[i] })
	}
	for n, more := 0, true; more; {
		more = false
		for _, k := range kinds {
			if len(k.names) == 0 || n >= sampledDevices || s.spent() >= s.MaxRUs {
				continue
			}
			n, more = n+1, true
			d, err := s.device(ctx, k.names[0])
			if err != nil {
				return err
			}
			if k.names = k.names[1:]; d != nil {
				k.found = append(k.found, d)
			}
		}
	}
	return nil
}

// device reads the chunks of the last two days on which a device reported; nil for none.
func (s *accountSample) device(ctx context.Context, n deviceName) (*device, error) {
	last := telemetry.DayOf(n.last)
	var found []*chunk.Chunk
	d := &device{tenant: n.of.Name}
	span := telemetry.Range{From: (last - 1).Start(), To: last.End()}
	for _, visit := range n.of.Placement.Visits([]string{n.device}, span) {
		scan := store.Scan{Key: visit.Key, Range: visit.Range, Descending: true}
		_, err := s.Chunks.Scan(ctx, scan, func(doc []byte) error {
			c, err := chunk.Parse(doc)
			if err != nil {
				return fmt.Errorf("a chunk of %s: %w", n.device, err)
			}
			overhead, err := chunk.Overhead(doc)
			if err != nil {
				return err
			}
			found = append(found, c)
			d.bytes += float64(len(doc) - overhead)
			if len(found) >= chunksOfDevice || s.spent() >= s.MaxRUs {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) && !errors.Is(err, store.ErrNoContainer) {
			return nil, err
		}
	}
	slices.SortFunc(found, func(a, b *chunk.Chunk) int {
		return strings.Compare(a.Header.ID.String(), b.Header.ID.String())
	})
	through := map[string]int64{} // the last instant of each chain so far
	for _, c := range found {
		frame, err := c.Frame(nil)
		if err != nil {
			return nil, err
		}
		id := c.Header.ID
		chain := fmt.Sprint(id.Day, id.Stream, id.Partition)
		d.add(frame, through[chain])
		through[chain] = max(through[chain], c.Header.To)
		s.chunks++
	}
	if len(d.times) == 0 {
		return nil, nil
	}
	return d, nil
}

// add counts the rows of a chunk; those up to an instant were late.
func (d *device) add(f chunk.Frame, stored int64) {
	for _, at := range f.Times() {
		if at <= stored {
			d.late++
		} else {
			d.times = append(d.times, at)
		}
	}
	for _, g := range f.Groups {
		for i := range g.Columns {
			c := &g.Columns[i]
			for k := range c.Len() {
				d.see(c.Metric, c.Value(k))
			}
		}
	}
	d.values += float64(f.Values())
}

// result scales what was sampled to what was counted.
func (s *accountSample) result() Result {
	scale := float64(len(s.tenants)) / float64(s.read)
	var devices []*device
	sampled := 0.0
	for _, k := range s.sorted() {
		for _, d := range k.found {
			d.stands = scale * k.count / float64(len(k.found))
			devices = append(devices, d)
		}
		if len(k.found) > 0 {
			sampled += k.count
		}
	}
	for _, d := range devices {
		d.stands *= s.all / sampled
	}
	counted := fmt.Sprintf("the catalogs of %d of %d tenants", s.read, len(s.tenants))
	read := fmt.Sprintf("%d chunks of %d devices", s.chunks, len(devices))
	most := 0.0
	for _, n := range s.ofTenant {
		most = max(most, n)
	}
	r := Result{Workload: planner.Workload{
		Name: s.Name,
		Tenants: planner.Tenants{Count: planner.Number(float64(len(s.tenants)), "control documents"),
			Largest: planner.Share(most/s.all/scale, counted)},
		Fleets:    fleets(devices, basis{counted, read, 2 * duration.Day}),
		Retention: planner.Period(s.keep(), "control documents, by devices"),
	}}
	if old := s.all - s.fresh; old > s.fresh {
		r.Workload.Growth = planner.Share(s.fresh/old, counted)
	}
	r.note("Measured of %s and %s.", counted, read)
	if s.fresh > 0 && r.Workload.Growth.Basis == "" {
		r.note("Most devices are new, so growth is not measured and taken as none.")
	}
	if sampled < s.all {
		r.note("No chunk was read of %.0f devices with other metrics; the others stand for them.", s.all-sampled)
	}
	r.note("Reading it was charged %.1f RU, of at most %.0f.", s.spent(), s.MaxRUs)
	return r
}

// keep returns the mean retention of devices, in whole days.
func (s *accountSample) keep() time.Duration {
	return time.Duration(max(1, math.Round(s.retention/s.all/duration.Day.Seconds()))) * duration.Day
}
