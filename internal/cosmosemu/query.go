package cosmosemu

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"binnacle/internal/cosmosemu/refusal"
	"binnacle/internal/cosmosemu/schema"
	"binnacle/internal/cosmosemu/sql"
	"binnacle/internal/epk"
)

// queryRequest is a query as it was sent.
type queryRequest struct {
	hash  uint64
	bound *sql.Bound
}

// parseQuery reads the body of a query.
func (x *exchange) parseQuery() (queryRequest, error) {
	body, err := x.readBody(nil)
	if err != nil {
		return queryRequest{}, err
	}
	var in struct {
		Query      string `json:"query"`
		Parameters []struct {
			Name  string          `json:"name"`
			Value json.RawMessage `json:"value"`
		} `json:"parameters"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return queryRequest{}, refusal.BadRequest("the body is not a query: %v", err)
	}
	params := make(map[string]sql.Value, len(in.Parameters))
	for _, p := range in.Parameters {
		if len(p.Value) == 0 {
			continue // a parameter without a value: Bind names it when the query uses it
		}
		v, err := fastjson.ParseBytes(p.Value)
		if err != nil {
			return queryRequest{}, refusal.BadRequest("the parameter %s is not JSON", p.Name)
		}
		params[p.Name] = sql.JSONValue(v)
	}
	q, err := x.queries.Parse(in.Query)
	if err != nil {
		return queryRequest{}, err
	}
	b, err := q.Bind(params)
	return queryRequest{queryHash(body), b}, err
}

// hIndexUse carries which indexes a query has used, and which it could: base64 of JSON, SDKs decode both.
const hIndexUse = "X-Ms-Cosmos-Index-Utilization"

// queryItems serves one page of a query over items.
func (x *exchange) queryItems() (reply, error) { return x.answerQuery(x.parseQuery) }

// readItems serves one page of all items, without a query: what some SDKs offer as reading all items.
func (x *exchange) readItems() (reply, error) {
	return x.answerQuery(func() (queryRequest, error) {
		const all = "SELECT * FROM c"
		q, err := x.queries.Parse(all)
		if err != nil {
			return queryRequest{}, err
		}
		b, err := q.Bind(nil)
		return queryRequest{queryHash([]byte(all)), b}, err
	})
}

// answerQuery serves one page of the query that parse gives.
func (x *exchange) answerQuery(parse func() (queryRequest, error)) (reply, error) {
	co, err := x.catalog.find(x.route.database, x.route.container)
	if err != nil {
		return reply{}, err
	}
	q, err := parse()
	if err != nil {
		return reply{}, err
	}
	rev := co.current.Load()
	legs, single, err := x.plan(co, rev, q.bound)
	if err != nil {
		return reply{}, err
	}
	at, err := parseCursor(x.request.Header.Get(hContinuation), co.ridText, q.hash)
	if err != nil {
		return reply{}, err
	}
	limit, err := x.pageRows()
	if err != nil {
		return reply{}, err
	}
	snapshot := x.store.db.NewSnapshot()
	defer func() { _ = snapshot.Close() }()
	p := &page{
		scan:  newScan(x.request.Context(), co, rev, q.bound, snapshot, x.now.Unix(), single),
		bound: q.bound, legs: legs, limit: limit, cursor: at, now: x.now, model: x.cfg.Model, most: x.cfg.Limits.ResponseBytes,
	}
	if err := p.run(rev.Definition, single); err != nil {
		return reply{}, err
	}
	if err := x.store.settle(); err != nil {
		return reply{}, fmt.Errorf("log a write: %w", err)
	}
	rep := p.reply(co)
	if isTrue(x.request.Header.Get("X-Ms-Cosmos-Populateindexmetrics")) {
		rep.header[hIndexUse] = []string{base64.StdEncoding.EncodeToString(rev.Policy.Use(q.bound))}
	}
	return rep, nil
}

// plan finds where the query has to look, and refuses what a gateway cannot serve over several
// physical partitions.
func (x *exchange) plan(co *container, rev *revision, b *sql.Bound) ([]leg, bool, error) {
	h := x.request.Header
	doc := documents.Get().(*document)
	defer documents.Put(doc)
	key, hasKey, err := schema.ParseKey(&doc.keys, h.Get("X-Ms-Documentdb-Partitionkey"))
	if err != nil {
		return nil, false, err
	}
	if len(key) > len(rev.Keys) {
		return nil, false, refusal.BadRequest("the partition key has %d components, the container has %d", len(key), len(rev.Keys))
	}
	r := reachOf(rev.Definition, b, key)
	rangeID := h.Get(hRange)
	if rangeID != "" {
		if r, err = inRange(r, co, rangeID); err != nil {
			return nil, false, err
		}
	}
	from, to := h.Get("X-Ms-Start-Epk"), h.Get("X-Ms-End-Epk")
	if from != "" || to != "" {
		if to == "" {
			to = epk.Max
		}
		if r, err = r.within(epk.Range{Min: from, Max: to}); err != nil {
			return nil, false, err
		}
	}
	legs := r.legs(co.parts())
	q := b.Query()
	targeted := r.single || rangeID != "" || hasKey && len(legs) <= 1
	switch {
	case targeted:
	case len(planned(q)) > 0:
		return nil, false, refusal.CrossPartition("The provided cross partition query can not be directly served by the gateway: %s needs the full "+
			"partition key, or a client that merges the answers of physical partitions.", strings.Join(planned(q), ", "))
	case x.request.Method == http.MethodPost && !isTrue(h.Get("X-Ms-Documentdb-Query-Enablecrosspartition")):
		return nil, false, refusal.BadRequest("Cross partition query is required but disabled: set x-ms-documentdb-query-enablecrosspartition to true, or give the partition key.")
	}
	if x.cfg.PrefixVisitsAll && r.prefix && rangeID == "" && from == "" && to == "" {
		legs = everywhere(legs, co.parts(), hasKey || rev.Policy.Indexed(rev.Keys[0]))
	}
	return legs, r.single, nil
}

// inRange narrows a query to a physical partition that the client has named.
func inRange(r reach, co *container, id string) (reach, error) {
	if p := rangeByID(co.parts(), id); p != nil {
		return r.within(p.keys)
	}
	return r, refusal.RangeGone(id)
}

// pageRows is how many rows the client wants in an answer.
func (x *exchange) pageRows() (int, error) {
	text := x.request.Header.Get("X-Ms-Max-Item-Count")
	if text == "" {
		return defaultPageRows, nil
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || n < -1 || n == 0:
		return 0, refusal.BadRequest("x-ms-max-item-count %q is neither -1 nor a number from 1 on", text)
	case n == -1:
		return dynamicPageRows, nil
	}
	return n, nil
}

// run makes the page in the way that the query asks for.
func (p *page) run(def *schema.Definition, single bool) error {
	q := p.bound.Query()
	keepUndefined, err := def.Policy.Order(q)
	switch {
	case err != nil:
		return err
	case q.Collected():
		return p.collected(keepUndefined)
	case len(q.Order) == 0:
		return p.stream(false)
	}
	path := q.Paths()[q.Order[0].Path]
	if single && len(q.Order) == 1 && path.Whole() && path.Key() == "/id" {
		p.scan.reverse = q.Order[0].Descending
		return p.stream(true)
	}
	return p.sorted(keepUndefined)
}

// planned are the constructs of a query that need a plan when it is asked over several physical
// partitions: the gateway merges nothing but rows in any order (REST reference, "querying resources").
func planned(q *sql.Query) []string {
	var out []string
	for _, c := range []struct {
		used bool
		name string
	}{
		{len(q.Order) > 0, "ORDER BY"}, {q.Limited, "TOP or OFFSET LIMIT"}, {q.Aggregate, "an aggregate"},
		{q.Distinct, "DISTINCT"}, {q.Grouped, "GROUP BY"},
	} {
		if c.used {
			out = append(out, c.name)
		}
	}
	return out
}

// reply is the answer with the page's rows.
func (p *page) reply(co *container) reply {
	rep := reply{status: http.StatusOK, charge: p.charge, container: co, items: p.count}
	if len(p.legs) == 1 {
		rep.partition = p.legs[0].partition
		rep.lsn = rep.partition.latest.Load()
	}
	body := append(make([]byte, 0, len(p.rows)+64), `{"_rid":"`...)
	body = append(append(body, co.ridText...), `","Documents":[`...)
	body = append(append(body, p.rows...), `],"_count":`...)
	rep.body = append(strconv.AppendInt(body, int64(p.count), 10), '}')
	if p.more {
		rep.continuation = p.cursor.token()
	}
	rep.header = http.Header{"X-Ms-Documentdb-Query-Metrics": {
		fmt.Sprintf("retrievedDocumentCount=%d;outputDocumentCount=%d;outputDocumentSize=%d", p.count, p.count, len(p.rows)),
	}}
	return rep
}
