package cosmosemu

import (
	"net/http"
	"strings"

	"binnacle/internal/cosmosemu/patch"
	"binnacle/internal/cosmosemu/refusal"
	"binnacle/internal/cosmosemu/schema"
)

// createItem serves POST of an item: a create, or an upsert when the client says so. The same path
// takes batches.
func (x *exchange) createItem() (reply, error) {
	h := x.request.Header
	if isTrue(h.Get("X-Ms-Cosmos-Is-Batch-Request")) {
		return x.executeBatch()
	}
	if isTrue(h.Get("X-Ms-Cosmos-Is-Query-Plan-Request")) {
		return reply{}, refusal.Unsupported("a query plan")
	}
	op := opCreate
	if isTrue(h.Get("X-Ms-Documentdb-Is-Upsert")) {
		op = opUpsert
	}
	return x.writeItem(op)
}

func (x *exchange) replaceItem() (reply, error) { return x.writeItem(opReplace) }

func (x *exchange) writeItem(op operation) (reply, error) {
	h := x.request.Header
	if err := checkDirectives(h); err != nil {
		return reply{}, err
	}
	co, err := x.catalog.find(x.route.database, x.route.container)
	if err != nil {
		return reply{}, err
	}
	doc := documents.Get().(*document)
	defer documents.Put(doc)
	if doc.request, err = x.readBody(doc.request); err != nil {
		return reply{}, err
	}
	rev := co.current.Load()
	if err := doc.Parse(doc.request, rev.Definition); err != nil {
		return reply{}, err
	}
	if op == opReplace && string(doc.ID) != x.route.id {
		return reply{}, refusal.BadRequest("the id %q of the item is not that of the path, %q", doc.ID, x.route.id)
	}
	key, err := x.fullKey(rev.Definition, doc)
	if err != nil {
		return reply{}, err
	}
	if !key.Equal(doc.Key) {
		return reply{}, refusal.KeyMismatch("the partition key of the request is not that of the item")
	}
	w := write{
		server: x.Server, container: co, revision: rev, doc: doc, now: x.now, op: op,
		match: h.Get("If-Match"), noneMatch: h.Get("If-None-Match"), minimal: x.minimal(),
	}
	return w.run()
}

// checkDirectives refuses what a write cannot be asked for. An item is indexed as the container's policy
// says: the directives Default and Include ask for that; Exclude, a relic of lazy indexing, would hide
// it from queries.
func checkDirectives(h http.Header) error {
	if h.Get("X-Ms-Documentdb-Pre-Trigger-Include") != "" || h.Get("X-Ms-Documentdb-Post-Trigger-Include") != "" {
		return refusal.Unsupported("a trigger")
	}
	if d := h.Get("X-Ms-Indexing-Directive"); d != "" && !strings.EqualFold(d, "Default") && !strings.EqualFold(d, "Include") {
		return refusal.Unsupported("the indexing directive %s", d)
	}
	return nil
}

// fullKey reads the key of the request and refuses one that does not name a logical partition.
func (x *exchange) fullKey(def *schema.Definition, doc *document) (schema.Key, error) {
	key, ok, err := schema.ParseKey(&doc.keys, x.request.Header.Get("X-Ms-Documentdb-Partitionkey"))
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return def.UndefinedKey(), nil
	case len(key) < len(def.Keys):
		return nil, refusal.KeyMismatch("the partition key has %d of %d components", len(key), len(def.Keys))
	case len(key) > len(def.Keys):
		return nil, refusal.BadRequest("the partition key has %d components, the container has %d", len(key), len(def.Keys))
	}
	return key, nil
}

func (x *exchange) deleteItem() (reply, error) {
	co, doc, err := x.named()
	if err != nil {
		return reply{}, err
	}
	defer documents.Put(doc)
	w := write{
		server: x.Server, container: co, revision: co.current.Load(), doc: doc, now: x.now, op: opDelete,
		match: x.request.Header.Get("If-Match"), noneMatch: x.request.Header.Get("If-None-Match"), minimal: true,
	}
	return w.run()
}

// named finds what a request for one item addresses; the document holds its key and id, and goes back
// to the pool.
func (x *exchange) named() (*container, *document, error) {
	co, err := x.catalog.find(x.route.database, x.route.container)
	if err != nil {
		return nil, nil, err
	}
	doc := documents.Get().(*document)
	key, err := x.fullKey(co.current.Load().Definition, doc)
	if err != nil {
		documents.Put(doc)
		return nil, nil, err
	}
	doc.Key = append(doc.Key[:0], key...)
	doc.ID = append(doc.ID[:0], x.route.id...)
	return co, doc, nil
}

// readItem serves a point read.
func (x *exchange) readItem() (reply, error) {
	co, doc, err := x.named()
	if err != nil {
		return reply{}, err
	}
	defer documents.Put(doc)
	name := doc.name(co.number)
	p := co.at(name[prefixLen:])
	if err := p.admit(x.now); err != nil {
		return reply{}, err
	}
	lsn := p.latest.Load() // before the read, which so sees at least what the session token will say
	head, body, err := x.lookup(co, name, x.now)
	if err != nil {
		return reply{}, err
	}
	rep := reply{status: http.StatusOK, partition: p, container: co, items: -1, charge: x.readFactor() * x.cfg.Model.Read(int(head.size))}
	if err := p.afford(x.now, rep.charge); err != nil {
		return reply{}, err
	}
	p.charge(x.now, rep.charge)
	if body == nil {
		f := refusal.NotFound("the item %q does not exist", doc.ID)
		f.Charge, f.Range = rep.charge, p.id
		return reply{}, f
	}
	rep.etag, rep.lsn, rep.body = etagOf(head.version()), lsn, body
	if x.request.Header.Get("If-None-Match") == rep.etag {
		rep.status, rep.body = http.StatusNotModified, nil
	}
	return rep, nil
}

// patchItem serves PATCH of an item.
func (x *exchange) patchItem() (reply, error) {
	h := x.request.Header
	if err := checkDirectives(h); err != nil {
		return reply{}, err
	}
	co, doc, err := x.named()
	if err != nil {
		return reply{}, err
	}
	defer documents.Put(doc)
	body, err := x.readBody(nil)
	if err != nil {
		return reply{}, err
	}
	p, err := patch.Parse(body, &x.queries)
	if err != nil {
		return reply{}, err
	}
	w := write{
		server: x.Server, container: co, revision: co.current.Load(), doc: doc, now: x.now, op: opPatch, patch: p,
		match: h.Get("If-Match"), noneMatch: h.Get("If-None-Match"), minimal: x.minimal(),
	}
	return w.run()
}
