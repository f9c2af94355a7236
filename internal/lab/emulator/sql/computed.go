package sql

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
