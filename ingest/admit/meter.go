package admit

import (
	"time"

	"binnacle/internal/store"
	"binnacle/internal/tenant"
)

// meter charges readings and values against rates, as a bucket does that fills with time and may be overdrawn by one
// record: it has for each rate the time until which all charges are paid. Its time is the log's (Kafka's timestamps),
// so that an outage of the ingester never makes readings look faster than they came.
type meter struct {
	clock            int64 // greatest time seen, ns since 1970
	readings, values int64 // ns: what was taken is paid for until then

	refuses int64     // one above the offset of the record with readings that are refused, 0 for none
	why     limitName // they are
}

// rates are how much a second brings, 0 for no bound, and how much may come at once, as a length of time.
type rates struct {
	readings, values float64
	burst            int64 // ns
}

func (r *rates) bound() bool { return r.readings > 0 || r.values > 0 }

func (m *meter) see(at int64) { m.clock = max(m.clock, at) }

// open reports whether one more record may be taken at an instant: nothing is overdrawn by more than the burst.
func (m *meter) open(r *rates, at int64) bool { return m.until(r) <= at }

// until returns from when on one more record may be taken.
func (m *meter) until(r *rates) int64 {
	paid := int64(0)
	if r.readings > 0 {
		paid = m.readings
	}
	if r.values > 0 {
		paid = max(paid, m.values)
	}
	return paid - r.burst
}

// exceeded names the rate that keeps a record back.
func (m *meter) exceeded(r *rates, of string) limitName {
	if r.values > 0 && (r.readings <= 0 || m.values >= m.readings) {
		return limitName(of + "values")
	}
	return limitName(of + "readings")
}

// charge charges a reading with that many values, from a record published at that time.
func (m *meter) charge(r *rates, at int64, values int) {
	if r.readings > 0 {
		m.readings = max(m.readings, at) + int64(float64(time.Second)/r.readings)
	}
	if r.values > 0 {
		m.values = max(m.values, at) + int64(float64(values)*float64(time.Second)/r.values)
	}
}

// limitName is a limit as flags name it, without the prefix.
type limitName string

// The limits of numbers and sizes. Those of rates are named by meter.exceeded.
const (
	limitDevices    limitName = "devices"
	limitNewDevices limitName = "new-devices"
	limitSeries     limitName = "series"
	limitAllSeries  limitName = "total-series"
	limitPayload    limitName = "payload"
	limitLabels     limitName = "labels"
	limitValues     limitName = "label-values"
)

// Prefixes of the names of rates.
const (
	ofTenant = ""
	ofDevice = "device-"
)

// limits are the limits of one tenant in one partition.
type limits struct {
	tenant, device rates
	refuse         bool // readings above a rate are refused, not delayed

	devices, series, payload, labels int  // 0 for no bound
	allSeries                        int  // bound of all devices together
	labelValues                      int  // bound of one label
	numbers                          bool // there is a bound to a number or a size
	newDevices                       rates
}

// spread is how many times its even share of a tenant's limit a partition lets through: devices do not lie evenly in
// partitions, and a tenant within its limit must not be delayed.
const spread = 4

// share returns a partition's part of a bound, at least what one device may have. With so few partitions that each may
// have all, it is the bound.
func share(b, device tenant.Limit, partitions int) float64 {
	n, bounded := b.Of()
	if !bounded {
		return 0
	}
	if partitions > spread {
		n *= spread / float64(partitions)
	}
	if of, bounded := device.Of(); bounded {
		n = max(n, of)
	}
	return n
}

// number returns a partition's part of a bound that is a number of things.
func number(b tenant.Limit, partitions int) int {
	n := share(b, tenant.Unbounded, partitions)
	if n > 0 {
		n = max(1, n)
	}
	return int(n)
}

func plain(b tenant.Limit) float64 { return max(0, float64(b)) }

// limitsOf returns a tenant's limits in one of that many partitions; nil if the tenant has no limits.
func limitsOf(l tenant.IngestLimits, partitions int) *limits {
	if !l.Any() {
		return nil
	}
	burst, _ := l.Burst.Of()
	out := &limits{
		tenant: rates{
			readings: share(l.Readings, l.DeviceReadings, partitions), values: share(l.Values, l.DeviceValues, partitions),
			burst: int64(burst),
		},
		device: rates{readings: plain(l.DeviceReadings), values: plain(l.DeviceValues), burst: int64(burst)},
		refuse: l.OnExcess == tenant.Refuse,

		devices: number(l.Devices, partitions), series: int(plain(l.Series)), allSeries: number(l.TotalSeries, partitions),
		payload: int(plain(l.Payload)), labels: int(plain(l.Labels)), labelValues: int(plain(l.LabelValues)),
		newDevices: rates{readings: share(l.NewDevices, tenant.Unbounded, partitions) / 3600, burst: int64(time.Hour)},
	}
	out.numbers = out.devices > 0 || out.payload > 0 || out.labels > 0 || out.labelValues > 0 || out.counts() ||
		out.newDevices.bound()
	return out
}

func (l *limits) counts() bool { return l.series > 0 || l.allSeries > 0 }

// limitShare is the reason when a noisy tenant is deferred for the sake of the others in its partition.
const limitShare limitName = "share"

// limitRegistration is the reason when readings wait until their tenant is registered.
const limitRegistration limitName = store.RegistrationLimit
