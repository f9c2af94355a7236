package xray

import (
	"fmt"
	"math"
	"strings"
	"time"

	"binnacle/internal/charges/ru"
)

// Report is what an X-ray has found. All request units but RUs are modelled.
type Report struct {
	Database   string    `json:"database"`
	Container  string    `json:"container"`
	Key        []string  `json:"key"` // paths
	DevicePath string    `json:"devicePath"`
	TenantPath string    `json:"tenantPath,omitempty"`
	From       time.Time `json:"from"` // the oldest document
	To         time.Time `json:"to"`   // the newest
	Documents  int64     `json:"documents"`
	// GB is the size of the JSON, without the index.
	GB      float64 `json:"gb"`
	Sampled int     `json:"sampled"`
	// RUs is the account's charge for the analysis.
	RUs         float64      `json:"rus"`
	WriteRUs    float64      `json:"writeRUsPerSecond"`
	Provisioned int          `json:"provisionedRUs,omitempty"`
	Devices     int          `json:"devices"` // seen in the sample
	Tenants     int          `json:"tenants,omitempty"`
	Partitions  []Partition  `json:"partitions"`
	Prefix      *PrefixShare `json:"prefix,omitempty"` // the fullest first level of a hierarchical key
	Now         Layout       `json:"now"`
	Others      []Layout     `json:"alternatives"`
	Recommended string       `json:"recommended"`
	Findings    []string     `json:"findings"`
	// Remedies lists what can be done about the key, where another one is recommended.
	Remedies []Remedy `json:"remedies,omitempty"`
}

// Partition is a physical partition.
type Partition struct {
	ID        string  `json:"id"`
	Min       string  `json:"min"`
	Max       string  `json:"max"`
	Documents int64   `json:"documents"`
	GB        float64 `json:"gb"`
	// Share is the partition's share of the RU of writes.
	Share float64 `json:"share"`
}

// PrefixShare is how much of the writes has one value of the first level of a hierarchical key.
type PrefixShare struct {
	Value      string  `json:"value"`
	Share      float64 `json:"share"`
	Partitions int     `json:"partitions"` // where it was found
}

// Layout is a partition key with its predicted behaviour.
type Layout struct {
	Name            string  `json:"name"`
	Key             string  `json:"key"`
	HottestOverMean float64 `json:"hottestOverMean"` // RU of writes, by day
	HottestKey      string  `json:"hottestKey"`      // full key
	// HottestShare is the hottest key's share of the RU of writes of a day.
	HottestShare float64 `json:"hottestKeyShare"`
	FullInDays   float64 `json:"fullInDays"` // until that key has 20 GB; 0: never
	DeviceDay    Read    `json:"deviceDay"`
	// TenantDay is a read of a day of the largest tenant.
	TenantDay Read    `json:"tenantDay"`
	NeedRUs   float64 `json:"needRUs"`         // per second, for writes and reads
	Dollars   float64 `json:"dollarsPerMonth"` // list price of the throughput
}

// Read is what a read of one day takes.
type Read struct {
	Keys       int     `json:"keys"`       // queries; 0: one of all keys
	Partitions int     `json:"partitions"` // physical partitions that are visited
	RUs        float64 `json:"rus"`
}

// The limits of the service by which layouts are judged.
const (
	// keyGB is the most that one logical partition holds.
	keyGB     = 20
	soonDays  = 365 // a key that is full sooner is not recommended
	bytesOfGB = 1 << 30
	monthDays = 30
)

// report judges the container's key and the alternatives.
func (s *sampler) report(f fleet) Report {
	j := newPredictor(s, f)
	r := Report{
		Database: s.cfg.Database, Container: s.cfg.Container, Key: s.about.Key, DevicePath: f.devicePath,
		TenantPath: f.tenantPath, Documents: int64(f.docs), GB: f.bytes / bytesOfGB, Sampled: len(s.docs),
		RUs: s.source.Charged(), WriteRUs: f.rus / (f.days * 86400), Provisioned: s.about.RUs, Devices: len(j.entities),
	}
	r.From, r.To = s.span()
	if f.tenantPath != "" {
		r.Tenants = len(j.tenants)
	}
	byRange := make([]amount, len(s.ranges))
	for _, l := range f.loads {
		byRange[l.of].add(l.amount)
	}
	for i, p := range s.ranges {
		r.Partitions = append(r.Partitions, Partition{ID: p.ID, Min: p.Min, Max: p.Max, Documents: int64(s.counts[i]),
			GB: byRange[i].bytes / bytesOfGB, Share: byRange[i].rus / f.rus})
	}
	r.Prefix = j.prefix()
	r.Now = j.now()
	for _, other := range schemes(f, len(s.ranges)) {
		r.Others = append(r.Others, j.predict(other))
	}
	best := Layout{}
	for _, l := range r.Others {
		if l.fits() && (best.Name == "" || l.NeedRUs < best.NeedRUs) {
			best = l
		}
	}
	if len(s.ranges) > 1 { // with one all layouts are alike
		r.Recommended = best.Name
	}
	if r.Recommended != "" && r.Now.fits() && (best.Name == "" || r.Now.NeedRUs <= 1.05*best.NeedRUs) {
		r.Recommended = r.Now.Name
	}
	r.Findings, r.Remedies = r.findings(s), r.remedies(j)
	return r
}

// fits reports whether no key of the layout gets full within a year.
func (l Layout) fits() bool { return l.FullInDays == 0 || l.FullInDays > soonDays }

// findings returns what an operator should know, the most important first.
func (r Report) findings(s *sampler) (out []string) {
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	n := len(r.Partitions)
	hot := Partition{}
	for _, p := range r.Partitions {
		if p.Share > hot.Share {
			hot = p
		}
	}
	switch {
	case n == 1:
		add("The container has one physical partition: no key makes it hot or cold yet. The figures of other layouts are " +
			"those of one partition too, so none is recommended; look again when there are more.")
	case r.Now.HottestOverMean > 1.15:
		add("In a day, the hottest physical partition is charged %.2f times the mean of %d: of %s RU/s, only %.0f %% "+
			"can be used.", r.Now.HottestOverMean, n, bought(r.Provisioned), 100/r.Now.HottestOverMean)
	default:
		add("In a day, the hottest physical partition is charged %.2f times the mean of %d: the load is even.",
			r.Now.HottestOverMean, n)
	}
	if n > 1 {
		add("Partition %s has %.0f %% of the writes so far and %.2f GB.", hot.ID, 100*hot.Share, hot.GB)
	}
	if r.Now.HottestShare*float64(n) > 0.5 && n > 1 {
		add("The key %s alone has %.1f %% of a day's writes, and a partition's even share is %.1f %%.",
			r.Now.HottestKey, 100*r.Now.HottestShare, 100/float64(n))
	}
	if p := r.Prefix; p != nil && p.Share*float64(n) > 1.15 {
		add("%.0f %% of the writes have %s on the first level of their keys; it lies in %d of %d physical partitions, "+
			"and another only follows from a split.", 100*p.Share, p.Value, p.Partitions, n)
	}
	if d := r.Now.FullInDays; d > 0 && d < soonDays {
		add("At this rate the key %s has the %d GB that one key may have in %.0f days; writes of it are refused then.",
			r.Now.HottestKey, keyGB, d)
	}
	if s.about.Version == 1 {
		add("The key has version 1 of the hash: where keys with coming dates lie was not computed, and hottest/mean is " +
			"that of all documents.")
	}
	if r.Recommended == r.Now.Name {
		add("No alternative is more than 5 %% cheaper than the key that it has.")
	} else if r.Recommended != "" {
		best := r.layout(r.Recommended)
		add("%s would need %.1f RU/s instead of %.1f (hottest/mean %.2f). What can be done stands at the "+
			"end.", strings.ToUpper(best.Name[:1])+best.Name[1:], best.NeedRUs, r.Now.NeedRUs, best.HottestOverMean)
	}
	return out
}

func bought(rus int) string {
	if rus == 0 {
		return "the provisioned"
	}
	return fmt.Sprint(rus)
}

func (r Report) layout(name string) Layout {
	for _, l := range append([]Layout{r.Now}, r.Others...) {
		if l.Name == name {
			return l
		}
	}
	return Layout{}
}

// dollars returns the list price of a month of throughput.
func dollars(rus float64) float64 {
	return ru.Price(ru.Priced{RUs: ru.Sold(rus, false)}).Most
}

// Remedy is something that can be done about a bad key. All request units are modelled.
type Remedy struct {
	Name string `json:"name"`
	// Refused says which known limit is not kept; "" for none.
	Refused string   `json:"refused,omitempty"`
	Gates   []string `json:"gates"` // what else has to hold
	// OnceRUs is charged for the change, and OnceDollars is its price by the throughput that is bought, or serverless.
	OnceRUs     float64 `json:"onceRUs"`
	OnceDollars float64 `json:"onceDollars"`
	// NeedRUs and Dollars are what writes and reads need afterwards, a second and a month.
	NeedRUs float64 `json:"needRUs"`
	Dollars float64 `json:"dollarsPerMonth"`
	Cures   string  `json:"cures"`
}

// Limits of a change of partition key (Azure Cosmos DB docs, change-partition-key).
const (
	changeGB  = 4096
	changeRUs = 1_000_000
)

// What the values of Binnacle's chunks may take, in bytes: repeated ones, and ones that no encoding shortens.
const (
	leastValue, mostValue = 0.5, 8
	chunkBytes            = 30_000
	// ownContainers is how many containers of Binnacle are billed for their least storage.
	ownContainers = 4
)

// remedies lists what can be done where another layout is recommended.
func (r Report) remedies(j *predictor) []Remedy {
	if r.Recommended == "" || r.Recommended == r.Now.Name {
		return nil
	}
	best := r.layout(r.Recommended)
	reads := j.cfg.Model.Query(ru.QueryWork{Docs: int(j.f.docs), ExtraKB: max(0, j.f.bytes/1024-j.f.docs)})
	copied := reads + j.f.rus
	once := ru.Consumed(copied)
	if r.Provisioned > 0 { // both containers are paid for while the copy goes on
		once = 2 * ru.Price(ru.Priced{RUs: float64(r.Provisioned)}).Most / ru.HoursPerMonth *
			math.Ceil(copied/float64(r.Provisioned)/3600)
	}
	change := Remedy{Name: "change of the partition key in place", OnceRUs: copied, OnceDollars: once,
		NeedRUs: best.NeedRUs, Dollars: best.Dollars, Cures: "writes and reads, by " + best.Name, Gates: []string{
			"a preview; writes stop while it copies", "no partition was ever merged", "local authentication is enabled",
			"the key exists in every document, or is added first"}}
	if r.GB > changeGB || r.Provisioned > changeRUs {
		change.Refused = fmt.Sprintf("%.0f GB and %d RU/s; below %d GB and %d RU/s are allowed without support", r.GB,
			r.Provisioned, changeGB, changeRUs)
	}
	online := change
	online.Name, online.Refused = "container copy, online", ""
	online.Gates = []string{"a preview", "continuous backup and the feed of all versions and deletes",
		"writes cost double while it copies"}
	writes := j.f.rus / (j.f.days * 86400)
	index := Remedy{Name: "global secondary index", OnceRUs: copied, OnceDollars: once,
		NeedRUs: r.Now.NeedRUs + writes + reads/(j.f.days*86400), Cures: "reads by " + best.Name +
			"; the hot key of writes stays", Gates: []string{"a preview", "continuous backup",
			"autoscale alone; no WHERE, one level of properties; its definition is fixed"}}
	index.Dollars = r.Now.Dollars + ru.Price(ru.Priced{RUs: 1000 * math.Ceil(max(1, writes/1000)), Autoscale: true,
		Container: true, GB: r.GB}).Least
	return []Remedy{change, online, index, r.binnacle(j)}
}

// binnacle estimates chunks of the same readings: one a device and day at least, of values that take as much as any.
func (r Report) binnacle(j *predictor) Remedy {
	values, docs := 0.0, 0.0
	for _, d := range j.docs {
		values += d.weight * max(1, float64(d.units)/ru.Scalar-4) // id, key and time aside
		docs += d.weight
	}
	write := func(each float64) float64 { // RU a day
		bytes := j.f.docs / j.f.days * values / docs * each
		chunks := max(float64(len(j.entities)), bytes/chunkBytes)
		size := int(min(chunkBytes, bytes/chunks+600))
		return chunks * j.cfg.Model.Write(size, 5*ru.Scalar)
	}
	least, most := write(leastValue), write(mostValue)
	need := most/86400 + j.cfg.DeviceReads*r.Now.DeviceDay.RUs
	span := fmt.Sprintf("%.3g to %.3g", least/86400, most/86400)
	if least == most {
		span = fmt.Sprintf("%.3g", most/86400)
	}
	out := Remedy{Name: "Binnacle", OnceRUs: most * j.f.days, OnceDollars: ru.Consumed(most * j.f.days), NeedRUs: need,
		Cures: fmt.Sprintf("writes and reads; writes take %s RU/s", span), Gates: []string{
			"readings come through Kafka, and clients read its API", "what is stored is sent once more (binnacle replay)"}}
	out.Dollars = min(ru.Consumed(need*ru.HoursPerMonth*3600), dollars(need)) + ownContainers*ru.Storage(0)
	return out
}
