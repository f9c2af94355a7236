package cosmosemu

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/valyala/fastjson"

	"binnacle/internal/cosmosemu/sql"
)

// maxPatchOps is the most operations of one patch (Azure Cosmos DB docs, partial-document-update-faq).
const maxPatchOps = 10

// patch is a partial update of one item: a condition, and operations that are done in their order, all
// or none.
type patch struct {
	condition *sql.Bound // nil: none
	ops       []patchOp
}

// patchOp is one operation. Its path is that of JSON Pointer, taken apart.
type patchOp struct {
	kind  string // add, set, replace, remove, incr, move
	path  []string
	from  []string        // of move
	value *fastjson.Value // of the others but remove
}

// parsePatch reads the body of a patch: an object with condition and operations, or the bare
// operations, as the JavaScript SDK sends them.
func parsePatch(v *fastjson.Value, queries *sql.Cache) (*patch, error) {
	list := v
	p := &patch{}
	if v.Type() == fastjson.TypeObject {
		list = v.Get("operations")
		if c := v.Get("condition"); c != nil && c.Type() != fastjson.TypeNull {
			var err error
			if p.condition, err = parseCondition(c, queries); err != nil {
				return nil, err
			}
		}
	}
	if list == nil || list.Type() != fastjson.TypeArray {
		return nil, badRequest("a patch is an object with an array named operations, or an array")
	}
	ops := list.GetArray()
	if len(ops) == 0 || len(ops) > maxPatchOps {
		return nil, badRequest("a patch has 1 to %d operations, not %d", maxPatchOps, len(ops))
	}
	for i, o := range ops {
		op, err := parsePatchOp(o)
		if err != nil {
			err.message = "patch operation " + strconv.Itoa(i) + ": " + err.message
			return nil, err
		}
		p.ops = append(p.ops, op)
	}
	return p, nil
}

// conditionPrefix makes a query of a condition, which begins with FROM. It ends the line, so that
// errors name the column of the condition.
const conditionPrefix = "SELECT *\n"

func parseCondition(v *fastjson.Value, queries *sql.Cache) (*sql.Bound, error) {
	if v.Type() != fastjson.TypeString {
		return nil, badRequest("the condition of a patch is not a string")
	}
	q, err := queries.Parse(conditionPrefix + string(v.GetStringBytes()))
	if err != nil {
		var place *sql.Error
		if errors.As(err, &place) && place.Line > 1 {
			moved := *place
			moved.Line--
			err = &moved
		}
		return nil, err
	}
	if len(q.Order) > 0 || q.Limited {
		return nil, badRequest("the condition of a patch has more than FROM and WHERE")
	}
	return q.Bind(nil)
}

func parsePatchOp(v *fastjson.Value) (patchOp, *fault) {
	op := patchOp{kind: strings.ToLower(string(v.GetStringBytes("op"))), value: v.Get("value")}
	var f *fault
	if op.path, f = pointer(v.Get("path"), "path"); f != nil {
		return op, f
	}
	switch op.kind {
	case "add", "set", "replace", "incr":
		if op.value == nil {
			return op, badRequest("%s needs a value; azcosmos drops one that is nil", op.kind)
		}
		if op.kind == "incr" && op.value.Type() != fastjson.TypeNumber {
			return op, badRequest("the value of incr is not a number")
		}
	case "remove":
	case "move":
		if op.from, f = pointer(v.Get("from"), "from"); f != nil {
			return op, f
		}
		if len(op.from) <= len(op.path) && strings.Join(op.from, "/") == strings.Join(op.path[:len(op.from)], "/") {
			return op, badRequest("move has a path that is inside its from")
		}
	default:
		return op, badRequest("the operation %q is none of add, set, replace, remove, incr and move", op.kind)
	}
	return op, nil
}

// pointer takes a JSON Pointer (RFC 6901) apart. It refuses those that an item's identity hangs on.
func pointer(v *fastjson.Value, name string) ([]string, *fault) {
	text := string(v.GetStringBytes())
	if v == nil || v.Type() != fastjson.TypeString || len(text) < 2 || text[0] != '/' {
		return nil, badRequest("its %s is not a JSON pointer, such as /a/0", name)
	}
	steps := strings.Split(text[1:], "/")
	for i, s := range steps {
		steps[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(s)
	}
	if steps[0] == "id" {
		return nil, badRequest("the id of an item cannot be patched")
	}
	for _, s := range system {
		if steps[0] == s {
			return nil, badRequest("the system property %s cannot be patched", s)
		}
	}
	return steps, nil
}

// holds tells whether an item satisfies the condition.
func (p *patch) holds(doc *fastjson.Value) bool {
	if p.condition == nil {
		return true
	}
	row := documentRow{p.condition.Query().Paths(), doc}
	for _, c := range p.condition.Conditions() {
		if !c.True(row) {
			return false
		}
	}
	return true
}

// documentRow is a parsed item as a source of values, for sql.
type documentRow struct {
	paths []sql.Path
	doc   *fastjson.Value
}

func (r documentRow) Value(path int) sql.Value { return r.paths[path].In(r.doc) }

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
	var parser fastjson.Parser
	v, err := parseJSON(&parser, body)
	if err != nil {
		return reply{}, err
	}
	p, err := parsePatch(v, &x.queries)
	if err != nil {
		return reply{}, err
	}
	w := write{
		server: x.Server, container: co, revision: co.current.Load(), doc: doc, now: x.now, op: opPatch, patch: p,
		match: h.Get("If-Match"), noneMatch: h.Get("If-None-Match"), minimal: x.minimal(),
	}
	return w.run()
}

// patched makes the write's document of the stored one and the patch.
func (w *write) patched(from pebble.Reader) error {
	v, closer, err := from.Get(bodyName(nil, w.name))
	if err != nil {
		return fmt.Errorf("read the body of an item: %w", err)
	}
	defer func() { _ = closer.Close() }()
	var parser fastjson.Parser
	doc, err := parser.ParseBytes(v)
	if err != nil {
		return fmt.Errorf("read the body of an item: %w", err)
	}
	if !w.patch.holds(doc) {
		return preconditionFailed()
	}
	if err := w.patch.apply(doc); err != nil {
		return err
	}
	key := slices.Clone(w.doc.key)
	if err := w.doc.parse(withoutSystem(nil, doc.GetObject()), w.revision.definition); err != nil {
		return err
	}
	if !key.equal(w.doc.key) {
		return badRequest("the partition key of an item cannot be patched")
	}
	return nil
}
