package cosmosemu

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"binnacle/internal/cosmosemu/refusal"
	"binnacle/internal/cosmosemu/schema"
	"binnacle/internal/epk"
	"binnacle/internal/ru"
)

// feedRequest is a request for a page of the change feed: the latest version of every item in the
// order of its last write, from one physical partition.
type feedRequest struct {
	container *container
	partition *partition
	scope     []span // of the partition that is asked for; empty: nothing of it
	whole     bool   // the scope is the partition
	limit     int
	now       bool   // only what is written after this request
	above     uint64 // sequence number that has been read already
	since     int64  // _ts from which on versions are wanted
}

// readChanges serves a page of the change feed in latest version mode.
func (x *exchange) readChanges() (reply, error) {
	if mode := x.request.Header.Get("A-Im"); !strings.EqualFold(mode, "Incremental Feed") {
		return reply{}, refusal.Unsupported("the change feed mode %q", mode)
	}
	co, err := x.catalog.find(x.route.database, x.route.container)
	if err != nil {
		return reply{}, err
	}
	q, err := x.feedRequest(co)
	if err != nil {
		return reply{}, err
	}
	p := q.partition
	if err := p.admit(x.now); err != nil {
		return reply{}, err
	}
	f, err := x.openFeed(q)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = f.snapshot.Close() }()
	if len(q.scope) > 0 && f.above < f.lsn {
		if err := p.entries(f.snapshot, co.number, f.above, f.visit); err != nil {
			return reply{}, fmt.Errorf("read the change feed: %w", err)
		}
	}
	charge := x.cfg.Model.Query(f.work)
	p.charge(x.now, charge)
	// What is served must outlive a crash: its sequence numbers must not be given out again.
	if err := x.store.settle(); err != nil {
		return reply{}, fmt.Errorf("log a write: %w", err)
	}
	rep := f.reply()
	rep.charge = charge
	return rep, nil
}

func (x *exchange) feedRequest(co *container) (feedRequest, error) {
	q := feedRequest{container: co}
	var err error
	if err := x.feedScope(&q); err != nil {
		return q, err
	}
	if q.limit, err = x.pageRows(); err != nil {
		return q, err
	}
	h := x.request.Header
	switch etag := h.Get("If-None-Match"); etag {
	case "":
		if text := h.Get("If-Modified-Since"); text != "" {
			q.since, err = parseSince(text)
		}
	case "*":
		q.now = true
	default:
		q.above, err = strconv.ParseUint(strings.Trim(strings.TrimPrefix(etag, "W/"), `"`), 10, 64)
		if err != nil {
			return q, refusal.BadRequest("If-None-Match %s is not an ETag of a change feed", etag)
		}
	}
	return q, err
}

// parseSince reads If-Modified-Since. The Go SDK writes the zone as UTC.
func parseSince(text string) (int64, error) {
	t, err := http.ParseTime(strings.Replace(text, " UTC", " GMT", 1))
	if err != nil {
		return 0, refusal.BadRequest("If-Modified-Since %q is not a time", text)
	}
	return t.Unix(), nil
}

// feedScope finds what is asked for: a physical partition by its id, narrowed by effective partition
// keys or by a partition key; or either of these alone, if it lies in one physical partition.
func (x *exchange) feedScope(q *feedRequest) error {
	co := q.container
	h := x.request.Header
	r := reach{spans: []span{{}}}
	key, err := x.feedKey(co)
	if err != nil {
		return err
	}
	if len(key) > 0 {
		r.spans = []span{prefixSpan(key)}
	}
	from, to := h.Get("X-Ms-Start-Epk"), h.Get("X-Ms-End-Epk")
	if from != "" || to != "" {
		if to == "" {
			to = epk.Max
		}
		if r, err = r.within(epk.Range{Min: from, Max: to}); err != nil {
			return err
		}
	}
	parts := co.parts()
	legs := r.legs(parts)
	q.whole = len(key) == 0 && from == "" && to == ""
	if id := h.Get(hRange); id != "" {
		if q.partition = rangeByID(parts, id); q.partition == nil {
			return refusal.RangeGone(id)
		}
		for _, l := range legs {
			if l.partition == q.partition {
				q.scope = l.spans
			}
		}
		return nil
	}
	switch {
	case len(legs) == 1:
		q.partition, q.scope = legs[0].partition, legs[0].spans
		return nil
	case q.whole:
		return refusal.BadRequest("the change feed of a container of several physical partitions is read from each: set x-ms-documentdb-partitionkeyrangeid")
	}
	return refusal.RangeGone(from + "-" + to)
}

// feedKey gives the effective partition key of the request, or of the prefix that it has.
func (x *exchange) feedKey(co *container) ([]byte, error) {
	doc := documents.Get().(*document)
	defer documents.Put(doc)
	key, _, err := schema.ParseKey(&doc.keys, x.request.Header.Get("X-Ms-Documentdb-Partitionkey"))
	if err != nil {
		return nil, err
	}
	if levels := len(co.current.Load().Keys); len(key) > levels {
		return nil, refusal.BadRequest("the partition key has %d components, the container has %d", len(key), levels)
	}
	return key.AppendEPK(nil), nil
}

func rangeByID(parts []*partition, id string) *partition {
	for _, p := range parts {
		if p.id == id {
			return p
		}
	}
	return nil
}

// feed is a page of the change feed being made.
type feed struct {
	feedRequest
	exchange *exchange
	snapshot *pebble.Snapshot
	lsn      uint64 // of the last write that the snapshot shows
	ttl      int32

	rows   []byte
	count  int
	at     uint64 // sequence number of the last entry that was passed
	upTo   uint64 // all up to this has been served
	passed int
	work   ru.QueryWork
}

// openFeed looks at the partition between two writes.
func (x *exchange) openFeed(q feedRequest) (*feed, error) {
	p := q.partition
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return nil, refusal.RangeGone(p.id)
	}
	f := &feed{feedRequest: q, exchange: x, lsn: p.count.lsn, upTo: p.count.lsn, ttl: q.container.current.Load().TTL}
	if q.now {
		f.above = f.lsn
	}
	if f.above > f.lsn {
		return nil, refusal.BadRequest("the ETag %d is ahead of the partition key range %s, which is at %d: it belongs to another one", f.above, p.id, f.lsn)
	}
	f.snapshot = x.store.db.NewSnapshot()
	return f, nil
}

// visit serves one entry of the log. The writes of a transaction, which share a sequence number, come
// in one page.
func (f *feed) visit(e entry) (more bool, err error) {
	if f.passed++; f.passed%checkEvery == 0 && f.exchange.request.Context().Err() != nil {
		return false, f.exchange.request.Context().Err()
	}
	if e.lsn != f.at && (f.count >= f.limit || len(f.rows) >= maxPageBytes) {
		f.upTo = e.lsn - 1
		return false, nil
	}
	if e.modified < f.since {
		return true, nil
	}
	if !f.wants(e.item) {
		f.work.Add(0) // the service walks the log of the whole partition
		return true, nil
	}
	more, err = f.serve(e)
	f.at = e.lsn
	return more, err
}

func (f *feed) wants(item []byte) bool {
	for _, s := range f.scope {
		if bytes.Compare(s.low, item) <= 0 && (s.high == nil || bytes.Compare(item, s.high) < 0) {
			return true
		}
	}
	return false
}

// serve adds the item of an entry, unless it has expired or would make the answer too large.
func (f *feed) serve(e entry) (more bool, err error) {
	name := append(appendPrefix(make([]byte, 0, prefixLen+len(e.item)), spaceHeader, f.container.number), e.item...)
	var head header
	_, alive, err := readHeader(f.snapshot, name, &head, f.ttl, f.exchange.now)
	if err != nil || !alive {
		return true, err
	}
	body, closer, err := f.snapshot.Get(bodyName(nil, name))
	if err != nil {
		return false, fmt.Errorf("read the body of an item: %w", err)
	}
	defer func() { _ = closer.Close() }() // releases memory only
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

// reply is the page; 304 when there is nothing. Its ETag is where the next page goes on.
func (f *feed) reply() reply {
	rep := reply{
		status: http.StatusOK, etag: `"` + strconv.FormatUint(f.upTo, 10) + `"`,
		partition: f.partition, lsn: f.lsn, container: f.container, items: f.count,
	}
	if f.count == 0 {
		rep.status = http.StatusNotModified
		return rep
	}
	body := append(make([]byte, 0, len(f.rows)+64), `{"_rid":"`...)
	body = append(append(body, f.container.ridText...), `","Documents":[`...)
	body = append(append(body, f.rows...), `],"_count":`...)
	rep.body = append(strconv.AppendInt(body, int64(f.count), 10), '}')
	return rep
}
