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
	n := at.level(levelOr)
	if len(at.rest) > 0 {
		c.fail(at.rest[0].Right.Pos, "ESCAPE without LIKE before it")
	}
	return n
}

// level compiles from the next term on, as far as operators of this level or tighter go. Arms of the
// same AND or OR are collected, so that a long chain is one node.
func (c *climb) level(least int) node {
	left := c.prefixed()
	for len(c.rest) > 0 {
		l := c.rest[0]
		if l.Op == "" {
			if least > levelEquality {
				break
			}
			left = c.test(left)
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

// test compiles the next link, which is IN, BETWEEN or LIKE.
func (c *climb) test(left node) node {
	t := c.rest[0]
	c.next, c.rest = t.Of, c.rest[1:]
	var n node
	switch strings.ToUpper(t.Test) {
	case "BETWEEN":
		low := c.level(levelSum)
		high := c.after("AND")
		if high == nil {
			c.fail(t.Of.Pos, "BETWEEN without AND behind it")
			return literal{}
		}
		c.next = high
		n = logic{[]node{compare{GreaterEqual, left, low}, compare{LessEqual, left, c.level(levelSum)}}, false}
	case "LIKE":
		pattern, escape := c.level(levelSum), rune(-1)
		if by := c.after("ESCAPE"); by != nil {
			l, _ := c.term(by).(literal)
			r := []rune(string(l.value.str))
			if len(r) != 1 {
				c.fail(by.Pos, "ESCAPE takes one character")
				return literal{}
			}
			escape = r[0]
		}
		n = matches{left, pattern, escape}
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

// after takes the next link if it is of that operator, and returns its term.
func (c *climb) after(op string) *term {
	if len(c.rest) == 0 || !strings.EqualFold(c.rest[0].Op, op) {
		return nil
	}
	t := c.rest[0].Right
	c.rest = c.rest[1:]
	return t
}
