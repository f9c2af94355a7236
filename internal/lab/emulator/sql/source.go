package sql

import (
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/participle/v2/lexer"
)

// maxJoins is the most JOINs of a query (Azure Cosmos DB docs, concepts-limits).
const maxJoins = 10

// name is what a FROM clause calls a source: a path of the item, or the element that a JOIN is at.
type name struct {
	text string
	node node // property or element
}

func (c *compiler) from(f *from) {
	if len(f.Joins) > maxJoins {
		c.fail(f.Joins[maxJoins].Pos, "more than "+strconv.Itoa(maxJoins)+" JOINs in a query")
		return
	}
	c.root(f.Source)
	for _, j := range f.Joins {
		switch {
		case j.Sub != nil && j.Element == "":
			c.joinRows(j)
			continue
		case j.Sub != nil:
			c.fail(j.Pos, "JOIN of the elements of a subquery is not supported")
			return
		case j.Element == "":
			c.fail(j.Pos, "JOIN without IN is not supported")
			return
		}
		c.join(j)
	}
}

// root compiles the first source. The container may have any name.
func (c *compiler) root(s *source) {
	if s.Sub != nil {
		c.fail(s.Pos, "a subquery is not supported")
		return
	}
	called := s.Alias
	if called == "" {
		called = s.Root
		for _, step := range s.Steps {
			called = ""
			if step.Name != "" {
				called = step.Name
			} else if step.Quote != nil {
				called = c.unquote(step.Pos, *step.Quote)
			}
		}
	}
	if s.Element != "" {
		c.names = []name{{s.Root, c.rootPath()}}
		c.join(s)
		c.names = c.names[1:]
		return
	}
	n := c.property(c.steps(s.Steps))
	if len(s.Steps) > 0 { // items without that path give no rows
		c.query.where = append(c.query.where, call{name: "IS_DEFINED", fn: functions["IS_DEFINED"], args: []node{n}})
	}
	c.names = []name{{called, n}}
}

// join compiles x IN path: every element of an array in turn.
func (c *compiler) join(s *source) {
	if s.Alias != "" {
		c.fail(s.Pos, "a second name for the elements of an iteration is not supported")
		return
	}
	if c.isNew(s, s.Element) {
		c.iterate(&c.query.iteration, s.Element, c.path(s.Pos, s.Root, s.Steps))
	}
}

// joinRows compiles a subquery AS x: every row of it in turn. Without a name nothing reads them.
func (c *compiler) joinRows(s *source) {
	if s.Called == "" || c.isNew(s, s.Called) {
		c.iterate(&c.query.iteration, s.Called, c.subquery(&subRef{Pos: s.Pos, Kind: "ARRAY", Text: s.Sub}))
	}
}

func (c *compiler) isNew(s *source, called string) bool {
	for _, n := range c.names {
		if n.text == called {
			c.fail(s.Pos, "two sources are named "+called)
			return false
		}
	}
	return true
}

// path compiles a name with steps after it.
func (c *compiler) path(pos lexer.Position, root string, refs []*stepRef) node {
	fixed := slices.IndexFunc(refs, func(s *stepRef) bool { return s.Param != "" })
	if fixed < 0 {
		fixed = len(refs)
	}
	steps := c.steps(refs[:fixed])
	for _, n := range slices.Backward(c.names) {
		if n.text != root {
			continue
		}
		if value, ok := c.computedProperty(n.node, steps); ok {
			return c.below(value, refs[fixed:])
		}
		if p, ok := n.node.(property); ok {
			base := c.query.paths[p]
			return c.below(c.property(append(base[:len(base):len(base)], steps...)), refs[fixed:])
		}
		return c.below(under(n.node, steps), refs[fixed:])
	}
	var known []string
	for _, n := range c.names {
		known = append(known, n.text)
	}
	c.fail(pos, "the name "+root+" stands for nothing here: there is "+strings.Join(known, ", "))
	return literal{}
}

// below returns the values that steps lead to from any value. A parameter gives the name of a property, or an
// index.
func (c *compiler) below(n node, refs []*stepRef) node {
	for i, s := range refs {
		if s.Param != "" {
			n = chosen{n, c.param(s.Param)}
			continue
		}
		n = under(n, c.steps(refs[i:i+1]))
	}
	return n
}

func under(n node, steps Path) node {
	if len(steps) == 0 {
		return n
	}
	return member{n, steps}
}

func (c *compiler) steps(refs []*stepRef) Path {
	path := make(Path, len(refs))
	for i, s := range refs {
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
	return path
}

func (c *compiler) rootPath() node { return c.property(Path{}) }

func (c *compiler) property(path Path) node {
	if i := slices.IndexFunc(c.query.paths, func(p Path) bool { return slices.Equal(p, path) }); i >= 0 {
		return property(i)
	}
	c.query.paths = append(c.query.paths, path)
	return property(len(c.query.paths) - 1)
}

// Computed are the computed properties of a container: expressions over an item that queries read as if they were
// properties of it.
type Computed map[string]*statement

// Add parses the query of a computed property: SELECT VALUE of an expression, FROM the item. It reports false when the
// text is no such query.
func (c Computed) Add(name, text string) bool {
	q, err := Parse(text)
	if err != nil {
		return false
	}
	s := q.text
	plain := s.Value != nil && s.From != nil && s.Where == nil && !q.Aggregate && !q.Collected() && !q.Limited
	if !plain || len(s.Order) > 0 || len(s.From.Source.Steps) > 0 {
		return false
	}
	c[name] = s
	return true
}

// computedProperty compiles what a path of the item begins with, if that is a computed property.
func (c *compiler) computedProperty(n node, steps Path) (node, bool) {
	if p, ok := n.(property); !ok || len(c.query.paths[p]) > 0 || len(steps) == 0 || steps[0].Element {
		return nil, false
	}
	s := c.computed[steps[0].Name]
	if s == nil {
		return nil, false
	}
	names, computed := c.names, c.computed
	defer func() { c.names, c.computed = names, computed }()
	c.names, c.computed = nil, nil // a computed property reads no other
	c.root(s.From.Source)
	return under(c.expr(s.Value), steps[1:]), true
}
