package sql

import "strings"

// The levels of precedence, from the loosest to the tightest. NOT is looser than comparisons, as in SQL.
const (
	levelOr = 1 + iota
	levelAnd
	levelNot
	levelEquality
	levelRelation
	levelSum
	levelProduct
)

var levels = map[string]int{
	"OR": levelOr, "AND": levelAnd,
	"=": levelEquality, "!=": levelEquality, "<>": levelEquality,
	"<": levelRelation, "<=": levelRelation, ">": levelRelation, ">=": levelRelation,
	"+": levelSum, "-": levelSum, "*": levelProduct, "/": levelProduct, "%": levelProduct,
}

// climb compiles a flat chain of operators by precedence climbing.
type climb struct {
	*compiler
	next *term
	rest []*link
}

func (c *compiler) expr(e *expr) node {
	at := climb{c, e.First, e.Rest}
	return at.level(levelOr)
}

func (c *compiler) sum(e *sum) node {
	rest := make([]*link, len(e.Rest))
	for i, a := range e.Rest {
		rest[i] = &link{Op: a.Op, Right: a.Right}
	}
	at := climb{c, e.First, rest}
	return at.level(levelSum)
}

// level compiles from the next term on, as far as operators of this level or tighter go. Arms of the
// same AND or OR are collected, so that a long chain is one node.
func (c *climb) level(least int) node {
	left := c.prefixed()
	for len(c.rest) > 0 {
		l := c.rest[0]
		if l.Test != nil {
			if least > levelEquality {
				break
			}
			c.rest = c.rest[1:]
			left = c.test(left, l.Test)
			continue
		}
		op := strings.ToUpper(l.Op)
		level := levels[op]
		if level < least {
			break
		}
		if level <= levelAnd {
			left = c.arms(left, op, level)
			continue
		}
		c.next, c.rest = l.Right, c.rest[1:]
		left = operate(op, left, c.level(level+1))
	}
	return left
}

// prefixed compiles the next term, and all that the NOTs before it apply to.
func (c *climb) prefixed() node {
	t := c.next
	if len(t.Not) == 0 {
		return c.term(t)
	}
	bare := *t
	bare.Not = nil
	c.next = &bare
	n := c.level(levelEquality)
	for range t.Not {
		n = not{n}
	}
	return n
}

func (c *climb) arms(first node, op string, level int) node {
	arms := []node{first}
	for len(c.rest) > 0 && strings.EqualFold(c.rest[0].Op, op) {
		c.next, c.rest = c.rest[0].Right, c.rest[1:]
		arms = append(arms, c.level(level+1))
	}
	return join(arms, level == levelOr)
}

func operate(op string, left, right node) node {
	switch levels[op] {
	case levelEquality, levelRelation:
		if op == "<>" {
			op = "!="
		}
		return compare{Op(op), left, right}
	default:
		return arithmetic{op[0], left, right}
	}
}

// join connects the arms of an AND (decide false) or OR; nested ones of the same kind become one.
func join(arms []node, decide bool) node {
	if len(arms) == 1 {
		return arms[0]
	}
	var flat []node
	for _, a := range arms {
		if l, ok := a.(logic); ok && l.decide == decide {
			flat = append(flat, l.arms...)
		} else {
			flat = append(flat, a)
		}
	}
	return logic{flat, decide}
}

// test compiles IN, BETWEEN and LIKE.
func (c *compiler) test(left node, t *test) node {
	var n node
	switch {
	case t.Between != nil:
		low, high := c.sum(t.Between.Low), c.sum(t.Between.High)
		n = logic{[]node{compare{GreaterEqual, left, low}, compare{LessEqual, left, high}}, false}
	case t.Like != nil:
		escape := rune(-1)
		if t.Like.Escape != nil {
			r := []rune(c.unquote(t.Like.Pos, *t.Like.Escape))
			if len(r) != 1 {
				c.fail(t.Like.Pos, "ESCAPE takes one character")
				return literal{}
			}
			escape = r[0]
		}
		n = like(left, c.sum(t.Like.Pattern), escape)
	default:
		list := make([]node, len(t.In))
		for i, m := range t.In {
			list[i] = c.expr(m)
		}
		n = in{left, list}
	}
	if t.Not {
		return not{n}
	}
	return n
}
