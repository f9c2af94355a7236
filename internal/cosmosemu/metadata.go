package cosmosemu

import (
	"encoding/json"
	"net/http"
	"strings"
)

// metadata is the answer about a database, container or offer that was read: a point read.
func (x *exchange) metadata(body []byte, etag string) reply {
	return reply{status: http.StatusOK, body: body, etag: etag, charge: x.cfg.Model.Read(0), items: -1}
}

// changed is the answer about one that was written: a write without an index.
func (x *exchange) changed(status int, body []byte, etag string) reply {
	return reply{status: status, body: body, etag: etag, charge: x.cfg.Model.Write(0, 0), items: -1}
}

func (x *exchange) decodeBody(into any) error {
	body, err := x.readBody(nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return badRequest("the body is not the JSON that is expected here: %v", err)
	}
	return nil
}

func (x *exchange) createDatabase() (reply, error) {
	var in struct {
		ID string `json:"id"`
	}
	if err := x.decodeBody(&in); err != nil {
		return reply{}, err
	}
	t, err := headerThroughput(x.request.Header)
	if err != nil {
		return reply{}, err
	}
	db, err := x.catalog.createDatabase(in.ID, t, x.now.Unix())
	if err != nil {
		return reply{}, err
	}
	return x.changed(http.StatusCreated, db.document(), db.ETag), nil
}

func (x *exchange) readDatabase() (reply, error) {
	db, err := x.catalog.database(x.route.database)
	if err != nil {
		return reply{}, err
	}
	return x.metadata(db.document(), db.ETag), nil
}

func (x *exchange) deleteDatabase() (reply, error) {
	if err := x.catalog.deleteDatabase(x.route.database); err != nil {
		return reply{}, err
	}
	return x.changed(http.StatusNoContent, nil, ""), nil
}

func (x *exchange) createContainer() (reply, error) {
	var in definitionJSON
	if err := x.decodeBody(&in); err != nil {
		return reply{}, err
	}
	t, err := headerThroughput(x.request.Header)
	if err != nil {
		return reply{}, err
	}
	co, err := x.catalog.createContainer(x.route.database, in, t, x.now.Unix())
	if err != nil {
		return reply{}, err
	}
	def := co.current.Load()
	return x.changed(http.StatusCreated, def.document(), def.json.ETag), nil
}

func (x *exchange) readContainer() (reply, error) {
	co, err := x.catalog.find(x.route.database, x.route.container)
	if err != nil {
		return reply{}, err
	}
	def := co.current.Load()
	return x.metadata(def.document(), def.json.ETag), nil
}

func (x *exchange) replaceContainer() (reply, error) {
	var in definitionJSON
	if err := x.decodeBody(&in); err != nil {
		return reply{}, err
	}
	if in.ID != x.route.container {
		return reply{}, badRequest("the id %q of the body is not that of the container %q", in.ID, x.route.container)
	}
	def, err := x.catalog.replaceContainer(x.route.database, in, x.request.Header.Get("If-Match"), x.now.Unix())
	if err != nil {
		return reply{}, err
	}
	return x.changed(http.StatusOK, def.document(), def.json.ETag), nil
}

func (x *exchange) deleteContainer() (reply, error) {
	if err := x.catalog.deleteContainer(x.route.database, x.route.container); err != nil {
		return reply{}, err
	}
	return x.changed(http.StatusNoContent, nil, ""), nil
}

// readRanges answers with the physical partitions. SDKs read it like a change feed: once all, with an
// ETag, then nothing new for that ETag.
func (x *exchange) readRanges() (reply, error) {
	co, err := x.catalog.find(x.route.database, x.route.container)
	if err != nil {
		return reply{}, err
	}
	etag := `"` + co.ridText + `-1"`
	if x.request.Header.Get("If-None-Match") == etag {
		rep := x.metadata(nil, etag)
		rep.status = http.StatusNotModified
		return rep, nil
	}
	type rangeJSON struct {
		RID        string   `json:"_rid"`
		ID         string   `json:"id"`
		ETag       string   `json:"_etag"`
		Min        string   `json:"minInclusive"`
		Max        string   `json:"maxExclusive"`
		RIDPrefix  int      `json:"ridPrefix"`
		Self       string   `json:"_self"`
		Throughput float64  `json:"throughputFraction"`
		Status     string   `json:"status"`
		Parents    []string `json:"parents"`
		TS         int64    `json:"_ts"`
		LSN        uint64   `json:"lsn"`
	}
	parts := co.parts()
	out := make([]rangeJSON, len(parts))
	def := co.current.Load()
	for i, p := range parts {
		p.mu.Lock()
		lsn := p.count.lsn
		p.mu.Unlock()
		out[i] = rangeJSON{
			RID: co.ridText, ID: p.id, ETag: etag, Min: p.keys.Min, Max: p.keys.Max, RIDPrefix: i,
			Self: strings.TrimSuffix(def.json.Self, "/") + "/pkranges/" + p.id + "/", Throughput: 1 / float64(len(parts)),
			Status: "online", Parents: []string{}, TS: def.json.TS, LSN: lsn,
		}
	}
	body, err := json.Marshal(map[string]any{"_rid": co.ridText, "PartitionKeyRanges": out, "_count": len(out)})
	if err != nil {
		return reply{}, err
	}
	rep := x.metadata(body, etag)
	rep.items, rep.container = len(out), co
	return rep, nil
}
