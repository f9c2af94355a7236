package cosmosemu

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/cockroachdb/pebble/v2"
	"github.com/valyala/fastjson"

	"binnacle/internal/cosmosemu/jsontext"
	"binnacle/internal/cosmosemu/patch"
	"binnacle/internal/cosmosemu/refusal"
	"binnacle/internal/cosmosemu/schema"
	"binnacle/internal/cosmosemu/sql"
)

// maxBatchOps is the most operations of a transactional batch (Azure Cosmos DB docs,
// transactional-batch).
const maxBatchOps = 100

// batch is a transactional batch: operations on one logical partition, done in their order, all or
// none.
type batch struct {
	server    *Server
	container *container
	partition *partition
	steps     []*batchStep

	charge float64
	count  counters // of the partition, after it
}

// batchStep is one operation and its result.
type batchStep struct {
	write
	read  bool
	fault *refusal.Error // that it failed with
	body  []byte         // of its answer
}

// operations are the names of the writes of a batch.
var operations = map[string]operation{
	"Create": opCreate, "Upsert": opUpsert, "Replace": opReplace, "Delete": opDelete, "Patch": opPatch,
}

// executeBatch serves a transactional batch.
func (x *exchange) executeBatch() (reply, error) {
	h := x.request.Header
	if atomic := h.Get("X-Ms-Cosmos-Batch-Atomic"); atomic != "" && !isTrue(atomic) {
		return reply{}, refusal.Unsupported("a batch that is not atomic")
	}
	if err := checkDirectives(h); err != nil {
		return reply{}, err
	}
	co, err := x.catalog.find(x.route.database, x.route.container)
	if err != nil {
		return reply{}, err
	}
	if h.Get("X-Ms-Documentdb-Partitionkey") == "" {
		return reply{}, refusal.BadRequest("a transactional batch needs a partition key")
	}
	list, err := x.batchBody()
	if err != nil {
		return reply{}, err
	}
	b := batch{server: x.Server, container: co}
	defer b.release()
	for _, v := range list {
		s, err := x.batchStep(co, v)
		if err != nil {
			return reply{}, err
		}
		b.steps = append(b.steps, s)
	}
	return b.run(x)
}

// batchBody reads the operations of a batch.
func (x *exchange) batchBody() ([]*fastjson.Value, error) {
	body, err := x.readBody(nil)
	if err != nil {
		return nil, err
	}
	var parser fastjson.Parser
	v, err := jsontext.Parse(&parser, body)
	if err != nil {
		return nil, err
	}
	if v.Type() != fastjson.TypeArray {
		return nil, refusal.BadRequest("the body of a batch is not an array")
	}
	list := v.GetArray()
	if len(list) == 0 || len(list) > maxBatchOps {
		return nil, refusal.BadRequest("a batch has 1 to %d operations, not %d", maxBatchOps, len(list))
	}
	return list, nil
}

// batchStep prepares one operation. What is wrong with the batch is an error; what is wrong with the
// item becomes the step's fault.
func (x *exchange) batchStep(co *container, v *fastjson.Value) (*batchStep, error) {
	name := string(v.GetStringBytes("operationType"))
	op, known := operations[name]
	if !known && name != "Read" {
		return nil, refusal.BadRequest("the operationType %q is none of Create, Upsert, Replace, Delete, Read and Patch", name)
	}
	s := &batchStep{read: !known, write: write{
		server: x.Server, container: co, revision: co.current.Load(), doc: documents.Get().(*document), now: x.now, op: op,
		match: string(v.GetStringBytes("ifMatch")), noneMatch: string(v.GetStringBytes("ifNoneMatch")), minimal: x.minimal() || op == opDelete,
	}}
	key, err := x.fullKey(s.revision.Definition, s.doc)
	if err != nil {
		documents.Put(s.doc)
		return nil, err
	}
	s.doc.Key = append(s.doc.Key[:0], key...)
	s.doc.ID = append(s.doc.ID[:0], v.GetStringBytes("id")...)
	if err := s.prepare(v.Get("resourceBody"), key, &x.queries); err != nil {
		s.fault = refusal.Of(err)
	}
	return s, nil
}

// prepare takes the body of an operation apart.
func (s *batchStep) prepare(body *fastjson.Value, key schema.Key, queries *sql.Cache) (err error) {
	id := string(s.doc.ID)
	if s.op == opReplace || s.op == opDelete || s.op == opPatch || s.read {
		if err := schema.CheckID(id); err != nil {
			return err
		}
	}
	switch {
	case s.read || s.op == opDelete:
		return nil
	case body == nil:
		return refusal.BadRequest("the operation has no resourceBody")
	case s.op == opPatch:
		s.patch, err = patch.Parse(jsontext.Append(nil, body), queries)
		return err
	}
	s.doc.request = jsontext.Append(s.doc.request[:0], body)
	if err := s.doc.Parse(s.doc.request, s.revision.Definition); err != nil {
		return err
	}
	if !key.Equal(s.doc.Key) {
		return refusal.KeyMismatch("the partition key of the batch is not that of the item")
	}
	if s.op == opReplace && string(s.doc.ID) != id {
		return refusal.BadRequest("the id %q of the item is not that of the operation, %q", s.doc.ID, id)
	}
	return nil
}

func (b *batch) release() {
	for _, s := range b.steps {
		documents.Put(s.doc)
	}
}

// run does the batch: under the lock of the physical partition up to the change, outside it the wait
// for the log.
func (b *batch) run(x *exchange) (reply, error) {
	for _, s := range b.steps {
		s.name = s.doc.name(b.container.number)
	}
	changes, err := b.locked(x)
	if err != nil {
		f := refusal.Of(err)
		f.Range = b.partition.id
		return reply{}, f
	}
	rep := reply{status: http.StatusOK, charge: b.charge, partition: b.partition, container: b.container, lsn: b.count.lsn, items: -1}
	if changes != nil {
		err = b.server.store.wait(changes)
	} else {
		rep.status = http.StatusMultiStatus
		err = b.server.store.settle()
	}
	if err != nil {
		return reply{}, fmt.Errorf("log a batch: %w", err)
	}
	rep.body = b.results()
	return rep, nil
}

// locked gives the applied changes, or nil when an operation has failed and nothing was changed.
func (b *batch) locked(x *exchange) (*pebble.Batch, error) {
	p := b.container.lock(b.steps[0].name[prefixLen:])
	defer p.mu.Unlock()
	b.partition = p
	if b.container.deleted.Load() {
		return nil, refusal.NotFound("the container was deleted")
	}
	if err := p.admit(x.now); err != nil {
		return nil, err
	}
	st := b.server.store
	changes := st.db.NewIndexedBatch()
	done, err := b.stage(changes, p)
	if err == nil && done {
		err = p.afford(x.now, b.charge)
	}
	if err == nil && done {
		err = st.apply(changes)
	}
	if err != nil || !done {
		_ = changes.Close() // releases memory only
		if err != nil {
			return nil, fmt.Errorf("write a batch: %w", err)
		}
		b.count = p.count
		p.charge(x.now, b.charge)
		return nil, nil
	}
	p.counted(b.count)
	p.charge(x.now, b.charge)
	for _, s := range b.steps {
		if !s.read {
			s.noteExpiry()
		}
	}
	return changes, nil
}

// stage does the operations on top of one another, each seeing those before it. It stops at the first
// that fails; a batch with an operation that cannot succeed at all is not begun.
func (b *batch) stage(changes *pebble.Batch, p *partition) (bool, error) {
	if slices.ContainsFunc(b.steps, func(s *batchStep) bool { return s.fault != nil }) {
		b.charge = b.server.cfg.Model.Read(0)
		return false, nil
	}
	b.count = p.count
	size, writes := 0, 0
	for _, s := range b.steps {
		s.partition, s.position = p, writes
		if !s.read {
			writes++
		}
		next, err := s.stage(changes, b.count)
		if err != nil {
			f := refusal.Of(err)
			if !refusal.Is(err) {
				return false, err
			}
			s.fault = f
		} else if size += len(s.body); size > maxPageBytes {
			s.fault = refusal.TooLarge("the answer to the batch is larger than 4 MB")
			s.fault.Charge = s.charge
		}
		if s.fault != nil {
			b.charge += s.fault.Charge
			return false, nil
		}
		b.count = next
		b.charge += s.charge
	}
	return true, nil
}

func (s *batchStep) stage(changes *pebble.Batch, count counters) (counters, error) {
	if s.read {
		return count, s.readFrom(changes)
	}
	next, err := s.write.stage(changes, changes, count)
	if err == nil && !s.minimal {
		s.body = slices.Clone(s.doc.value)
	}
	return next, err
}

func (s *batchStep) readFrom(from pebble.Reader) error {
	_, alive, err := readHeader(from, s.name, &s.old, s.revision.TTL, s.now)
	if err != nil {
		return err
	}
	s.charge = s.server.cfg.Model.Read(int(s.old.size))
	if !alive {
		f := refusal.NotFound("the item %q does not exist", s.doc.ID)
		f.Charge = s.charge
		return f
	}
	v, closer, err := from.Get(bodyName(nil, s.name))
	if err != nil {
		return fmt.Errorf("read the body of an item: %w", err)
	}
	s.body = slices.Clone(v)
	return closer.Close()
}

// results is the body of the answer: what came of every operation. When one has failed, the others
// are said to have failed by it.
func (b *batch) results() []byte {
	failed := slices.ContainsFunc(b.steps, func(s *batchStep) bool { return s.fault != nil })
	out := []byte{'['}
	for i, s := range b.steps {
		if i > 0 {
			out = append(out, ',')
		}
		out = s.appendResult(out, failed)
	}
	return append(out, ']')
}

func (s *batchStep) appendResult(out []byte, failed bool) []byte {
	status, charge, etag := s.status(), s.charge, ""
	switch {
	case s.fault != nil:
		status, charge = s.fault.Status, s.fault.Charge
	case failed:
		status, charge = http.StatusFailedDependency, 0
	case s.read:
		status, etag = http.StatusOK, etagOf(s.old.version())
	case s.op != opDelete:
		etag = etagOf(s.fresh.version())
	}
	out = strconv.AppendInt(append(out, `{"statusCode":`...), int64(status), 10)
	if s.fault != nil && s.fault.Substatus != 0 {
		out = strconv.AppendInt(append(out, `,"subStatusCode":`...), int64(s.fault.Substatus), 10)
	}
	out = strconv.AppendFloat(append(out, `,"requestCharge":`...), charge, 'f', -1, 32)
	if etag != "" {
		out = jsontext.AppendString(append(out, `,"eTag":`...), []byte(etag))
	}
	if s.body != nil && !failed {
		out = append(append(out, `,"resourceBody":`...), s.body...)
	}
	if s.fault != nil {
		out = jsontext.AppendString(append(out, `,"message":`...), []byte(s.fault.Message))
	}
	return append(out, '}')
}
