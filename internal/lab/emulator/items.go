package emulator

import (
	"net/http"
	"strings"
	"sync"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator/engine"
	"binnacle/internal/lab/emulator/refusal"
)

// Headers of requests for items: the partition key, a JSON array, and what a POST is.
const (
	hKey    = "X-Ms-Documentdb-Partitionkey"
	hBatch  = "X-Ms-Cosmos-Is-Batch-Request"
	hUpsert = "X-Ms-Documentdb-Is-Upsert"
	// hIntended is the resource id of the container that a client means by the name.
	hIntended = "X-Ms-Cosmos-Intended-Collection-Rid"
)

// bodies are buffers for what clients send.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

// createItem serves POST of an item: a create, or an upsert when the client says so. The same path
// takes batches.
func (x *exchange) createItem(co *engine.Container) (reply, error) {
	switch h := x.request.Header; {
	case isTrue(h.Get(hBatch)):
		return x.executeBatch(co)
	case isTrue(h.Get(hUpsert)):
		return x.write(co, engine.OpUpsert)
	}
	return x.write(co, engine.OpCreate)
}

func write(op engine.Operation) handler {
	return on(func(x *exchange, co *engine.Container) (reply, error) { return x.write(co, op) })
}

// deleteKey deletes all items of a logical partition. The service does it in the background, for the request units that
// others leave; here it is done and charged at once.
func (x *exchange) deleteKey(co *engine.Container) (reply, error) {
	key := x.request.Header.Get(hKey)
	ids, err := co.IDs(key)
	if err != nil {
		return reply{}, err
	}
	var res engine.Result
	charge := 0.0
	for _, id := range ids {
		if res, err = co.Write(x.call(), engine.Write{Op: engine.OpDelete, ID: id, Key: key, Minimal: true}); err != nil {
			if refusal.Of(err).Status == http.StatusNotFound { // it has expired, or another request was faster
				continue
			}
			return reply{}, err
		}
		charge += res.Charge
	}
	res.Body, res.ETag, res.Charge = nil, "", charge
	return x.itemReply(co, res), nil
}

func (x *exchange) write(co *engine.Container, op engine.Operation) (reply, error) {
	h := x.request.Header
	w := engine.Write{
		Op: op, ID: x.route.id, Key: h.Get(hKey),
		Match: h.Get("If-Match"), NoneMatch: h.Get("If-None-Match"), Minimal: x.minimal(),
	}
	if op != engine.OpDelete {
		if err := checkDirectives(h); err != nil {
			return reply{}, err
		}
		body := bodies.Get().(*[]byte)
		defer bodies.Put(body)
		read, err := x.readBody(*body)
		if err != nil {
			return reply{}, err
		}
		*body, w.Body = read, read
	}
	res, err := co.Write(x.call(), w)
	if err != nil {
		return reply{}, err
	}
	rep := x.itemReply(co, res)
	rep.status = writeStatus(op, res.Created)
	return rep, nil
}

func writeStatus(op engine.Operation, created bool) int {
	switch {
	case op == engine.OpDelete:
		return http.StatusNoContent
	case created:
		return http.StatusCreated
	}
	return http.StatusOK
}

func (x *exchange) container() (*engine.Container, error) {
	co, err := x.account.Container(x.route.database, x.route.container)
	if err != nil {
		return nil, ofAccount(err)
	}
	if rid := x.request.Header[hIntended]; len(rid) > 0 && rid[0] != co.RID() {
		return nil, refusal.AnotherContainer(rid[0])
	}
	return co, nil
}

// ofAccount finishes a refusal that the partition gives which knows databases and containers. What is not found is
// charged like a read, a changed definition that is refused like a refused write, what exists nothing.
func ofAccount(err error) error {
	f := refusal.Of(err)
	f.Account = true
	switch f.Status {
	case http.StatusNotFound:
		f.Charge = ru.MetadataRead
	case http.StatusForbidden, http.StatusPreconditionFailed:
		f.Charge = ru.Refused
	}
	return f
}

func (x *exchange) itemReply(co *engine.Container, res engine.Result) reply {
	return reply{
		status: http.StatusOK, body: res.Body, charge: res.Charge, etag: res.ETag,
		rid: co.RID(), path: x.route.containerPath(), rangeID: res.Range, lsn: res.LSN, itemLSN: res.ItemLSN, items: -1,
	}
}

// checkDirectives refuses what a write cannot be asked for. An item is indexed as the container's policy
// says: the directives Default and Include ask for that; Exclude, a relic of lazy indexing, would hide
// it from queries.
func checkDirectives(h http.Header) error {
	if h.Get("X-Ms-Documentdb-Pre-Trigger-Include") != "" || h.Get("X-Ms-Documentdb-Post-Trigger-Include") != "" {
		return refusal.Unsupported("a trigger")
	}
	d := h.Get("X-Ms-Indexing-Directive")
	if d != "" && !strings.EqualFold(d, "Default") && !strings.EqualFold(d, "Include") {
		return refusal.Unsupported("the indexing directive %s", d)
	}
	return nil
}

func (x *exchange) readItem(co *engine.Container) (reply, error) {
	res, err := co.Read(x.call(), engine.Read{Key: x.request.Header.Get(hKey), ID: x.route.id, Factor: x.readFactor()})
	if err != nil {
		return reply{}, err
	}
	rep := x.itemReply(co, res)
	if x.request.Header.Get("If-None-Match") == rep.etag {
		rep.status, rep.body = http.StatusNotModified, nil
	}
	return rep, nil
}
