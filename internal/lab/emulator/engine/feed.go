package engine

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"binnacle/internal/lab/emulator/kv"
	"github.com/valyala/fastjson"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator/refusal"
)

// Feed asks for a page of the change feed: the latest version of every item in the order of its
// last write, from one physical partition.
type Feed struct {
	Scope
	Limit   int    // items of a page
	FromNow bool   // only what is written after this request
	Above   uint64 // sequence number that has been read already
	Since   int64  // _ts from which on versions are wanted
}

// Changes returns a page of the change feed; the page's ETag says where the next page resumes.
func (c *Container) Changes(ctx context.Context, call Call, r Feed) (Page, error) {
	f := feed{Feed: r, ctx: ctx, container: c, call: call}
	if err := f.setScope(); err != nil {
		return Page{}, err
	}
	p := f.partition
	if err := p.admit(call); err != nil {
		return Page{}, err
	}
	if err := f.open(); err != nil {
		return Page{}, err
	}
	if len(f.spans) > 0 && f.Above < f.lsn {
		if err := p.entries(f.snapshot, c.number, f.Above, f.visit); err != nil {
			return Page{}, fmt.Errorf("read the change feed: %w", err)
		}
	}
	charge := c.account.cfg.Model.Feed(f.work)
	p.charge(call, charge)
	// What is served must outlive a crash: its sequence numbers must not be given out again.
	c.account.store.Settle()
	return Page{
		Rows: f.rows, Count: f.count, Charge: charge, ETag: `"` + strconv.FormatUint(f.upTo, 10) + `"`,
		Range: p.ID, LSN: f.lsn,
	}, nil
}

// feed is a page of the change feed being made.
type feed struct {
	Feed
	ctx       context.Context
	container *Container
	call      Call
	partition *partition
	// spans lists the asked parts of the partition; empty: nothing of it.
	spans    []span
	snapshot *kv.View
	// lsn is the sequence number of the last write that the snapshot shows.
	lsn uint64
	ttl int32

	rows   []byte
	count  int
	at     uint64 // sequence number of the last entry that was passed
	upTo   uint64 // all up to this has been served
	passed int
	work   ru.QueryWork
}

// setScope finds the scope of the request: a physical partition by its id, narrowed by effective partition keys
// or by a partition key; or either of these alone, if it lies in one physical partition.
func (f *feed) setScope() error {
	var parser fastjson.Parser
	values, _, err := f.container.current.Load().prefixOf(&parser, f.Key)
	if err != nil {
		return err
	}
	key := values.AppendEPK(nil)
	r := reach{spans: []span{{}}}
	if len(key) > 0 {
		r.spans = []span{prefixSpan(key)}
	}
	if r, err = f.narrow(r); err != nil {
		return err
	}
	parts := f.container.parts()
	legs := r.legs(parts)
	if f.Range != "" {
		if f.partition = rangeByID(parts, f.Range); f.partition == nil {
			return refusal.RangeGone(f.Range)
		}
		for _, l := range legs {
			if l.partition == f.partition {
				f.spans = l.spans
			}
		}
		return nil
	}
	switch {
	case len(legs) == 1:
		f.partition, f.spans = legs[0].partition, legs[0].spans
		return nil
	case len(key) == 0 && !f.narrowed():
		return refusal.BadRequest("the change feed of a container of several physical partitions is read from each: " +
			"set x-ms-documentdb-partitionkeyrangeid")
	}
	return refusal.RangeGone(f.Min + "-" + f.Max)
}

func rangeByID(parts []*partition, id string) *partition {
	if i := slices.IndexFunc(parts, func(p *partition) bool { return p.ID == id }); i >= 0 {
		return parts[i]
	}
	return nil
}

// open looks at the partition between two writes.
func (f *feed) open() error {
	p := f.partition
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return refusal.RangeGone(p.ID)
	}
	f.lsn, f.upTo, f.ttl = p.count.lsn, p.count.lsn, f.container.current.Load().TTL
	if f.FromNow {
		f.Above = f.lsn
	}
	if f.Above > f.lsn {
		return refusal.BadRequest(
			"the ETag %d is ahead of the partition key range %s, which is at %d: it belongs to another one",
			f.Above, p.ID, f.lsn)
	}
	f.snapshot = f.container.account.store.Snapshot()
	return nil
}

// visit serves one entry of the log. The writes of a transaction, which share a sequence number, come
// in one page.
func (f *feed) visit(e entry) (more bool, err error) {
	if f.passed++; f.passed%checkEvery == 0 && f.ctx.Err() != nil {
		return false, f.ctx.Err()
	}
	if e.lsn != f.at && (f.count >= f.Limit || len(f.rows) >= maxPageBytes) {
		f.upTo = e.lsn - 1
		return false, nil
	}
	if e.modified < f.Since {
		return true, nil
	}
	if !slices.ContainsFunc(f.spans, func(s span) bool { return s.holds(e.item) }) {
		f.work.Add(0) // the service walks the log of the whole partition
		return true, nil
	}
	more, err = f.serve(e)
	f.at = e.lsn
	return more, err
}

// serve adds the item of an entry, unless it has expired or would make the answer too large.
func (f *feed) serve(e entry) (more bool, err error) {
	name := append(appendPrefix(make([]byte, 0, prefixLen+len(e.item)), spaceItem, f.container.number), e.item...)
	var head header
	_, alive, err := readHeader(f.snapshot, name, &head, f.ttl, f.call.Now)
	if err != nil || !alive {
		return true, err
	}
	body, err := storedBody(f.snapshot, name)
	if err != nil {
		return false, err
	}
	if f.count > 0 && e.lsn != f.at && len(f.rows)+len(body) > maxPageBytes {
		f.upTo = e.lsn - 1
		return false, nil
	}
	if f.count > 0 {
		f.rows = append(f.rows, ',')
	}
	f.rows = append(append(f.rows, body[:len(body)-1]...), `,"_lsn":`...)
	f.rows = append(strconv.AppendUint(f.rows, e.lsn, 10), '}')
	f.count++
	f.work.Add(int(head.size))
	return true, nil
}
