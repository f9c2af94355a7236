package engine

import (
	"errors"
	"fmt"

	"binnacle/internal/lab/emulator/kv"
	"github.com/valyala/fastjson"
)

// storedBody reads the body of an item that is stored.
func storedBody(from kv.Reader, name []byte) ([]byte, error) {
	e := from.Get(name)
	if e == nil {
		return nil, errors.New("read the body of an item: there is none")
	}
	return e.Body(nil)
}

// storedItem reads and parses the body of an item that is stored.
func storedItem(from kv.Reader, name []byte) (*fastjson.Value, error) {
	body, err := storedBody(from, name)
	if err != nil {
		return nil, err
	}
	doc, err := fastjson.ParseBytes(body)
	if err != nil {
		return nil, fmt.Errorf("read the body of an item: %w", err)
	}
	return doc, nil
}

// bounds returns the first key of the items in a span, and the one after the last.
func (c *Container) bounds(s span) (low, high []byte) {
	prefix := appendPrefix(nil, spaceItem, c.number)
	low, high = append(prefix[:prefixLen:prefixLen], s.low...), after(prefix)
	if s.high != nil {
		high = append(prefix[:prefixLen:prefixLen], s.high...)
	}
	return low, high
}

// headers visits the headers of the items in a span, by their keys without prefix, until visit reports false.
func (c *Container) headers(s span, visit func(item []byte, h *header) (more bool, err error)) error {
	for e := range c.account.store.Ascend(c.bounds(s)) {
		var h header
		if err := h.decode(e.Value()); err != nil {
			return err
		}
		if more, err := visit(e.Key()[prefixLen:], &h); !more || err != nil {
			return err
		}
	}
	return nil
}
