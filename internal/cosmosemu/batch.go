package cosmosemu

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/valyala/fastjson"

	"binnacle/internal/cosmosemu/engine"
	"binnacle/internal/cosmosemu/jsonvalue"
	"binnacle/internal/cosmosemu/refusal"
)

// maxBatchOps is the most operations of a transactional batch (Azure Cosmos DB docs,
// transactional-batch).
const maxBatchOps = 100

// operations are the names of the operations of a batch.
var operations = map[string]engine.Operation{
	"Create": engine.OpCreate, "Upsert": engine.OpUpsert, "Replace": engine.OpReplace,
	"Delete": engine.OpDelete, "Patch": engine.OpPatch, "Read": engine.OpRead,
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
	co, err := x.container()
	if err != nil {
		return reply{}, err
	}
	if h.Get(hKey) == "" {
		return reply{}, refusal.BadRequest("a transactional batch needs a partition key")
	}
	steps, err := x.batchBody()
	if err != nil {
		return reply{}, err
	}
	res, outcomes, err := co.Transact(x.call(), h.Get(hKey), steps)
	if err != nil {
		return reply{}, err
	}
	rep := x.itemReply(co, res)
	failed := slices.ContainsFunc(outcomes, func(o engine.Outcome) bool { return o.Refused != nil })
	if failed {
		rep.status = http.StatusMultiStatus
	}
	rep.body = []byte{'['}
	for i, o := range outcomes {
		if i > 0 {
			rep.body = append(rep.body, ',')
		}
		rep.body = appendOutcome(rep.body, steps[i].Op, o, failed)
	}
	rep.body = append(rep.body, ']')
	return rep, nil
}

// batchBody reads the operations of a batch.
func (x *exchange) batchBody() ([]engine.Write, error) {
	body, err := x.readBody(nil)
	if err != nil {
		return nil, err
	}
	var parser fastjson.Parser
	v, err := jsonvalue.Parse(&parser, body)
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
	steps := make([]engine.Write, len(list))
	for i, v := range list {
		name := string(v.GetStringBytes("operationType"))
		op, known := operations[name]
		if !known {
			return nil, refusal.BadRequest(
				"the operationType %q is none of Create, Upsert, Replace, Delete, Read and Patch", name)
		}
		steps[i] = engine.Write{
			Op: op, ID: string(v.GetStringBytes("id")), Minimal: x.minimal(),
			Match: string(v.GetStringBytes("ifMatch")), NoneMatch: string(v.GetStringBytes("ifNoneMatch")),
		}
		if body := v.Get("resourceBody"); body != nil {
			steps[i].Body = jsonvalue.Append(nil, body)
		}
	}
	return steps, nil
}

// appendOutcome appends what came of an operation. When one has failed, the others are said to have
// failed by it.
func appendOutcome(out []byte, op engine.Operation, o engine.Outcome, failed bool) []byte {
	status, charge := writeStatus(op, o.Created), o.Charge
	switch {
	case o.Refused != nil:
		status, charge = o.Refused.Status, o.Refused.Charge
	case failed:
		status, charge = http.StatusFailedDependency, 0
	}
	out = strconv.AppendInt(append(out, `{"statusCode":`...), int64(status), 10)
	if o.Refused != nil && o.Refused.Substatus != 0 {
		out = strconv.AppendInt(append(out, `,"subStatusCode":`...), int64(o.Refused.Substatus), 10)
	}
	out = strconv.AppendFloat(append(out, `,"requestCharge":`...), charge, 'f', -1, 32)
	if !failed && o.ETag != "" {
		out = jsonvalue.AppendString(append(out, `,"eTag":`...), []byte(o.ETag))
	}
	if !failed && o.Body != nil {
		out = append(append(out, `,"resourceBody":`...), o.Body...)
	}
	if o.Refused != nil {
		out = jsonvalue.AppendString(append(out, `,"message":`...), []byte(o.Refused.Message))
	}
	return append(out, '}')
}
