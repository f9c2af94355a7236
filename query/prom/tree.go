package prom

import (
	"strconv"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// node is a part of a parsed query, as clients expect it in JSON.
type node = map[string]any

// treeOf returns an expression as nodes.
func treeOf(expr parser.Expr) any {
	switch e := expr.(type) {
	case *parser.AggregateExpr:
		return node{"type": "aggregation", "op": e.Op.String(), "expr": treeOf(e.Expr), "param": treeOf(e.Param),
			"grouping": listOf(e.Grouping), "without": e.Without}
	case *parser.BinaryExpr:
		return node{"type": "binaryExpr", "op": e.Op.String(), "lhs": treeOf(e.LHS), "rhs": treeOf(e.RHS),
			"matching": matchingOf(e.VectorMatching), "bool": e.ReturnBool}
	case *parser.Call:
		args := make([]any, 0, len(e.Args))
		for _, arg := range e.Args {
			args = append(args, treeOf(arg))
		}
		return node{"type": "call", "args": args, "func": node{"name": e.Func.Name, "argTypes": e.Func.ArgTypes,
			"variadic": e.Func.Variadic, "returnType": e.Func.ReturnType}}
	case *parser.MatrixSelector:
		out := selectorOf(e.VectorSelector.(*parser.VectorSelector))
		out["type"], out["range"] = "matrixSelector", e.Range.Milliseconds()
		return out
	case *parser.SubqueryExpr:
		return node{"type": "subquery", "expr": treeOf(e.Expr), "range": e.Range.Milliseconds(),
			"offset": e.OriginalOffset.Milliseconds(), "step": e.Step.Milliseconds(), "timestamp": e.Timestamp,
			"startOrEnd": edgeOf(e.StartOrEnd)}
	case *parser.NumberLiteral:
		return node{"type": "numberLiteral", "val": strconv.FormatFloat(e.Val, 'f', -1, 64)}
	case *parser.ParenExpr:
		return node{"type": "parenExpr", "expr": treeOf(e.Expr)}
	case *parser.StringLiteral:
		return node{"type": "stringLiteral", "val": e.Val}
	case *parser.UnaryExpr:
		return node{"type": "unaryExpr", "op": e.Op.String(), "expr": treeOf(e.Expr)}
	case *parser.VectorSelector:
		return selectorOf(e)
	}
	return nil // an aggregation without a parameter
}

func selectorOf(s *parser.VectorSelector) node {
	return node{"type": "vectorSelector", "name": s.Name, "matchers": matchersOf(s.LabelMatchers),
		"offset": s.OriginalOffset.Milliseconds(), "timestamp": s.Timestamp, "startOrEnd": edgeOf(s.StartOrEnd),
		"anchored": s.Anchored, "smoothed": s.Smoothed}
}

func matchingOf(m *parser.VectorMatching) any {
	if m == nil {
		return nil
	}
	return node{"card": m.Card.String(), "labels": listOf(m.MatchingLabels), "on": m.On, "include": listOf(m.Include)}
}

func matchersOf(matchers []*labels.Matcher) []node {
	out := make([]node, 0, len(matchers))
	for _, m := range matchers {
		out = append(out, node{"name": m.Name, "value": m.Value, "type": m.Type.String()})
	}
	return out
}

// listOf returns the names as a list that is not null in JSON.
func listOf(names []string) []string { return append([]string{}, names...) }

// edgeOf returns start or end, which a selector may be pinned to.
func edgeOf(edge parser.ItemType) any {
	if edge == 0 {
		return nil
	}
	return edge.String()
}
