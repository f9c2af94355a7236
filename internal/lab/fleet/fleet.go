// Package fleet simulates devices: trucks with ten metrics each, and a publisher that sends their
// readings to Kafka as any device would, in the JSON form of docs/reference/payloads.md.
//
// It knows Kafka only as a client. It must not know the store, the chunks or how readings are ingested.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/kafka"
	"binnacle/internal/retry"
	"binnacle/internal/settings"
	"binnacle/internal/telemetry"
)

const (
	// tick is the shortest wait: reports that become due during it travel together, which spares the broker a
	// request per reading in a large fleet.
	tick = 10 * time.Millisecond

	// maxBatch is the most readings that are published at once.
	maxBatch = 2000

	// memory is how long a device keeps what it could not publish.
	memory = time.Minute
)

// patience are the pauses after attempts that failed.
var patience = retry.Policy{First: 100 * time.Millisecond, Max: 5 * time.Second}

// Fleet is a number of trucks that report at a fixed interval, evenly spread, so that the load is flat. Run owns all
// of it.
type Fleet struct {
	cfg       Config
	log       *slog.Logger
	publisher Publisher
	devices   []*device
	next      int64 // number of the next report, see due
}

// New returns a fleet; its trucks set out when Run begins.
func New(cfg Config) *Fleet {
	cfg = cfg.withDefaults()
	return &Fleet{cfg: cfg, log: cfg.Logger, publisher: cfg.Publisher, devices: make([]*device, max(0, cfg.Devices))}
}

// Run reports until ctx ends, and then returns nil; an error means that the Config is faulty. Readings that Kafka
// does not accept are sent again. Meanwhile devices go on measuring and keep the last minute.
func (f *Fleet) Run(ctx context.Context) error {
	if err := f.cfg.Validate(); err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	if len(f.devices) == 0 {
		<-ctx.Done()
		return nil
	}
	if f.publisher == nil {
		f.publisher = &topicPublisher{topic: f.cfg.Topic, now: f.cfg.Now}
	}
	f.next = f.firstAfter(f.cfg.Now())
	for ctx.Err() == nil {
		now := f.cfg.Now()
		f.keepUp(now)
		batch := f.measure(now)
		if len(batch) == 0 {
			retry.Pause(ctx, max(tick, f.due(f.next).Sub(now))) // the loop sees that ctx has ended
			continue
		}
		f.publish(ctx, batch)
	}
	return nil
}

// due returns the scheduled instant of a report. Reports are numbered from 1970 on: device i makes the reports
// with number mod Devices = i, at the fraction i/Devices of every interval.
func (f *Fleet) due(report int64) time.Time {
	n, interval := int64(len(f.devices)), int64(f.cfg.Interval)
	return time.Unix(0, report/n*interval+report%n*interval/n)
}

// firstAfter returns the number of the first report that is due later than an instant.
func (f *Fleet) firstAfter(at time.Time) int64 {
	n, interval, nanos := int64(len(f.devices)), int64(f.cfg.Interval), at.UnixNano()
	report := nanos/interval*n + nanos%interval*n/interval
	for !f.due(report).After(at) {
		report++
	}
	return report
}

// keepUp drops reports that are older than the devices' memory, after an outage or a suspended machine, and continues
// from now when the clock was set back.
func (f *Fleet) keepUp(now time.Time) {
	switch late := now.Sub(f.due(f.next)); {
	case late > memory:
		first := f.firstAfter(now.Add(-memory))
		f.log.Warn("readings lost: devices buffer only a minute", "readings", first-f.next, "late", late)
		f.next = first
	case late < -2*f.cfg.Interval:
		f.next = f.firstAfter(now)
	}
}

func (f *Fleet) measure(now time.Time) []Record {
	var batch []Record
	for ; len(batch) < maxBatch; f.next++ {
		at := f.due(f.next)
		if at.After(now) {
			break
		}
		i := int(f.next % int64(len(f.devices)))
		if f.devices[i] == nil {
			f.devices[i] = newDevice(f.cfg.Tenants[i%len(f.cfg.Tenants)], NewTruck(f.cfg.Seed, i, at))
		}
		batch = append(batch, f.devices[i].report(at))
	}
	return batch
}

// publish sends a batch until all of it is acknowledged or ctx ends.
func (f *Fleet) publish(ctx context.Context, batch []Record) {
	pauses := patience.Begin()
	for {
		left, err := f.publisher.Publish(ctx, batch)
		if len(left) == 0 {
			if pauses.Count() > 0 {
				f.log.Info("publishing readings works again")
			}
			return
		}
		if ctx.Err() != nil {
			return
		}
		if pauses.Count() == 0 {
			f.log.Warn("cannot publish readings, will retry", "readings", len(left), "error", err)
		}
		batch = left
		if pauses.Wait(ctx) != nil {
			return
		}
	}
}

// tagsEvery is the time after which a device repeats its tags, for readers that missed them.
const tagsEvery = 10 * time.Minute

// messageBytes is a little more than a message of a truck has without tags.
const messageBytes = 320

// device is a truck that belongs to a tenant and sends messages.
type device struct {
	tenant string
	truck  *Truck
	key    []byte
	tagged time.Time // the last report with tags, zero before the first
}

func newDevice(tenant string, truck *Truck) *device {
	return &device{tenant: tenant, truck: truck, key: []byte(tenant + "/" + truck.ID())}
}

// report returns the message of one instant. Its time is the scheduled one, not that of sending, so that seed and
// schedule alone decide what is reported.
func (d *device) report(at time.Time) Record {
	reading := telemetry.Reading{
		Tenant: d.tenant, Device: d.truck.ID(), Time: at.UnixMilli(), Fields: d.truck.Next(at),
	}
	if d.tagged.IsZero() || at.Sub(d.tagged) >= tagsEvery {
		d.tagged = at
		reading.Tags = d.truck.Tags()
	}
	return Record{Key: d.key, Value: decode.AppendJSON(make([]byte, 0, messageBytes), reading)}
}

// Config sets the devices of a fleet and where they publish. Its tags are package settings's.
type Config struct {
	// Topic is the topic to publish to. A Publisher replaces it.
	Topic *kafka.Topic `kong:"-"`

	// Devices is the number of trucks; a fleet of 0 reports nothing.
	Devices int `name:"fleet" help:"Number of simulated trucks. Each reports ten metrics every --fleet-interval. 0: none." default:"${fleet=20}"`

	Interval time.Duration `name:"fleet-interval" help:"Time between two readings of a truck." default:"1s"`

	// Tenants own the trucks in turn: truck i belongs to tenant i modulo their number, so a truck stays with its tenant
	// when Devices grows.
	Tenants []string `name:"fleet-tenants" help:"Tenants of the trucks, in turn." default:"acme,globex"`

	// Seed decides the trucks and their sequences of values.
	Seed uint64 `name:"fleet-seed" help:"Seed of the trucks' routes." default:"1"`

	// Publisher, if not nil, replaces Kafka.
	Publisher Publisher `kong:"-"`

	Now    func() time.Time `kong:"-"` // time.Now if nil
	Logger *slog.Logger     `kong:"-"` // nil logs nothing
}

// Record is a message of a device. Its key keeps the order among the device's messages.
type Record struct {
	Key   []byte // tenant/device
	Value []byte // a reading as JSON
}

// Publisher sends records. One goroutine at a time calls it. It keeps the order of records with equal keys.
type Publisher interface {
	// Publish returns the unacknowledged records, in order, and the reason; nil and nil once all are durable. A returned
	// record may still have arrived. The contents of the slices must not change until they are acknowledged.
	Publish(ctx context.Context, records []Record) ([]Record, error)
}

// Validate reports every fault at once.
func (c Config) Validate() error {
	var faults settings.Faults
	faults.Check(c.Publisher != nil || c.Topic != nil, "a fleet needs a topic to publish to")
	for _, tenant := range c.Tenants {
		faults.Add(telemetry.CheckTenant(tenant))
	}
	faults.Check(c.Devices >= 0, "a fleet of %d devices", c.Devices)
	faults.Check(c.Interval == 0 || c.Interval >= time.Millisecond, "a report every %s: at least 1ms must lie between two",
		c.Interval)
	return faults.Err()
}

func (c Config) withDefaults() Config {
	if len(c.Tenants) == 0 {
		c.Tenants = []string{"acme", "globex"}
	}
	c.Interval = cmp.Or(c.Interval, time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// metadataAge is how old the number of partitions may be: a topic may grow.
const metadataAge = time.Minute

// topicPublisher publishes to a topic, with one request per partition and batch if the batch fits. Records of one key
// go to one partition, as from any producer.
type topicPublisher struct {
	topic *kafka.Topic
	now   func() time.Time

	partitions []int // nil: to be asked for
	// asked is the time of the last query for partitions.
	asked time.Time
}

// Publish implements Publisher: acknowledged means by all replicas.
func (k *topicPublisher) Publish(ctx context.Context, records []Record) ([]Record, error) {
	if err := k.findPartitions(ctx); err != nil {
		return records, err
	}
	groups := map[int][]int{} // partition -> indices of records
	for i, r := range records {
		p := kafka.PartitionOf(r.Key, k.partitions)
		groups[p] = append(groups[p], i)
	}
	var (
		mu     sync.Mutex // guards left and faults
		left   []int
		faults []error
		group  sync.WaitGroup
	)
	now := k.now()
	for partition, indices := range groups {
		group.Go(func() {
			messages := make([]kafka.Message, len(indices))
			for i, at := range indices {
				messages[i] = kafka.Message{Time: now, Key: records[at].Key, Value: records[at].Value}
			}
			done, err := k.topic.Produce(ctx, partition, messages)
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				left = append(left, indices[done:]...)
				faults = append(faults, err)
			}
		})
	}
	group.Wait()
	if len(left) == 0 {
		return nil, nil
	}
	k.partitions = nil // a changed number of partitions may have caused the failure
	slices.Sort(left)
	unsent := make([]Record, len(left))
	for i, at := range left {
		unsent[i] = records[at]
	}
	return unsent, errors.Join(faults...)
}

// findPartitions reads the partitions of the topic unless it has done so lately.
func (k *topicPublisher) findPartitions(ctx context.Context) (err error) {
	if k.partitions != nil && k.now().Sub(k.asked) < metadataAge {
		return nil
	}
	k.asked = k.now()
	k.partitions, err = k.topic.Partitions(ctx)
	return err
}
