package emulator

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/valyala/fastjson"

	"binnacle/internal/lab/emulator/engine"
	"binnacle/internal/lab/emulator/jsonvalue"
	"binnacle/internal/lab/emulator/refusal"
)

// maxBatchOps is the most operations of a transactional batch (Azure Cosmos DB docs,
// transactional-batch).
const maxBatchOps = 100

var operations = map[string]engine.Operation{
	"Create": engine.OpCreate, "Upsert": engine.OpUpsert, "Replace": engine.OpReplace,
	"Delete": engine.OpDelete, "Patch": engine.OpPatch, "Read": engine.OpRead,
}

func (x *exchange) executeBatch(co *engine.Container) (reply, error) {
	h := x.request.Header
	atomic := h.Get("X-Ms-Cosmos-Batch-Atomic")
	if err := checkDirectives(h); err != nil {
		return reply{}, err
	}
	steps, keys, err := x.batchBody()
	if err != nil {
		return reply{}, err
	}
	var res engine.Result
	var outcomes []engine.Outcome
	bulk := atomic != "" && !isTrue(atomic)
	switch {
	case bulk:
		res, outcomes, err = co.Bulk(x.call(), engine.Bulk{
			Key: h.Get(hKey), Keys: keys, Requests: steps, GoOn: isTrue(h.Get("X-Ms-Cosmos-Batch-Continue-On-Error")),
		})
	case h.Get(hKey) == "":
		return reply{}, refusal.BadRequest("a transactional batch needs a partition key")
	default:
		res, outcomes, err = co.Transact(x.call(), h.Get(hKey), steps)
	}
	if err != nil {
		return reply{}, err
	}
	rep := x.itemReply(co, res)
	failed := slices.ContainsFunc(outcomes, func(o engine.Outcome) bool { return o.Refused != nil })
	if failed {
		rep.status = http.StatusMultiStatus
		rep.header = http.Header{}
		for _, o := range outcomes {
			if !bulk && o.Refused != nil && o.Refused.Substatus != 0 {
				rep.header[hSubstatus] = []string{strconv.Itoa(o.Refused.Substatus)}
			}
		}
	}
	rep.body = []byte{'['}
	for i, o := range outcomes {
		if i > 0 {
			rep.body = append(rep.body, ',')
		}
		rep.body = append(rep.body, outcomeJSON(steps[i].Op, o, failed && !bulk)...)
	}
	rep.body = append(rep.body, ']')
	return rep, nil
}

func (x *exchange) batchBody() (steps []engine.Write, keys []string, err error) {
	body, err := x.readBody(nil)
	if err != nil {
		return nil, nil, err
	}
	var parser fastjson.Parser
	v, err := jsonvalue.Parse(&parser, body)
	if err != nil {
		return nil, nil, err
	}
	if v.Type() != fastjson.TypeArray {
		return nil, nil, refusal.BadRequest("the body of a batch is not an array")
	}
	list := v.GetArray()
	switch n := len(list); {
	case n == 0:
		return nil, nil, refusal.BadRequest("Batch request has no operations.")
	case n > maxBatchOps:
		return nil, nil, refusal.BadRequest("Batch request has more operations than what is supported. %d, of at most %d",
			n, maxBatchOps)
	}
	steps = make([]engine.Write, len(list))
	keys = make([]string, len(list))
	for i, v := range list {
		name := string(v.GetStringBytes("operationType"))
		op, known := operations[name]
		if !known {
			return nil, nil, refusal.BadRequest(
				"the operationType %q is none of Create, Upsert, Replace, Delete, Read and Patch", name)
		}
		steps[i] = engine.Write{
			Op: op, ID: string(v.GetStringBytes("id")), Minimal: x.minimal(),
			Match: string(v.GetStringBytes("ifMatch")), NoneMatch: string(v.GetStringBytes("ifNoneMatch")),
		}
		keys[i] = string(v.GetStringBytes("partitionKey"))
		if body := v.Get("resourceBody"); body != nil {
			steps[i].Body = jsonvalue.Append(nil, body)
		}
	}
	return steps, keys, nil
}

// outcomeJSON returns what came of an operation. When one has failed, the others are said to have failed by it.
func outcomeJSON(op engine.Operation, o engine.Outcome, failed bool) (out []byte) {
	status, charge := writeStatus(op, o.Created), o.Charge
	switch {
	case o.Refused != nil:
		status, charge = o.Refused.Status, o.Refused.Charge
	case failed:
		status, charge = http.StatusFailedDependency, 0
	}
	out = strconv.AppendInt(append(out, `{"statusCode":`...), int64(status), 10)
	out = strconv.AppendFloat(append(out, `,"requestCharge":`...), charge, 'g', -1, 64)
	if !failed && o.ETag != "" {
		out = jsonvalue.AppendString(append(out, `,"eTag":`...), []byte(o.ETag))
	}
	if !failed && o.Body != nil {
		out = append(append(out, `,"resourceBody":`...), o.Body...)
	}
	return append(out, '}')
}
