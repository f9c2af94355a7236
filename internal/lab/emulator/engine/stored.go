package engine

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/valyala/fastjson"
)

// get reads a value; nil when there is none.
func get(from pebble.Reader, key []byte) ([]byte, error) {
	v, closer, err := from.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = closer.Close() }() // releases memory only
	return bytes.Clone(v), nil
}

// storedBody reads the body that belongs to the key of a header.
func storedBody(from pebble.Reader, header []byte) ([]byte, error) {
	body, err := get(from, bodyName(nil, header))
	if err == nil && body == nil {
		err = pebble.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read the body of an item: %w", err)
	}
	return body, nil
}

// storedItem reads and parses the body that belongs to the key of a header.
func storedItem(from pebble.Reader, header []byte) (*fastjson.Value, error) {
	body, err := storedBody(from, header)
	if err != nil {
		return nil, err
	}
	doc, err := fastjson.ParseBytes(body)
	if err != nil {
		return nil, fmt.Errorf("read the body of an item: %w", err)
	}
	return doc, nil
}

// bounds returns the keys of the headers in a span.
func (c *Container) bounds(s span) *pebble.IterOptions {
	prefix := appendPrefix(nil, spaceHeader, c.number)
	opts := &pebble.IterOptions{LowerBound: append(prefix[:prefixLen:prefixLen], s.low...), UpperBound: after(prefix)}
	if s.high != nil {
		opts.UpperBound = append(prefix[:prefixLen:prefixLen], s.high...)
	}
	return opts
}

// headers visits the headers of the items in a span, by their keys without prefix, until visit reports false.
func (c *Container) headers(s span, visit func(item []byte, h *header) (more bool, err error)) error {
	return visitKeys(c.account.store.db, c.bounds(s), func(key, value []byte) (bool, error) {
		var h header
		if err := h.decode(value); err != nil {
			return false, err
		}
		return visit(key[prefixLen:], &h)
	})
}

// visitKeys visits what is stored between two keys, in order, until visit reports false.
func visitKeys(
	from pebble.Reader, bounds *pebble.IterOptions, visit func(key, value []byte) (more bool, err error),
) (err error) {
	it, err := from.NewIter(bounds)
	if err != nil {
		return fmt.Errorf("read what is stored: %w", err)
	}
	defer func() { err = cmp.Or(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		if more, err := visit(it.Key(), it.Value()); !more || err != nil {
			return err
		}
	}
	return it.Error()
}
