package prom

import (
	"errors"
	"strings"

	"binnacle/query"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// labelSize bounds the bytes of a label that a query makes: times those of all labels of a series that was read, and
// bytes more. It is a float, so that it can't overflow.
type labelSize struct{ times, bytes float64 }

func (s labelSize) plus(o labelSize) labelSize {
	return labelSize{s.times + o.times, s.bytes + o.bytes}
}

func (s labelSize) max(o labelSize) labelSize {
	return labelSize{max(s.times, o.times), max(s.bytes, o.bytes)}
}

// of returns the bytes for a series with labels of so many bytes.
func (s labelSize) of(n int) int64 { return int64(min(s.times*float64(n)+s.bytes, 1<<50)) }

// labelSizes bounds the labels of the series of an expression.
type labelSizes struct {
	made    map[string]labelSize // by the expression; any other label is one of a series that was read
	counted bool                 // the series may be more than were read: count_values makes one of each value
}

func (s labelSizes) of(name string) labelSize {
	if size, ok := s.made[name]; ok {
		return size
	}
	return labelSize{times: 1}
}

// labelGrowth adds up the labels that a query makes. label_join and label_replace can make one of any size of a few
// bytes of text, and the engine counts samples only.
type labelGrowth struct {
	total   labelSize
	counted labelSize // of these, what label_join and label_replace make of series that count_values made
}

// maxCountedLabels bounds the labels that are made of those of count_values: how many series it makes is not known
// beforehand.
var maxCountedLabels = labelSize{times: 4, bytes: 1 << 10}

// takeLabels counts the labels that a query will make, of series that are not read, towards its memory, and keeps what
// those that are read will need.
func (t *tenantStorage) takeLabels(statement parser.Statement) error {
	s, ok := statement.(*parser.EvalStmt)
	if !ok {
		return nil
	}
	var g labelGrowth
	g.walk(s.Expr)
	if c := g.counted; c.times > maxCountedLabels.times || c.bytes > maxCountedLabels.bytes {
		return badRequest("label_join and label_replace make labels that are too long of those of count_values: allowed are "+
			"%v times those of the series, and %v bytes", maxCountedLabels.times, maxCountedLabels.bytes)
	}
	t.growth = g.total
	err := t.memory.Take(g.total.of(0))
	if errors.Is(err, query.ErrMemory) {
		return &query.LimitError{Limit: "the memory that a query may use", Narrow: []string{
			"make shorter labels (label_join, label_replace)",
		}}
	}
	return err
}

// takeGrowth counts what a query makes of the labels of a series that it reads towards its memory.
func (t *tenantStorage) takeGrowth(l labels.Labels) error {
	if t.growth == (labelSize{}) {
		return nil
	}
	return t.memory.Take(t.growth.of(int(l.ByteSize())))
}

// walk adds the labels that an expression makes, and returns the bounds of those that its series have.
func (g *labelGrowth) walk(node parser.Node) labelSizes {
	var out labelSizes
	for child := range parser.ChildrenIter(node) {
		of := g.walk(child)
		of.counted = of.counted || out.counted
		if len(out.made) == 0 {
			out = of
			continue
		}
		out.counted = of.counted
		for name, size := range of.made {
			out.made[name] = out.of(name).max(size)
		}
	}
	if out.made == nil {
		out.made = map[string]labelSize{}
	}
	switch e := node.(type) {
	case *parser.AggregateExpr:
		if e.Op == parser.COUNT_VALUES {
			out.made[textOf(e.Param)] = labelSize{bytes: 32} // a number
			out.counted = true
		}
	case *parser.Call:
		switch e.Func.Name {
		case "label_replace":
			name, replacement := textOf(e.Args[1]), textOf(e.Args[2])
			source := out.of(textOf(e.Args[3]))
			references := float64(strings.Count(replacement, "$"))
			g.make(out, name, labelSize{references * source.times, references*source.bytes + float64(len(replacement))})
		case "label_join":
			made := labelSize{bytes: float64(len(e.Args) * len(textOf(e.Args[2])))}
			for _, arg := range e.Args[3:] {
				made = made.plus(out.of(textOf(arg)))
			}
			g.make(out, textOf(e.Args[1]), made)
		case "absent", "absent_over_time": // its labels are those that the matchers spell
			for _, matchers := range parser.ExtractSelectors(e.Args[0]) {
				for _, m := range matchers {
					out.made[m.Name] = out.of(m.Name).max(labelSize{bytes: float64(len(m.Value))})
				}
			}
		}
	}
	return out
}

// make adds a label that is made of those of sizes, and notes it there. Where the old one stays it is as large as that.
func (g *labelGrowth) make(sizes labelSizes, name string, made labelSize) {
	made.bytes += float64(len(name))
	g.total = g.total.plus(made)
	if sizes.counted {
		g.counted = g.counted.plus(made)
	}
	sizes.made[name] = sizes.of(name).max(made)
}

// textOf returns the text of a string literal in any brackets.
func textOf(expr parser.Expr) string {
	for {
		switch e := expr.(type) {
		case *parser.ParenExpr:
			expr = e.Expr
		case *parser.StepInvariantExpr:
			expr = e.Expr
		case *parser.StringLiteral:
			return e.Val
		default:
			return ""
		}
	}
}
