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
	"binnacle/internal/catalog/catalogcache"
	"binnacle/internal/control"
	"binnacle/internal/lab/planner"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/internal/text/duration"
)

// Account names an account that Binnacle writes, to read a sample from.
type Account struct {
	Name      string
	Documents store.Documents
	Catalog   store.Catalog
	Chunks    store.Reader
	// MaxRUs is the charge from which on no further read begins. Catalogs get half of it.
	MaxRUs float64
	Now    time.Time
}

// Bounds of the sample.
const (
	sampledDevices  = 200
	chunksPerDevice = 16
)

// errEnough ends a scan early.
var errEnough = errors.New("enough was read")

// accountSample collects what Account.Read reads.
type accountSample struct {
	Account
	meter    store.Meter
	catalogs int
	chunks   int

	kinds           map[string]*deviceKind
	devices         float64
	devicesByTenant map[string]float64
	// newDevices counts devices with a first reading in the last 30 days.
	newDevices float64
	// retention sums the retention of all devices, in days.
	retention float64
}

// deviceKind groups devices with the same metrics.
type deviceKind struct {
	metrics string
	unread  []cataloged
	count   float64
	read    []*device
}

// cataloged is a device of a catalog. Its last reading is at most Account.Now.
type cataloged struct {
	tenant *tenant.Tenant
	name   string
	last   int64
}

// Read samples tenants' catalogs in random order, and chunks of every kind of device.
func (a Account) Read(ctx context.Context) (Result, error) {
	s := &accountSample{Account: a, kinds: map[string]*deviceKind{}, devicesByTenant: map[string]float64{}}
	ctx = store.WithMeter(ctx, &s.meter)
	snapshot, err := control.NewDirectory(control.DirectoryConfig{Documents: a.Documents}).Refresh(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("read the tenants: %w", err)
	}
	tenants := snapshot.Tenants()
	random := rand.New(rand.NewPCG(21, 0))
	random.Shuffle(len(tenants), func(i, j int) { tenants[i], tenants[j] = tenants[j], tenants[i] })
	for i := range tenants {
		if s.catalogs > 0 && s.spent() >= s.MaxRUs/2 {
			break
		}
		if err := s.readCatalog(ctx, &tenants[i]); err != nil {
			return Result{}, err
		}
	}
	kinds := slices.SortedFunc(maps.Values(s.kinds), func(a, b *deviceKind) int {
		return cmp.Or(cmp.Compare(b.count, a.count), strings.Compare(a.metrics, b.metrics))
	})
	for _, k := range kinds {
		random.Shuffle(len(k.unread), func(i, j int) { k.unread[i], k.unread[j] = k.unread[j], k.unread[i] })
	}
	if err := s.readDevices(ctx, kinds); err != nil {
		return Result{}, err
	}
	if s.chunks == 0 {
		return Result{}, fmt.Errorf("no chunk was found: %.0f devices in %d catalogs, %.0f RU spent; "+
			"raise --max-rus, or use --from-topic before chunks are stored", s.devices, s.catalogs, s.spent())
	}
	return s.result(kinds, len(tenants)), nil
}

func (s *accountSample) spent() float64 { return s.meter.Read().RUs }

func (s *accountSample) readCatalog(ctx context.Context, t *tenant.Tenant) error {
	cache := catalogcache.New(catalogcache.Config{Catalog: s.Catalog})
	c, err := cache.Get(ctx, t.Name, time.Time{})
	if err != nil {
		return err
	}
	s.catalogs++
	c.Use(func(x *catalog.Index) {
		for _, name := range x.Devices() {
			if entry, ok := x.Entry(name); ok && len(entry.Metrics) > 0 {
				s.count(t, entry)
			}
		}
	})
	return nil
}

// count adds a device to its kind and to the sums.
func (s *accountSample) count(t *tenant.Tenant, e catalog.Entry) {
	key := strings.Join(e.MetricNames(), " ")
	k := s.kinds[key]
	if k == nil {
		k = &deviceKind{metrics: key}
		s.kinds[key] = k
	}
	k.count++
	s.devices++
	s.devicesByTenant[t.Name]++
	now := s.Now.UnixMilli()
	d := cataloged{t, e.Device, now}
	if e.First <= e.Last {
		d.last = min(now, e.Last)
		if e.First > s.Now.Add(-30*duration.Day).UnixMilli() {
			s.newDevices++
		}
	}
	k.unread = append(k.unread, d)
	keep := t.RetentionOf(e.Device, telemetry.DayOf(now))
	if keep <= 0 {
		keep = 20 * 365 * duration.Day
	}
	s.retention += float64(keep) / float64(duration.Day)
}

// readDevices reads chunks of devices, taking one device per kind in turn.
func (s *accountSample) readDevices(ctx context.Context, kinds []*deviceKind) error {
	for n, more := 0, true; more; {
		more = false
		for _, k := range kinds {
			if len(k.unread) == 0 || n >= sampledDevices || s.spent() >= s.MaxRUs {
				continue
			}
			n, more = n+1, true
			d, err := s.readDevice(ctx, k.unread[0])
			if err != nil {
				return fmt.Errorf("read chunks of %s: %w", k.unread[0].name, err)
			}
			if k.unread = k.unread[1:]; len(d.times) > 0 {
				k.read = append(k.read, d)
			}
		}
	}
	return nil
}

// readDevice reads chunks of the last day on which a device reported, and of the day before.
func (s *accountSample) readDevice(ctx context.Context, from cataloged) (*device, error) {
	d := &device{tenant: from.tenant.Name}
	last := telemetry.DayOf(from.last)
	span := telemetry.Range{From: (last - 1).Start(), To: last.End()}
	var chunks []*chunk.Chunk
	for _, visit := range from.tenant.Placement.Visits([]string{from.name}, span) {
		scan := store.Scan{Key: visit.Key, Range: visit.Range, Descending: true}
		_, err := s.Chunks.Scan(ctx, scan, func(doc []byte) error {
			c, err := chunk.Parse(doc)
			if err != nil {
				return err
			}
			overhead, err := chunk.Overhead(doc)
			if err != nil {
				return err
			}
			chunks = append(chunks, c)
			d.bytes += float64(len(doc) - overhead)
			if len(chunks) >= chunksPerDevice || s.spent() >= s.MaxRUs {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) && !errors.Is(err, store.ErrNoContainer) {
			return nil, err
		}
	}
	slices.SortFunc(chunks, func(a, b *chunk.Chunk) int {
		return strings.Compare(a.Header.ID.String(), b.Header.ID.String())
	})
	s.chunks += len(chunks)
	return d, d.addChunks(chunks)
}

// addChunks counts the rows of chunks. A row is late when an earlier chunk of its chain ends after it.
func (d *device) addChunks(chunks []*chunk.Chunk) error {
	ends := map[string]int64{}
	for _, c := range chunks {
		frame, err := c.Frame(nil)
		if err != nil {
			return err
		}
		id := c.Header.ID
		chain := fmt.Sprint(id.Day, id.Stream, id.Partition)
		for _, at := range frame.Times() {
			if at <= ends[chain] {
				d.late++
			} else {
				d.times = append(d.times, at)
			}
		}
		ends[chain] = max(ends[chain], c.Header.To)
		for _, g := range frame.Groups {
			for i := range g.Columns {
				for k := range g.Columns[i].Len() {
					d.see(g.Columns[i].Metric, g.Columns[i].Value(k))
				}
			}
		}
		d.values += float64(frame.Values())
	}
	return nil
}

// result scales the sampled devices to the number of devices of all tenants.
func (s *accountSample) result(kinds []*deviceKind, tenants int) Result {
	scale := float64(tenants) / float64(s.catalogs)
	represented := 0.0
	for _, k := range kinds {
		if len(k.read) > 0 {
			represented += k.count
		}
	}
	var devices []*device
	for _, k := range kinds {
		for _, d := range k.read {
			d.stands = scale * s.devices / represented * k.count / float64(len(k.read))
			devices = append(devices, d)
		}
	}
	counted := fmt.Sprintf("the catalogs of %d of %d tenants", s.catalogs, tenants)
	read := fmt.Sprintf("%d chunks of %d devices", s.chunks, len(devices))
	largest := slices.Max(slices.Collect(maps.Values(s.devicesByTenant)))
	retention := time.Duration(max(1, math.Round(s.retention/s.devices))) * duration.Day
	r := Result{Workload: planner.Workload{
		Name: s.Name,
		Tenants: planner.Tenants{Count: planner.Number(float64(tenants), "control documents"),
			Largest: planner.Share(largest/s.devices/scale, counted)},
		Fleets:    fleets(devices, basis{counted, read, 2 * duration.Day}),
		Retention: planner.Period(retention, "control documents, by devices"),
	}}
	r.note("Measured of %s and %s.", counted, read)
	if old := s.devices - s.newDevices; old > s.newDevices {
		r.Workload.Growth = planner.Share(s.newDevices/old, counted)
	} else {
		r.note("Most devices are new, so growth is not measured and taken as none.")
	}
	if represented < s.devices {
		r.note("No chunk was read of %.0f devices with other metrics; the others stand for them.", s.devices-represented)
	}
	r.note("Reading it was charged %.1f RU, of at most %.0f.", s.spent(), s.MaxRUs)
	return r
}
