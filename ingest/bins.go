package ingest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"binnacle/binning"
	"binnacle/ingest/bins"
	"binnacle/ingest/journal"
)

// BinsRequest selects what Bins lists.
type BinsRequest struct {
	Tenant  string // "" for all
	Devices int    // how many devices are listed
	By      BinsOrder
}

// BinsOrder is which devices are listed first.
type BinsOrder string

// The orders: the oldest reading first, or what takes most memory.
const (
	ByAge   BinsOrder = "age"
	ByBytes BinsOrder = "bytes"
)

// Bins is what an ingester holds: readings that are not known to be stored. A restart loads or reads them again.
type Bins struct {
	Now         time.Time       `json:"now"`
	Topics      string          `json:"topics"` // the configured ones
	HoldSeconds float64         `json:"hold_seconds"`
	Memory      BinsMemory      `json:"memory"`
	Partitions  []BinsPartition `json:"partitions"`
	Tenants     []BinsSummary   `json:"tenants"`
	Devices     []BinsSummary   `json:"devices,omitempty"` // the ones that were asked for
}

// BinsMemory is where the readings are, in bytes.
type BinsMemory struct {
	Held    int64 `json:"held"` // includes the memory of devices
	Bound   int64 `json:"bound"`
	Spilled int64 `json:"spilled"` // on disk instead
	File    int64 `json:"file"`    // disk space of the spill file
}

// BinsPartition is how far a partition is, in offsets, as of the last time it was to commit.
type BinsPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Stream    uint32 `json:"stream"`
	CaughtUp  bool   `json:"caught_up"`
	End       int64  `json:"log_end"`
	Position  int64  `json:"position"`
	Floor     int64  `json:"floor"`         // below is all in chunks: what is committed
	Journaled int64  `json:"journal_floor"` // below is all in chunks or in the journal; the floor without a journal
	Bins      int    `json:"bins"`
	Loading   int64  `json:"loading,omitempty"` // blocks that are still to be loaded

	Replay Replay `json:"replay"`
}

// Unread returns how many records are not read yet.
func (p BinsPartition) Unread() int64 { return max(0, p.End-p.Position) }

// Unjournaled returns how many records were read since the last one below which the journal, or the store, has
// everything.
func (p BinsPartition) Unjournaled() int64 { return max(0, p.Position-p.Journaled) }

// Unstored returns how many records were read since the last one below which the store has everything.
func (p BinsPartition) Unstored() int64 { return max(0, p.Position-p.Floor) }

// Replay is the work of a takeover before answers are complete again.
type Replay struct {
	Blocks  int64 `json:"journal_records"`         // to be loaded
	Records int64 `json:"records"`                 // to be read of the log
	Without int64 `json:"records_without_journal"` // to be read of the log if the journal can't be used

	// What this takes at the pace of this process; 0 where it is not known.
	Seconds        float64 `json:"seconds,omitempty"`
	SecondsWithout float64 `json:"seconds_without_journal,omitempty"`
}

// BinsSummary sums up the open bins of a tenant or of one of its devices.
type BinsSummary struct {
	Tenant   string    `json:"tenant"`
	Device   string    `json:"device,omitempty"`
	Devices  int       `json:"devices,omitempty"`
	Bins     int       `json:"bins"`
	Readings int       `json:"readings"`
	Values   int       `json:"values"`
	Bytes    int64     `json:"bytes"` // memory
	From     time.Time `json:"from"`  // least and greatest event time
	To       time.Time `json:"to"`
	// Behind is how many records lie between the oldest reading and the position: what the bin holds back.
	Behind int64 `json:"records_behind"`
}

func (b *BinsSummary) add(h bins.Holding, position int64) {
	from, to := time.UnixMilli(h.From).UTC(), time.UnixMilli(h.To).UTC()
	if b.Bins == 0 || from.Before(b.From) {
		b.From = from
	}
	if b.Bins == 0 || to.After(b.To) {
		b.To = to
	}
	b.Bins += h.Bins
	b.Readings += h.Readings
	b.Values += h.Values
	b.Bytes += int64(h.Bytes)
	b.Behind = max(b.Behind, position-h.First)
}

// Bins returns the open bins and the partitions' progress. It is safe for any number of callers; partitions run on.
func (in *Ingester) Bins(ctx context.Context, req BinsRequest) (Bins, error) {
	out := Bins{
		Now: in.cfg.Now().UTC(), Topics: in.set.String(), HoldSeconds: in.cfg.Config.WithDefaults().Hold.Seconds(),
		Memory: BinsMemory{Held: in.memory.Used(), Bound: in.cfg.MemoryBytes},
	}
	if in.spill != nil {
		out.Memory.Spilled, out.Memory.File = in.spill.Bytes()
	}
	tenants := map[string]*BinsSummary{}
	top := topDevices{n: req.Devices, by: req.By}
	for _, p := range in.held() {
		if err := ctx.Err(); err != nil {
			return Bins{}, err
		}
		out.Partitions = append(out.Partitions, p.listed())
		position := p.worker.Position()
		p.worker.Bins().Holdings(req.Tenant, func(h bins.Holding) {
			t := tenants[h.Tenant]
			if t == nil {
				t = &BinsSummary{Tenant: h.Tenant}
				tenants[h.Tenant] = t
			}
			t.add(h, position)
			t.Devices++
			d := BinsSummary{Tenant: h.Tenant, Device: h.Device}
			d.add(h, position)
			top.add(d)
		})
	}
	for _, t := range tenants {
		out.Tenants = append(out.Tenants, *t)
	}
	slices.SortFunc(out.Tenants, func(a, b BinsSummary) int { return strings.Compare(a.Tenant, b.Tenant) })
	slices.SortFunc(out.Partitions, func(a, b BinsPartition) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	out.Devices = top.sorted()
	return out, nil
}

// topDevices keeps the first n devices of an order.
type topDevices struct {
	n   int
	by  BinsOrder
	all []BinsSummary
}

func (t *topDevices) add(d BinsSummary) {
	if t.n > 0 {
		t.all = append(t.all, d)
	}
	if len(t.all) >= 2*t.n+1000 {
		t.cut()
	}
}

func (t *topDevices) cut() {
	slices.SortFunc(t.all, func(a, b BinsSummary) int {
		first := a.From.Compare(b.From)
		if t.by == ByBytes {
			first = cmp.Compare(b.Bytes, a.Bytes)
		}
		return cmp.Or(first, strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.Device, b.Device))
	})
	t.all = t.all[:min(len(t.all), t.n)]
}

func (t *topDevices) sorted() []BinsSummary {
	t.cut()
	return t.all
}

func (in *Ingester) held() []*partition {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.AppendSeq(slices.Collect(maps.Values(in.partitions)), maps.Keys(in.retired))
}

// listed returns how far the partition is. It may be called from any goroutine.
func (p *partition) listed() BinsPartition {
	out := BinsPartition{
		Topic: p.at.topic, Partition: int32(p.at.partition), Stream: p.worker.Stream(), CaughtUp: p.worker.CaughtUp(),
		Position: p.worker.Position(),
		Loading:  p.loading.Load(),
	}
	r := p.progress.Load()
	if r == nil { // the partition has not come to commit yet
		out.End, out.Floor, out.Journaled = out.Position, out.Position, out.Position
		return out
	}
	out.End, out.Floor, out.Journaled, out.Bins = max(r.end, out.Position), r.floor, r.journaled, r.bins
	out.Replay = replay(out, r.commit, r.perSecond)
	return out
}

// progress is how far a partition is, as its goroutine published it last.
type progress struct {
	end, floor, journaled int64
	commit                journal.Commit // the commit that a takeover would load by
	bins                  int
	perSecond             float64 // records that are taken, while there are some; 0: not known
}

func (p *partition) publishProgress(floor int64) {
	r := &progress{
		end: p.worker.Bins().Log.End, floor: floor, journaled: floor, bins: p.worker.OpenBins(),
		commit: p.worker.JournalCommit(), perSecond: p.pace.perSecond(),
	}
	if p.in.cfg.Journal {
		r.journaled = p.worker.JournalFloor()
	}
	p.progress.Store(r)
}

// blockShare is what loading a row from the journal takes of the time of reading it in the log, at most.
const blockShare = 1. / 8

// replay estimates the work of a takeover that loads by a commit, at a pace of perSecond records a second.
func replay(p BinsPartition, c journal.Commit, perSecond float64) Replay {
	out := Replay{Records: p.End - p.Floor, Without: p.End - p.Floor}
	if c.To > c.From {
		out.Blocks, out.Records = c.To-c.From, p.End-c.F
	}
	if perSecond > 0 {
		loaded := min(out.Blocks*binning.BlockRows, out.Without-out.Records)
		out.Seconds = (float64(out.Records) + blockShare*float64(loaded)) / perSecond
		out.SecondsWithout = float64(out.Without) / perSecond
	}
	return out
}

// pace measures how fast records are taken while there are some.
type pace struct {
	records int64
	busy    time.Duration
}

const enoughRecords = 1 << 20

func (p *pace) add(records int, took time.Duration) {
	p.records += int64(records)
	p.busy += took
	if p.records > enoughRecords {
		p.records /= 2
		p.busy /= 2
	}
}

func (p *pace) perSecond() float64 {
	if p.busy <= 0 {
		return 0
	}
	return float64(p.records) / p.busy.Seconds()
}
