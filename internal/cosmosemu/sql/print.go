package sql

import "strings"

// The functions below write expressions as plans quote them: the text as it was sent, but for white space and the
// case of key words.

func printList[T any](list []T, one func(T) string) string {
	parts := make([]string, len(list))
	for i, e := range list {
		parts[i] = one(e)
	}
	return strings.Join(parts, ", ")
}

func (e *expr) print() string {
	parts := make([]string, len(e.Terms))
	for i, t := range e.Terms {
		parts[i] = t.print()
	}
	text := strings.Join(parts, " ?? ")
	if e.Then != nil {
		text += " ? " + e.Then.print() + " : " + e.Else.print()
	}
	return text
}

func (c *chain) print() string {
	text := c.First.print()
	for _, l := range c.Rest {
		if l.Test != nil {
			text += l.Test.print()
			continue
		}
		text += " " + strings.ToUpper(l.Op) + " " + l.Right.print()
	}
	return text
}

func (t *test) print() string {
	text := " "
	if t.Not {
		text = " NOT "
	}
	switch {
	case t.Between != nil:
		return text + "BETWEEN " + t.Between.Low.print() + " AND " + t.Between.High.print()
	case t.Like != nil:
		text += "LIKE " + t.Like.Pattern.print()
		if t.Like.Escape != nil {
			text += " ESCAPE " + *t.Like.Escape
		}
		return text
	}
	return text + "IN (" + printList(t.In, (*expr).print) + ")"
}

func (s *sum) print() string {
	text := s.First.print()
	for _, a := range s.Rest {
		text += " " + a.Op + " " + a.Right.print()
	}
	return text
}

func (t *term) print() string {
	text := strings.Repeat("NOT ", len(t.Not)) + strings.Join(t.Sign, "")
	switch {
	case t.Number != "":
		text += t.Number
	case t.Str != nil:
		text += *t.Str
	case t.Const != "":
		text += strings.ToLower(t.Const)
	case t.Param != "":
		text += t.Param
	case t.Call != nil:
		args := printList(t.Call.Args, (*expr).print)
		if t.Call.Star {
			args = "*"
		}
		text += t.Call.Name + "(" + args + ")"
	case t.Name != "":
		text += t.Name
	case t.Query != nil:
		text += strings.ToUpper(t.Query.Kind) + "(" + t.Query.Text.print() + ")"
	case t.Object != nil:
		text += "{" + printList(t.Object.Fields, (*fieldRef).print) + "}"
	case t.Array != nil:
		text += "[" + printList(t.Array.Elements, (*expr).print) + "]"
	default:
		text += "(" + t.Sub.print() + ")"
	}
	return text + printSteps(t.Steps)
}

func (f *fieldRef) print() string {
	if f.Quote != nil {
		return *f.Quote + ": " + f.Value.print()
	}
	return quoted(f.Name) + ": " + f.Value.print()
}

func printSteps(steps []*stepRef) string {
	text := ""
	for _, s := range steps {
		switch {
		case s.Name != "":
			text += "." + s.Name
		case s.Quote != nil:
			text += "[" + *s.Quote + "]"
		default:
			text += "[" + s.Index + s.Param + "]"
		}
	}
	return text
}

func (s *source) print() string {
	text := ""
	if s.Element != "" {
		text = s.Element + " IN "
	}
	text += s.Root + printSteps(s.Steps)
	if s.Alias != "" {
		text += " AS " + s.Alias
	}
	return text
}

func (f *from) print() string {
	text := f.Source.print()
	for _, j := range f.Joins {
		text += " JOIN " + j.print()
	}
	return text
}

func (c *column) print() string {
	if c.Alias != nil {
		return c.Expr.print() + " AS " + c.Alias.Name
	}
	return c.Expr.print()
}

func (o *ordered) print() string {
	if o.descending() {
		return o.Expr.print() + " DESC"
	}
	return o.Expr.print()
}

func (o *ordered) descending() bool { return strings.EqualFold(o.Dir, "DESC") }

// print writes a subquery on one line.
func (s *statement) print() string {
	text := "SELECT "
	switch {
	case s.Star:
		text += "*"
	case s.Value != nil:
		text += "VALUE " + s.Value.print()
	default:
		text += printList(s.Columns, (*column).print)
	}
	if s.From != nil {
		text += " FROM " + s.From.print()
	}
	if s.Where != nil {
		text += " WHERE " + s.Where.print()
	}
	return text
}

func quoted(name string) string { return `"` + name + `"` }
