package sql

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/alecthomas/participle/v2/lexer"
)

func (c *compiler) operand(o *operand) node {
	if o.Minus && o.Number == "" {
		c.fail(o.Pos, "the operator - is supported before a number only")
		return literal{}
	}
	switch {
	case o.Number != "":
		f, err := strconv.ParseFloat(o.Number, 64)
		if err != nil {
			c.fail(o.Pos, o.Number+" is not a number")
		}
		if o.Minus {
			f = -f
		}
		return literal{NumberValue(f)}
	case o.Str != nil:
		return literal{StringValue([]byte(c.unquote(o.Pos, *o.Str)))}
	case o.Const != "":
		return literal{constants[strings.ToUpper(o.Const)]}
	case o.Param != "":
		return c.param(o.Param)
	case o.Call != nil:
		return c.call(o.Call)
	case o.Path != nil:
		return c.path(o.Path)
	default:
		return c.expr(o.Sub)
	}
}

var constants = map[string]Value{
	"TRUE": BoolValue(true), "FALSE": BoolValue(false), "NULL": NullValue(), "UNDEFINED": {},
}

func (c *compiler) call(r *callRef) node {
	name := strings.ToUpper(r.Name)
	fn, ok := functions[name]
	switch {
	case aggregates[name] != "":
		c.fail(r.Pos, "the aggregate "+name+" is supported at the top of a select list only")
	case !ok:
		c.fail(r.Pos, "the function "+r.Name+" is not supported")
	case r.Star || len(r.Args) < fn.min || len(r.Args) > fn.max:
		c.fail(r.Pos, name+" takes "+arity(fn))
	}
	if c.err != nil {
		return literal{}
	}
	n := call{name: name, fn: fn}
	for _, a := range r.Args {
		n.args = append(n.args, c.expr(a))
	}
	return n
}

func arity(fn function) string {
	if fn.min == fn.max {
		return strconv.Itoa(fn.min) + " argument(s)"
	}
	return strconv.Itoa(fn.min) + " to " + strconv.Itoa(fn.max) + " arguments"
}

func (c *compiler) path(r *pathRef) node {
	if r.Root != c.alias {
		c.fail(r.Pos, "the name "+r.Root+" stands for nothing here: items are named "+c.alias)
		return literal{}
	}
	path := make(Path, len(r.Steps))
	for i, s := range r.Steps {
		switch {
		case s.Name != "":
			path[i] = Step{Name: s.Name}
		case s.Quote != nil:
			path[i] = Step{Name: c.unquote(s.Pos, *s.Quote)}
		case s.Param != "":
			c.fail(s.Pos, "a parameter as the name of a property is not supported")
		default:
			n, err := strconv.Atoi(s.Index)
			if err != nil {
				c.fail(s.Pos, s.Index+" is not an index")
			}
			path[i] = Step{Element: true, Index: n}
		}
	}
	for i, p := range c.query.paths {
		if same(p, path) {
			return property(i)
		}
	}
	c.query.paths = append(c.query.paths, path)
	return property(len(c.query.paths) - 1)
}

func same(a, b Path) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// unquote reads a string literal: JSON's escapes, in either kind of quotes.
func (c *compiler) unquote(pos lexer.Position, quoted string) string {
	body := quoted[1 : len(quoted)-1]
	if !strings.ContainsRune(body, '\\') {
		return body
	}
	text := strings.Builder{}
	for i := 0; i < len(body); i++ {
		switch {
		case body[i] == '"':
			text.WriteString(`\"`)
		case body[i] == '\\' && body[i+1] == '\'':
			i++
			text.WriteByte('\'')
		case body[i] == '\\':
			text.WriteString(body[i : i+2])
			i++
		default:
			text.WriteByte(body[i])
		}
	}
	var out string
	if err := json.Unmarshal([]byte(`"`+text.String()+`"`), &out); err != nil {
		c.fail(pos, quoted+" is not a string: its escapes are not JSON's")
	}
	return out
}

// soleCall is the function call that an expression consists of, or nil.
func soleCall(e *expr) *callRef {
	if t := soleTerm(e); t != nil {
		return t.Left.Call
	}
	return nil
}

// soleTerm is the operand that an expression consists of, or nil.
func soleTerm(e *expr) *comparison {
	if len(e.Or) != 1 || len(e.Or[0].And) != 1 {
		return nil
	}
	n := e.Or[0].And[0]
	if len(n.Not) > 0 || n.Term.Op != "" || n.Term.In != nil || n.Term.Between != nil || n.Term.Left.Minus {
		return nil
	}
	return n.Term
}

func firstPos(e *expr) lexer.Position { return e.Or[0].And[0].Term.Left.Pos }
