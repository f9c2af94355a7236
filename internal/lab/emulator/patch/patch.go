// Package patch has partial updates of one item: a condition, and operations on JSON pointers, done to a parsed
// document all or none. It must not know where the document comes from, nor what becomes of it.
package patch

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"binnacle/internal/lab/emulator/jsonvalue"
	"binnacle/internal/lab/emulator/refusal"
	"binnacle/internal/lab/emulator/schema"
	"binnacle/internal/lab/emulator/sql"

	"github.com/valyala/fastjson"
)

// maxOps is the most operations of one patch (Azure Cosmos DB docs, partial-document-update-faq).
const maxOps = 10

// Patch is a partial update of one item: a condition, and operations that are done in their order, all
// or none.
type Patch struct {
	condition *sql.Bound // nil: none
	ops       []operation
}

// operation is one operation. Its path is that of JSON Pointer, taken apart.
type operation struct {
	kind string // add, set, replace, remove, incr, move
	path []string
	// from is the source path of a move.
	from []string
	// value is the operand of all operations but move and remove.
	value *fastjson.Value
}

// Parse reads the body of a patch: an object with condition and operations, or the bare
// operations, as the JavaScript SDK sends them.
func Parse(body []byte, queries *sql.Cache) (*Patch, error) {
	var parser fastjson.Parser // its memory holds the values of the patch
	v, err := jsonvalue.Parse(&parser, body)
	if err != nil {
		return nil, err
	}
	list := v
	p := &Patch{}
	if v.Type() == fastjson.TypeObject {
		list = v.Get("operations")
		if c := v.Get("condition"); c != nil && c.Type() != fastjson.TypeNull {
			if p.condition, err = parseCondition(c, queries); err != nil {
				return nil, err
			}
		}
	}
	if list == nil || list.Type() != fastjson.TypeArray {
		return nil, refusal.BadRequest("a patch is an object with an array named operations, or an array")
	}
	ops := list.GetArray()
	if len(ops) == 0 || len(ops) > maxOps {
		return nil, refusal.BadRequest("a patch has 1 to %d operations, not %d", maxOps, len(ops))
	}
	for i, o := range ops {
		op, err := parseOperation(o)
		if err != nil {
			err.Message = "patch operation " + strconv.Itoa(i) + ": " + err.Message
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
		return nil, refusal.BadRequest("the condition of a patch is not a string")
	}
	q, err := queries.Parse(conditionPrefix + string(v.GetStringBytes()))
	if err != nil {
		if place, ok := errors.AsType[*sql.Error](err); ok && place.Line > 1 {
			moved := *place
			moved.Line--
			err = &moved
		}
		return nil, err
	}
	if len(q.Order) > 0 || q.Limited {
		return nil, refusal.BadRequest("the condition of a patch has more than FROM and WHERE")
	}
	return q.Bind(nil)
}

func parseOperation(v *fastjson.Value) (operation, *refusal.Error) {
	op := operation{kind: strings.ToLower(string(v.GetStringBytes("op"))), value: v.Get("value")}
	var f *refusal.Error
	if op.path, f = pointer(v.Get("path"), "path"); f != nil {
		return op, f
	}
	switch op.kind {
	case "add", "set", "replace", "incr":
		if op.value == nil {
			return op, refusal.BadRequest("%s needs a value; azcosmos drops one that is nil", op.kind)
		}
		if op.kind == "incr" && op.value.Type() != fastjson.TypeNumber {
			return op, refusal.BadRequest("the value of incr is not a number")
		}
	case "remove":
	case "move":
		if op.from, f = pointer(v.Get("from"), "from"); f != nil {
			return op, f
		}
		if len(op.from) <= len(op.path) && strings.Join(op.from, "/") == strings.Join(op.path[:len(op.from)], "/") {
			return op, refusal.BadRequest("move has a path that is inside its from")
		}
	default:
		return op, refusal.BadRequest("the operation %q is none of add, set, replace, remove, incr and move", op.kind)
	}
	return op, nil
}

// pointer splits a JSON Pointer (RFC 6901) into its steps. It refuses pointers to the id or to a system
// property.
func pointer(v *fastjson.Value, name string) ([]string, *refusal.Error) {
	text := string(v.GetStringBytes())
	if v == nil || v.Type() != fastjson.TypeString || len(text) < 2 || text[0] != '/' {
		return nil, refusal.BadRequest("its %s is not a JSON pointer, such as /a/0", name)
	}
	steps := strings.Split(text[1:], "/")
	for i, s := range steps {
		steps[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(s)
	}
	if steps[0] == "id" {
		return nil, refusal.BadRequest("the id of an item cannot be patched")
	}
	if schema.IsSystem(steps[0]) {
		return nil, refusal.BadRequest("the system property %s cannot be patched", steps[0])
	}
	return steps, nil
}

// Operations returns how many operations the patch has.
func (p *Patch) Operations() int { return len(p.ops) }

// Holds reports whether an item satisfies the condition.
func (p *Patch) Holds(doc *fastjson.Value) bool {
	if p.condition == nil {
		return true
	}
	row := p.condition.Query().Row(doc)
	return !slices.ContainsFunc(p.condition.Conditions(), func(c sql.Condition) bool { return !c.True(row) })
}
