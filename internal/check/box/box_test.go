package box_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"binnacle/ingest/ingesttest"
	"binnacle/ingest/journal"
	"binnacle/internal/control"
	"binnacle/internal/kafka"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
)

// options say what run is made.
type options struct {
	seed uint64
	// until is the number of events after which nothing more is disturbed.
	until int
	// without are kinds of actors and acts that are left out.
	without map[string]bool
	// with is the only kind of the rarer actors that a run has, and has in any case; "" where the seed picks.
	with string
	// years is how many years pass, in a run of years.
	years int

	trace func(line string)
	log   *slog.Logger
}

// profile is what the seed picks for a whole run.
type profile struct {
	faults, lag  float64       // shares of calls that fail, and of reads by a replica that lags
	act          float64       // share of steps in which the world acts instead of a call
	passes       float64       // share of steps in which time passes although a call could go on
	maxLag       time.Duration // how far replicas of chunks lag
	pace         time.Duration // the most that passes at once
	think        time.Duration // the longest pause of a client between questions
	clocks       time.Duration // by how much clocks are wrong
	partitions   int
	devices      int // of each tenant
	queriers     int
	writes       int
	journal      bool
	loses        string // how the journal loses its end, "" for never
	hold         time.Duration
	journalEvery time.Duration
	catalogEvery time.Duration
	feedEvery    time.Duration
}

// world is what all accounts of a run share: one clock and one seed.
type world struct {
	opts    options
	rnd     *rand.Rand // the scheduler's
	actors  []*actor
	births  int // of queriers
	values  int // produced so far
	running sync.WaitGroup
	stirred chan struct{}
	view    view
	began   time.Time
	clocks  clocking
	slow    slowCalls

	events, disturbed, ties int
	sum                     uint64
	settling                bool

	mu      mutexed // guards below
	pending []*call
	failure string
}

// box is an account with its log, and all that uses both. A run has one, and one more where tenants are copied.
type box struct {
	*world
	prefix   string // of the names of its actors
	profile  profile
	about    focus
	services services
	stores   *ingesttest.Stores
	log      *broker
	oracle   *oracle
	metrics  []string // that devices report

	operating operating
	copies    copies
	adding    adding
	limiting  limiting
	retaining retaining
	shortage  shortage
	settings  settings
	setback   setback
	billing   billing
	refusing  bool // queriers are asked for what was refused
	grouped   bool // a group gives ingesters their partitions

	slots []*slot
	// leaving are the ingesters that were stopped and may still write.
	leaving  []*ingester
	queriers []*querier
	makers   []*maker
	rollups  *storetest.Rollups

	provisioners []*provisioner
	account      *account
	// oldMonths are containers that no tenant keeps until a newcomer comes.
	oldMonths []string
	newcomers int
	// tempted is the month for which the next newcomer comes at the event temptAt; "" for any.
	tempted string
	temptAt int

	tenants []string
	// timesLost is set once the journal has lost records, until lostBy, which lived then, has appended behind them:
	// marks are those of its commits since.
	timesLost bool
	lostBy    *actor
	marks     []journal.Nonce
	// catalogued counts the changes of the catalog. indexes holds, by tenant, what was read of the catalog at a count.
	catalogued int
	indexes    map[string]index
	commits    *actor // the one that has committed last
	// receives is set of the target of copies: tags come with pages of the source, too.
	receives bool
	// documented is when a control document was written last, and chunked when a chunk was.
	documented, chunked time.Time
	// lateMonth says that first, the first querier, knows no container when the first chunk is stored.
	lateMonth  bool
	first      *actor
	firstChunk time.Time
	// committed has moved the group's offset just now.
	committed *actor
	// rush is until when little time passes, and replicas lack what was stored last.
	rush time.Time
}

// result is what a run has come to.
type result struct {
	hash                    uint64
	events, disturbed, ties int
	failure                 string
}

// recorder is the testing.TB of the fakes: what they find fails the run.
type recorder struct {
	testing.TB
	b *box
}

// Errorf implements testing.TB.
func (r recorder) Errorf(format string, args ...any) { r.b.fail(format, args...) }

// FailNow implements testing.TB. The run ends at its next step.
func (r recorder) FailNow() {}

// Helper implements testing.TB.
func (r recorder) Helper() {}

// fail ends the run.
func (b *box) fail(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failure == "" {
		b.failure = fmt.Sprintf(format, args...)
	}
}

func (b *box) failed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failure != ""
}

// calm reports whether nothing is disturbed any more.
func (b *box) calm() bool { return b.settling || b.events >= b.opts.until }

// run makes one run in a bubble of its own.
func run(t *testing.T, opts options) (out result) {
	t.Helper()
	defer collect()
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, &world{opts: opts, rnd: rand.New(rand.NewPCG(opts.seed, 36)), stirred: make(chan struct{}, 1)})
		cryptotest.SetGlobalRandom(t, opts.seed)
		b.profile = b.pickProfile()
		if opts.years == 0 {
			b.about = b.pickFocus()
		}
		b.shortage = b.pickShortage() // before copies take the profile
		if b.about == "" {
			b.services = b.pickServices() // which changes the profile
			b.operating = b.pickOperating()
			b.copies = b.pickCopies()
		}
		b.retaining = b.pickRetaining()
		b.limiting, b.setback = b.pickLimiting(), b.pickSetback()
		b.slow = b.pickSlowCalls()
		b.clocks, b.settings, b.grouped = b.pickClocking(), b.pickSettings(), b.pickGroup()
		b.billing, b.refusing = b.pickBilling(), b.pickRefusals()
		b.hookStores()
		b.begin()
		if opts.years > 0 {
			b.passYears()
		} else {
			for !b.calm() && !b.failed() {
				b.step()
			}
			b.settle()
		}
		b.finish()
		out = result{b.sum, b.events, b.disturbed, b.ties, b.failure}
	})
	return out
}

// newBox makes an empty account.
func newBox(t testing.TB, w *world) *box {
	b := &box{world: w, metrics: []string{"a", "b"}, limiting: limiting{fairAfter: -1},
		indexes: map[string]index{}}
	b.stores = ingesttest.NewStores(recorder{t, b})
	b.oracle = newOracle(b)
	return b
}

func oneOf[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

// pickProfile picks what the run is like.
func (b *box) pickProfile() profile {
	r := b.rnd
	p := profile{
		faults: oneOf(r, 0.01, 0.05, 0.05, 0.15), lag: oneOf(r, 0, 0.1, 0.4), act: oneOf(r, 0.05, 0.1, 0.2),
		pace:       oneOf(r, 100*time.Millisecond, 2*time.Second, 2*time.Second, 20*time.Second),
		think:      oneOf(r, time.Second, 5*time.Second, 30*time.Second),
		clocks:     oneOf(r, 1, 2*time.Second, 50*time.Second, time.Hour),
		partitions: 1 + r.IntN(2), devices: 1 + r.IntN(3), queriers: 1 + r.IntN(2), writes: oneOf(r, 1, 4, 32),
		journal: r.IntN(3) > 0, hold: oneOf(r, time.Second, 5*time.Second, 20*time.Second, 5*time.Minute, 12*time.Hour),
		journalEvery: oneOf(r, time.Second, 10*time.Second, 15*time.Minute),
		maxLag:       maxLag, passes: 0.03,
		catalogEvery: oneOf(r, -1, time.Minute, 7*24*time.Hour), feedEvery: oneOf(r, 2*time.Second+13, 20*time.Second+17),
	}
	if b.opts.without["faults"] {
		p.faults = 0
	}
	if b.opts.without["lag"] {
		p.lag = 0
	}
	return p
}

// begin makes the world, and starts it.
func (b *box) begin() {
	b.began = time.Now()
	// A moment before midnight as often as any other.
	start := time.Date(2026, 11, 20, b.rnd.IntN(24), b.rnd.IntN(60), 0, 0, time.UTC)
	if b.rnd.IntN(3) == 0 {
		start = time.Date(2026, 11, 30, 23, 50+b.rnd.IntN(10), 0, 0, time.UTC)
	}
	if b.services.makers > 0 {
		start = start.Truncate(time.Hour).Add(time.Duration(59-b.services.toHour) * time.Minute)
	}
	time.Sleep(time.Until(start))
	b.newRollups(b.stores.T)
	if b.services.provisioners > 0 {
		b.beginAccount()
	} else {
		for _, month := range []string{"2026-10", "2026-11", "2026-12", "2027-01"} {
			b.makeContainer("chunks-" + month)
			b.makeContainer("rollups-" + month)
		}
	}
	b.log = newBroker("box", b.profile.partitions)
	dir := control.NewDirectory(control.DirectoryConfig{Documents: b.stores.Docs, Now: time.Now,
		Slots: b.services.slots, Retention: b.services.retention})
	b.tenants = []string{"acme", "globex"}
	for _, name := range b.tenants {
		if _, err := dir.Register(b.context(), name); err != nil {
			panic(err)
		}
		b.oracle.registered(name)
	}
	b.beginRetaining()
	for i := range b.profile.partitions {
		b.slots = append(b.slots, &slot{ordinal: i})
	}
	if b.grouped { // one more process than there are partitions
		b.slots = append(b.slots, &slot{ordinal: 1})
	}
	for _, name := range b.tenants {
		b.limiting.gives(name, b.limiting.byDefault)
	}
	for _, s := range b.slots {
		b.startIngester(s, false)
	}
	for range b.profile.queriers {
		b.startQuerier()
	}
	b.first, b.lateMonth = b.queriers[0].actor, b.pickLateMonth()
	b.startServices()
	b.startOperating()
	b.startCopies()
}

// devicesOf returns the devices of a tenant. No two tenants have one.
func (b *box) devicesOf(tenant string) (all []string) {
	for i := range b.profile.devices {
		all = append(all, fmt.Sprintf("%s-%d", tenant, i))
	}
	return all
}

// step lets one thing happen.
func (b *box) step() {
	pending := b.quiet()
	b.slow.some(pending)
	now := time.Now()
	due := slices.DeleteFunc(slices.Clone(pending), func(c *call) bool {
		return !c.due(now) || !b.calm() && !c.isOrphan && c.waits(now) && (c.deadline.IsZero() || now.Before(c.deadline))
	})
	for _, c := range due {
		if !c.deadline.IsZero() && !now.Before(c.deadline) && !c.isOrphan {
			b.goOn(c)
			return
		}
	}
	if b.tempted != "" && b.events >= b.temptAt && !b.calm() {
		b.newcomer()
		return
	}
	if !b.calm() && (b.committed != nil && b.actCommitted() || b.actDoomed()) {
		return
	}
	switch chance := b.rnd.Float64(); {
	case !b.calm() && chance < b.profile.act:
		b.act()
	case len(due) == 0 || chance > 1-b.profile.passes:
		b.pass(nextDeadline(pending, max(1, b.duration(time.Microsecond, b.pace()))))
	default:
		b.goOn(due[b.rnd.IntN(len(due))])
	}
}

// pace is the most that passes at once.
func (b *box) pace() time.Duration {
	if !b.calm() && time.Now().Before(b.rush) {
		return min(b.profile.pace, 50*time.Millisecond)
	}
	return b.profile.pace
}

// acts are what can be left out of a run.
var acts = []string{"kill ingesters", "kill queriers", "clocks", "pauses", "slow calls", "faults", "lag", "shutdowns",
	rollupMakers, provisioners, otherSettings, erasures, retentions, copying, limits, setbacks, spilling, grouped, bills,
	refusals}

// act lets the world act: devices, operators, and what breaks processes.
func (b *box) act() {
	if b.services.some() && b.rnd.IntN(b.services.acts) == 0 {
		b.actService()
		return
	}
	if b.actOperator() || b.actCopies() || b.actLimits() || b.actAdding() || b.actSetback() ||
		b.actShortage() || b.actBills() {
		return
	}
	if b.about == journaled && b.actJournaled() || b.about == doubled && b.actDoubled() ||
		b.grouped && b.actGrouped() {
		return
	}
	switch n := b.rnd.IntN(1000); {
	case n < 930:
		b.produce()
	case n < 960:
		if b.kills() && (!b.grouped || b.rnd.IntN(6) == 0) {
			b.actIngester()
		}
	case n < 970:
		if !b.opts.without["kill queriers"] {
			b.actQuerier()
		}
	case n < 980:
		if !b.opts.without["pauses"] {
			b.actPause()
		}
	default:
		if !b.opts.without["clocks"] {
			b.actClock()
		}
	}
}

// actQuerier kills a querier, and starts another one.
func (b *box) actQuerier() {
	i := b.rnd.IntN(len(b.queriers))
	b.event("box", "kill", b.queriers[i].name, "")
	b.die(b.queriers[i].actor)
	b.queriers = slices.Delete(b.queriers, i, i+1)
	b.startQuerier()
}

// produce publishes a record of a tenant.
func (b *box) produce() {
	if b.operating.lull != "" {
		return
	}
	tenant := oneOf(b.rnd, b.tenants...)
	device := oneOf(b.rnd, b.devicesOf(tenant)...)
	now := time.Now().UnixMilli()
	b.publish(tenant, device, func() int64 { return b.eventTime(now) })
}

// publish publishes a record of a device: one reading, several, or one that is refused.
func (b *box) publish(tenant, device string, eventTime func() int64) {
	now := time.Now().UnixMilli()
	var readings []telemetry.Reading
	var all []string
	for range max(1, b.rnd.IntN(5)-1) {
		b.values++
		r := telemetry.Reading{Tenant: tenant, Device: device, Time: eventTime(), Tags: b.retaining.tagsOf(device),
			Fields: []telemetry.Field{{Metric: b.metric(), Value: telemetry.FloatValue(float64(b.values))}}}
		for b.limiting.on && !b.oracle.isNew(device, r.Time, readings) {
			r.Time++
		}
		readings = append(readings, r)
		tags := ""
		if site, ok := r.Tags.Get(siteTag); ok {
			tags = fmt.Sprintf(`,"tags":{%q:%q}`, siteTag, site)
		}
		all = append(all, fmt.Sprintf(`{"tenant":%q,"device":%q,"ts":%d,"values":{%q:%d}%s}`, tenant, device, r.Time,
			r.Fields[0].Metric, b.values, tags))
	}
	value, refused := all[0], ""
	if len(all) > 1 {
		value = "[" + strings.Join(all, ",") + "]"
	}
	kinds := 30
	if b.refusing {
		kinds = 15
	}
	switch b.rnd.IntN(kinds) {
	case 0:
		value, refused, readings = fmt.Sprintf("no json %d", b.values), "malformed", nil
	case 1:
		refused = "future"
		readings = []telemetry.Reading{{Tenant: tenant, Device: device, Time: now + 3600_000}}
		value = fmt.Sprintf(`{"tenant":%q,"device":%q,"ts":%d,"values":{"a":%d}}`, tenant, device, now+3600_000, b.values)
	}
	key := []byte(tenant + "/" + device)
	partitions := make([]int, b.profile.partitions)
	for i := range partitions {
		partitions[i] = i
	}
	p := int32(kafka.PartitionOf(key, partitions))
	headers, what := b.replayHeaders(p)
	offset := b.log.partition(topic, p).append(logged{time: now, key: key, value: []byte(value), headers: headers})
	b.oracle.produced(place{p, offset}, readings, refused)
	b.event("box", "produce", fmt.Sprintf("%s/%d offset %d%s", topic, p, offset, what), value)
}

// eventTime picks when a reading was made that is published now: mostly now, or late, or at an instant that has one.
func (b *box) eventTime(now int64) int64 {
	if b.services.makers > 0 && b.rnd.IntN(2) == 0 {
		return b.lateTime(now)
	}
	if b.about == journaled && b.rnd.IntN(2) == 0 {
		return b.takeoverTime(now)
	}
	if b.retaining.on && b.rnd.IntN(3) > 0 { // these days change from kept to hidden
		return now - int64(b.rnd.IntN(5))*telemetry.DayMillis
	}
	switch b.rnd.IntN(6) {
	case 0:
		return now - int64(b.rnd.IntN(3))*telemetry.DayMillis
	case 1:
		return now - now%5000
	case 2:
		return now - int64(b.rnd.IntN(600_000))
	}
	return now
}
