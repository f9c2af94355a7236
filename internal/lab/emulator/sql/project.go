package sql

import "binnacle/internal/lab/emulator/jsonvalue"

// Defined reports whether a matching row has a result: SELECT VALUE has none for an item without that
// property. Rows without one do not count for TOP or OFFSET LIMIT. It is for queries that neither
// iterate nor are collected.
func (b *Bound) Defined(row Row) bool {
	return b.query.Star || !b.query.value || b.query.columns[0].node.eval(b.env(row)).kind != Undefined
}

// Project appends one matching row as JSON. It reports false when the row is undefined, as SELECT VALUE is for
// an item without that property. It serves queries that neither iterate nor need all items first; it encodes a
// Star query's item again.
func (b *Bound) Project(dst []byte, row Row) ([]byte, bool) { return b.query.emit(dst, b.env(row)) }

// Each returns the rows of an item of a query that iterates, as JSON, until visit reports false. Rows
// without a result are left out. The bytes are valid until visit returns.
func (b *Bound) Each(row Row, visit func(row []byte) bool) {
	var buf []byte
	e := b.env(row)
	e.query.iteration.each(e, func() bool {
		out, ok := b.query.emit(buf[:0], e)
		buf = out
		return !ok || visit(out)
	})
}

// Err returns what has ended the evaluation of a row early, if anything has. It stays.
func (b *Bound) Err() error {
	if b.scratch.err == nil {
		return nil
	}
	return b.scratch.err
}

// exists reports whether the item gives any row.
type exists struct{}

func (exists) eval(e *env) Value {
	return BoolValue(!e.query.iteration.each(e, func() bool { return false }))
}

func (exists) children() []node { return nil }

func (q *Query) emit(dst []byte, e *env) ([]byte, bool) {
	if q.value {
		v := q.columns[0].node.eval(e)
		return v.Append(dst), v.kind != Undefined
	}
	dst = append(dst, '{')
	first := true
	for _, c := range q.columns {
		v := c.node.eval(e)
		if v.kind == Undefined {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = jsonvalue.AppendString(dst, []byte(c.name))
		dst = append(dst, ':')
		dst = v.Append(dst)
	}
	return append(dst, '}'), true
}
