package sql

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/participle/v2/lexer"
	"github.com/valyala/fastjson"
)

// term compiles an operand with its signs, without the NOTs before it.
func (c *compiler) term(t *term) node {
	var n node
	if t.Name != "" {
		n = c.path(t.Pos, t.Name, t.Steps)
	} else {
		n = c.below(c.primary(t), t.Steps)
	}
	for i := len(t.Sign) - 1; i >= 0; i-- {
		l, ok := n.(literal)
		switch {
		case ok && l.value.kind == Number && t.Sign[i] == "-":
			n = literal{NumberValue(-l.value.num)}
		case ok && l.value.kind == Number:
		default:
			n = arithmetic{t.Sign[i][0], literal{NumberValue(0)}, n}
		}
	}
	return n
}

func (c *compiler) primary(t *term) node {
	switch {
	case t.Number != "":
		f, err := strconv.ParseFloat(t.Number, 64)
		if err != nil {
			c.fail(t.Pos, t.Number+" is not a number")
		}
		return literal{NumberValue(f)}
	case t.Str != nil:
		return literal{StringValue([]byte(c.unquote(t.Pos, *t.Str)))}
	case t.Const != "":
		return literal{constants[strings.ToUpper(t.Const)]}
	case t.Param != "":
		return c.param(t.Param)
	case t.Call != nil:
		return c.call(t.Call)
	case t.Query != nil:
		return c.subquery(t.Query)
	case t.Object != nil:
		return c.object(t.Object)
	case t.Array != nil:
		n := array{}
		for _, e := range t.Array.Elements {
			n.elements = append(n.elements, c.expr(e))
		}
		return n
	default:
		return c.expr(t.Sub)
	}
}

var constants = map[string]Value{
	"TRUE": BoolValue(true), "FALSE": BoolValue(false), "NULL": NullValue(), "UNDEFINED": {},
}

func (c *compiler) object(o *objectRef) node {
	n := object{}
	for _, f := range o.Fields {
		name := f.Name
		if f.Quote != nil {
			name = c.unquote(f.Pos, *f.Quote)
		}
		if slices.Contains(n.names, name) {
			c.fail(f.Pos, "two properties are named "+name)
		}
		n.names = append(n.names, name)
		n.values = append(n.values, c.expr(f.Value))
	}
	return n
}

func (c *compiler) call(r *callRef) node {
	name := strings.ToUpper(r.Name)
	if aggregates[name] != "" {
		return c.aggregate(r, name)
	}
	fn, ok := functions[name]
	switch {
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

func (c *compiler) aggregate(r *callRef, name string) node {
	switch {
	case !c.selecting:
		c.fail(r.Pos, "the aggregate "+name+" is supported in a select list only")
	case c.aggregating:
		c.fail(r.Pos, "the aggregate "+name+" inside another is not supported")
	case len(r.Args) != 1:
		c.fail(r.Pos, name+" takes one argument")
	}
	if c.err != nil {
		return literal{}
	}
	c.aggregating = true
	arg := c.expr(r.Args[0])
	c.aggregating = false
	*c.totals = append(*c.totals, aggregateCall{name, arg})
	return aggregated(len(*c.totals) - 1)
}

func arity(fn *function) string {
	if fn.min == fn.max {
		return strconv.Itoa(fn.min) + " argument(s)"
	}
	return strconv.Itoa(fn.min) + " to " + strconv.Itoa(fn.max) + " arguments"
}

// inDouble turns the content of a string in either kind of quotes into the form that JSON has in double quotes.
var inDouble = strings.NewReplacer(`\\`, `\\`, `\'`, `'`, `\"`, `\"`, `"`, `\"`)

// unquote reads a string literal: JSON's escapes, in either kind of quotes.
func (c *compiler) unquote(pos lexer.Position, quoted string) string {
	body := quoted[1 : len(quoted)-1]
	if !strings.ContainsRune(body, '\\') {
		return body
	}
	var out string
	if err := json.Unmarshal([]byte(`"`+inDouble.Replace(body)+`"`), &out); err != nil {
		c.fail(pos, quoted+" is not a string: its escapes are not JSON's")
	}
	return out
}

// printed returns a part of a query as plans quote it: the text as it was sent, but for comments, white space and the
// case of key words.
func printed(text string) string {
	lex, err := tokens.LexString("", text)
	if err != nil {
		return text
	}
	all, err := lexer.ConsumeAll(lex)
	if err != nil {
		return text
	}
	kinds := lexer.SymbolsByRune(tokens)
	out := strings.Builder{}
	last, lastKind, tight := "", "", true // tight: no space between the last token and the next
	for _, t := range all {
		kind, word := kinds[t.Type], t.Value
		switch {
		case kind == "Space" || t.EOF():
			continue
		case kind == "Keyword":
			word = strings.ToUpper(word)
			if _, ok := constants[word]; ok {
				word = strings.ToLower(word)
			}
		}
		operand := lastKind == "Ident" || strings.HasSuffix(last, ")") || strings.HasSuffix(last, "]")
		opens := (word == "(" && kind == "Symbol" || word == "[") && (operand || last == "ARRAY" || last == "EXISTS")
		if !tight && !opens && !strings.Contains(",.:)]}", word) {
			out.WriteByte(' ')
		}
		out.WriteString(word)
		sign := (word == "-" || word == "+") && !operand && !slices.Contains([]string{"Number", "String", "Param"}, lastKind)
		tight = sign || kind == "Symbol" && strings.Contains("([{.", word)
		last, lastKind = word, kind
	}
	return out.String()
}

func (o *ordered) descending() bool { return strings.EqualFold(o.Dir, "DESC") }

// object and array are literals of the language: what they hold is evaluated for every row. What is
// undefined is left out.
type object struct {
	names  []string
	values []node
}

type array struct{ elements []node }

func (n object) eval(e *env) Value {
	var arena fastjson.Arena
	out := arena.NewObject()
	for i, v := range n.values {
		if v := v.eval(e); v.kind != Undefined {
			out.Set(n.names[i], v.json(&arena))
		}
	}
	return Value{kind: Object, node: out}
}

func (n array) eval(e *env) Value {
	var arena fastjson.Arena
	out := arena.NewArray()
	i := 0
	for _, v := range n.elements {
		if v := v.eval(e); v.kind != Undefined {
			out.SetArrayItem(i, v.json(&arena))
			i++
		}
	}
	return Value{kind: Array, node: out}
}

func (n object) children() []node { return n.values }
func (n array) children() []node  { return n.elements }

func (v Value) json(arena *fastjson.Arena) *fastjson.Value {
	switch {
	case v.node != nil:
		return v.node
	case v.kind == String:
		return arena.NewStringBytes(v.str)
	case v.kind == Number:
		return arena.NewNumberString(string(appendNumber(nil, v.num)))
	case v.kind == Null:
		return arena.NewNull()
	case v.True():
		return arena.NewTrue()
	default:
		return arena.NewFalse()
	}
}
