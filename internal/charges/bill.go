package charges

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"binnacle/internal/charges/ru"
)

// BillInput is what a bill is made of.
type BillInput struct {
	Month Month
	Sum   *Sum
	Hours []Hour
	// Present are the containers as they are. They are paid for PresentHours, which are in no Hour yet.
	Present      []Container
	PresentHours float64
	// Bytes is what tenants have stored, by container and tenant, as far as it was counted in any month.
	Bytes map[string]map[string]int64
	// Charged is the RU that the store itself says it has charged in the month, up to Sum.Through if it knows; nil where
	// it does not say so.
	Charged *float64
}

// Bill is what a month costs, by tenant. Dollars are by list prices; their sum over all tenants and Nobody is Dollars.
type Bill struct {
	Month   string    `json:"month"`
	Through time.Time `json:"through"` // up to when counters count
	// Hours counts the hours of throughput and storage in the bill.
	Hours   float64      `json:"hours"`
	Dollars float64      `json:"dollars"`
	Tenants []TenantBill `json:"tenants"` // the dearest first
	Nobody  TenantBill   `json:"nobody"`
	// Store is present where the store says what it has charged.
	Store  *StoreCharges `json:"store,omitempty"`
	Billed []BilledBy    `json:"containers"`
	// Counters counts the processes that have counted.
	Counters int `json:"processes"`
}

// TenantBill is what a month costs for a tenant.
type TenantBill struct {
	Tenant   string           `json:"tenant,omitempty"`
	RUs      float64          `json:"rus"`
	ByKind   map[Kind]float64 `json:"rusByKind"`
	Requests int64            `json:"requests"`
	GBMonths float64          `json:"gbMonths"`
	Dollars  Dollars          `json:"dollars"`
	// Stored lists the parts of storage by container, the largest first.
	Stored []Stored `json:"stored,omitempty"`
}

// Stored is what a tenant has in a container: documents, and the rest of its share of data and index.
type Stored struct {
	Container string  `json:"container"`
	Data      float64 `json:"dataGBMonths"`
	Index     float64 `json:"indexGBMonths"`
	Dollars   float64 `json:"dollars"`
	// LeastRUs is the manual throughput that the whole container's data forces, in RU/s; 0 in a serverless account.
	LeastRUs float64 `json:"leastRUsOfContainer"`
}

// Dollars is the parts of a bill.
type Dollars struct {
	Usage float64 `json:"usage"` // throughput that was used
	// Idle is for unused throughput of containers with requests of the tenant.
	Idle float64 `json:"idle"`
	// Floors is for containers that serve all tenants alike.
	Floors  float64 `json:"floors"`
	Storage float64 `json:"storage"` // data and index
	Total   float64 `json:"total"`
}

// StoreCharges compares the counted charges with those that the store reports.
type StoreCharges struct {
	Charged      float64 `json:"chargedRUs"`
	Counted      float64 `json:"countedRUs"`
	Unattributed float64 `json:"unattributedRUs"`
	Percent      float64 `json:"unattributedPercent"`
}

// BilledBy is what a month costs for a container.
type BilledBy struct {
	Container  string  `json:"container"`
	Hours      float64 `json:"hours"`
	Throughput float64 `json:"throughputDollars"`
	Storage    float64 `json:"storageDollars"`
	// Used is for throughput.
	Used     float64 `json:"usedDollars"`
	GBMonths float64 `json:"gbMonths"`
	// RUs are the counted request units.
	RUs float64 `json:"rus"`
}

// NewBill makes a bill. The rules:
//
//   - A container costs what its throughput and its storage cost, hour by hour. In a serverless account its throughput
//     costs what its request units cost; in the month in which that ends, by the part of the hours.
//   - A request unit costs what one costs where all that is provisioned is used: that is the usage of the tenant that
//     it was charged for, or of none. The rest of the throughput is idle.
//   - Idle throughput of a container is shared by the tenants with requests there, by RU; without such tenants by those
//     that have stored there, by bytes; else it is a floor.
//   - Storage is shared by the bytes that tenants have stored in the container; without any, it is a floor.
//   - Floors are shared by all tenants, by all their RU.
func NewBill(in BillInput) *Bill {
	m := biller{tenants: map[string]*TenantBill{"": {}}, monthHours: in.Month.End().Sub(in.Month.Begin()).Hours()}
	requests := map[string]map[string]float64{} // RU by container and tenant
	for key, a := range in.Sum.Rows {
		t := m.of(key.Tenant)
		t.RUs += a.RUs
		t.Requests += a.Requests
		if t.ByKind == nil {
			t.ByKind = map[Kind]float64{}
		}
		t.ByKind[key.Kind] += a.RUs
		if requests[key.Container] == nil {
			requests[key.Container] = map[string]float64{}
		}
		requests[key.Container][key.Tenant] += a.RUs
	}
	out := &Bill{Month: in.Month.String(), Through: in.Sum.Through, Counters: in.Sum.Writers,
		Hours: float64(len(in.Hours)) + in.PresentHours}
	for _, c := range containersOf(in) {
		out.Billed = append(out.Billed, m.container(c, requests[c.Container], in.Bytes[c.Container]))
	}
	m.tenants[""].Dollars.Floors = m.share(m.floors, m.allRUs(), func(d *Dollars) *float64 { return &d.Floors })
	for _, name := range slices.Sorted(maps.Keys(m.tenants)) {
		t := m.tenants[name]
		t.round()
		out.Dollars += t.Dollars.Total
		if name == "" {
			out.Nobody = *t
		} else {
			t.Tenant = name
			out.Tenants = append(out.Tenants, *t)
		}
	}
	slices.SortStableFunc(out.Tenants, func(a, b TenantBill) int {
		return cmp.Or(cmp.Compare(b.Dollars.Total, a.Dollars.Total), cmp.Compare(b.RUs, a.RUs))
	})
	if in.Charged != nil {
		counted := in.Sum.RUs()
		out.Store = &StoreCharges{Charged: hundredths(*in.Charged), Counted: hundredths(counted),
			Unattributed: hundredths(*in.Charged - counted)}
		if *in.Charged > 0 {
			out.Store.Percent = math.Round(1e4*out.Store.Unattributed / *in.Charged) / 1e2
		}
	}
	return out
}

// biller shares the bills of containers among tenants; "" is no tenant.
type biller struct {
	tenants    map[string]*TenantBill
	floors     float64
	monthHours float64
}

func (m *biller) of(tenant string) *TenantBill {
	t := m.tenants[tenant]
	if t == nil {
		t = &TenantBill{}
		m.tenants[tenant] = t
	}
	return t
}

// containerCost is a container's bill before it is shared.
type containerCost struct {
	BilledBy
	perRU float64
	// serverless is the hours in which request units were paid for.
	serverless float64
}

// containersOf adds up the hours of containers, in the order of their names.
func containersOf(in BillInput) (out []containerCost) {
	all := map[string]*containerCost{}
	add := func(c Container, hours float64) {
		of := all[c.Name]
		if of == nil {
			of = &containerCost{BilledBy: BilledBy{Container: c.Name}}
			all[c.Name] = of
		}
		of.Hours += hours
		of.Throughput += hours * c.Throughput()
		of.Storage += hours * c.Storage()
		of.GBMonths += hours * c.GB
		if of.perRU = c.perRU(); c.Serverless {
			of.serverless += hours
		}
	}
	for _, h := range in.Hours {
		for _, c := range h.Containers {
			add(c, 1)
		}
	}
	for _, c := range in.Present {
		add(c, in.PresentHours)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, *all[name])
	}
	return out
}

// container shares the bill of a container: by the RU of its requests, and by the bytes that were stored there.
func (m *biller) container(c containerCost, rus map[string]float64, bytes map[string]int64) BilledBy {
	c.GBMonths /= m.monthHours
	for _, r := range rus {
		c.RUs += r
	}
	perRU := c.perRU
	if c.serverless > 0 {
		c.Throughput += c.RUs * ru.ServerlessPerMillion / 1e6 * c.serverless / c.Hours
	}
	if all := c.RUs * perRU; all > c.Throughput {
		perRU *= c.Throughput / all
	}
	c.Used = c.RUs * perRU
	for tenant, r := range rus {
		m.of(tenant).Dollars.Usage += r * perRU
	}
	stored := map[string]float64{}
	for tenant, n := range bytes {
		stored[tenant] = float64(n)
	}
	asked := maps.Clone(rus)
	delete(asked, "")
	if total(asked) == 0 {
		asked = stored
	}
	m.floors += m.share(c.Throughput-c.Used, asked, func(d *Dollars) *float64 { return &d.Idle })
	m.floors += m.share(c.Storage, stored, func(d *Dollars) *float64 { return &d.Storage })
	if all := total(stored); all > 0 {
		least := 0.0
		if c.serverless == 0 {
			least = ru.Floor(c.GBMonths*m.monthHours/c.Hours, 0, false)
		}
		for tenant, n := range stored {
			t, gb := m.of(tenant), c.GBMonths*n/all
			t.GBMonths += gb
			data := min(gb, n/1e9*c.Hours/m.monthHours)
			t.Stored = append(t.Stored, Stored{c.Container, millionths(data), millionths(gb - data),
				cents(c.Storage * n / all), least})
		}
	}
	c.Throughput, c.Storage, c.Used = cents(c.Throughput), cents(c.Storage), cents(c.Used)
	c.GBMonths, c.RUs = millionths(c.GBMonths), hundredths(c.RUs)
	return c.BilledBy
}

// share adds dollars to tenants by weight, and returns them if the weights are zero.
func (m *biller) share(dollars float64, weights map[string]float64, part func(d *Dollars) *float64) (left float64) {
	all := total(weights)
	if all == 0 {
		return dollars
	}
	for tenant, w := range weights {
		*part(&m.of(tenant).Dollars) += dollars * w / all
	}
	return 0
}

func (m *biller) allRUs() map[string]float64 {
	out := map[string]float64{}
	for tenant, t := range m.tenants {
		if tenant != "" {
			out[tenant] = t.RUs
		}
	}
	return out
}

func total(weights map[string]float64) (sum float64) {
	for _, w := range weights {
		sum += w
	}
	return sum
}

// round rounds what is shown: RU to hundredths, dollars to hundredths of a cent.
func (t *TenantBill) round() {
	t.RUs, t.GBMonths = hundredths(t.RUs), millionths(t.GBMonths)
	for k, r := range t.ByKind {
		t.ByKind[k] = hundredths(r)
	}
	slices.SortStableFunc(t.Stored, func(a, b Stored) int { return cmp.Compare(b.Dollars, a.Dollars) })
	d := &t.Dollars
	d.Usage, d.Idle, d.Floors, d.Storage = cents(d.Usage), cents(d.Idle), cents(d.Floors), cents(d.Storage)
	d.Total = cents(d.Usage + d.Idle + d.Floors + d.Storage)
}

// cents rounds dollars to hundredths of a cent: the bill of a small tenant is not zero.
func cents(dollars float64) float64 { return math.Round(dollars*1e4) / 1e4 }

func millionths(x float64) float64 { return math.Round(x*1e6) / 1e6 }

// TenantCost is the bill of one tenant, with what is dearest in it.
type TenantCost struct {
	TenantBill
	Month   string    `json:"month"`
	Through time.Time `json:"through"` // up to when counters count
	// Hours counts the hours of throughput and storage in the bill.
	Hours   float64   `json:"hours"`
	Devices []Dearest `json:"devices,omitempty"`
	// Metrics are the dearest by written bytes.
	Metrics []Dearest `json:"metrics,omitempty"`
	// Retention lists what is kept for as long as its classes say, by the sample that Metrics are of.
	Retention []Kept    `json:"retention,omitempty"`
	Queries   Breakdown `json:"queries"`
}

// Of returns the bill of a tenant, zero for one without requests, with its dearest queries, at most a number of every
// kind. Devices and metrics are left out.
func (b *Bill) Of(tenant string, sum *Sum, most int) TenantCost {
	out := TenantCost{Month: b.Month, Through: b.Through, Hours: b.Hours, Queries: sum.Breakdown(tenant, most),
		TenantBill: TenantBill{Tenant: tenant, ByKind: map[Kind]float64{}}}
	for _, t := range b.Tenants {
		if t.Tenant == tenant {
			out.TenantBill = t
		}
	}
	return out
}

// Dearest is what some part of a tenant's requests took.
type Dearest struct {
	Name     string  `json:"name"`
	RUs      float64 `json:"rus"`
	Requests int64   `json:"requests,omitempty"`
	GB       float64 `json:"gbMonths,omitempty"` // of a metric
}

// Kept is what a tenant stores of devices with one retention.
type Kept struct {
	Days float64 `json:"days"` // 0: without end
	GB   float64 `json:"gbMonths"`
	// Saves is what half the retention saves in a month, once it is over.
	Saves float64 `json:"halfSavesDollars,omitempty"`
}

// Breakdown is the dearest parts of a tenant's queries, each the sum over all others.
type Breakdown struct {
	Dashboards []Dearest `json:"dashboards"` // and panels
	Agents     []Dearest `json:"agents"`
	Callers    []Dearest `json:"callers"`
	Queries    []Dearest `json:"queries"`
}

// Other names the sum of the elements that a list leaves out.
const Other = "(other)"

// Breakdown returns the dearest parts of a tenant's queries, at most a number of every kind.
func (s *Sum) Breakdown(tenant string, most int) Breakdown {
	rows := s.Sources[tenant]
	by := func(name func(r SourceRow) string) []Dearest {
		sums := map[string]*Dearest{}
		for _, r := range rows {
			at := name(r)
			if r.Query == "" {
				at = Other
			}
			if at == "" {
				continue
			}
			if sums[at] == nil {
				sums[at] = &Dearest{Name: at}
			}
			sums[at].RUs += r.RUs
			sums[at].Requests += r.Requests
		}
		return TopDearest(sums, most)
	}
	return Breakdown{
		Dashboards: by(func(r SourceRow) string {
			if r.Dashboard == "" {
				return ""
			}
			return r.Dashboard + " panel " + cmp.Or(r.Panel, "?")
		}),
		Agents:  by(func(r SourceRow) string { return r.Agent }),
		Callers: by(func(r SourceRow) string { return r.Caller }),
		Queries: by(func(r SourceRow) string { return r.Query }),
	}
}

// TopDearest returns the dearest elements, the dearest first; the sum of the others is Other.
func TopDearest(sums map[string]*Dearest, most int) []Dearest {
	rest := Dearest{Name: Other}
	if o := sums[Other]; o != nil {
		rest = *o
	}
	all := []Dearest{}
	for name, d := range sums {
		if name != Other {
			all = append(all, *d)
		}
	}
	slices.SortFunc(all, func(a, b Dearest) int {
		return cmp.Or(cmp.Compare(b.RUs, a.RUs), cmp.Compare(a.Name, b.Name))
	})
	for _, d := range all[min(most, len(all)):] {
		rest.RUs += d.RUs
		rest.Requests += d.Requests
		rest.GB += d.GB
	}
	all = all[:min(most, len(all))]
	if rest.RUs > 0 {
		all = append(all, rest)
	}
	for i := range all {
		all[i].RUs, all[i].GB = hundredths(all[i].RUs), millionths(all[i].GB)
	}
	return all
}
