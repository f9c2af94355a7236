package tenant

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"binnacle/internal/store"
	"binnacle/sharding"
)

// Change is something about a tenant that an operator sets.
type Change struct {
	text string
	set  func(*tenantBody) error
}

// String returns the setting and its new value.
func (c Change) String() string { return c.text }

// LookbackChange sets how old a sample PromQL takes for a tenant's current one, in whole seconds; 0 leaves it to the
// service.
func LookbackChange(lookback time.Duration) (Change, error) {
	if lookback < 0 || lookback%time.Second != 0 {
		return Change{}, fmt.Errorf("a lookback of %s is not a number of seconds", lookback)
	}
	text, seconds := "lookback default", int64(lookback/time.Second)
	if seconds > 0 {
		text = fmt.Sprintf("lookback %d", seconds)
	}
	return Change{text, func(b *tenantBody) error {
		b.LookbackSeconds = seconds
		return nil
	}}, nil
}

// PinChange sets what an operator has decided of a tenant's placement.
func PinChange(pin sharding.Pin) (Change, error) {
	text := "pin default"
	switch {
	case pin.Keep && pin.Keys != 0:
		return Change{}, errors.New("a pin keeps the keys as they are, or sets their number")
	case pin.Keys < 0 || pin.Keys > 1024:
		return Change{}, fmt.Errorf("%d keys: 1 to 1024 are allowed", pin.Keys)
	case pin.Keep:
		text = "pin keep"
	case pin.Keys > 0:
		text = "pin " + strconv.Itoa(pin.Keys)
	}
	return Change{text, func(b *tenantBody) error {
		b.Pin = pin
		return nil
	}}, nil
}

// changeBody returns the body of a tenant document after changes. Properties that this version does not know stay.
func changeBody(d store.Document, changes []Change) ([]byte, error) {
	var b tenantBody
	if err := d.Decode(&b); err != nil {
		return nil, err
	}
	before, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	for _, c := range changes {
		if err := c.set(&b); err != nil {
			return nil, err
		}
	}
	after, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	return merge(d.Body, before, after)
}

// merge returns an object with what differs between two others. A member that only before has goes, or, if it is an
// object, what before has of it.
func merge(object, before, after []byte) ([]byte, error) {
	var out, was, will map[string]json.RawMessage
	for text, into := range map[*[]byte]*map[string]json.RawMessage{&object: &out, &before: &was, &after: &will} {
		if err := json.Unmarshal(*text, into); err != nil {
			return nil, err
		}
	}
	for name := range was {
		if _, ok := will[name]; !ok && !isObject(out[name]) {
			delete(out, name)
		} else if !ok {
			will[name] = json.RawMessage("{}")
		}
	}
	for name, value := range will {
		if string(value) == string(was[name]) {
			continue
		}
		if isObject(out[name]) && isObject(was[name]) && isObject(value) {
			merged, err := merge(out[name], was[name], value)
			if err != nil {
				return nil, err
			}
			value = merged
		}
		if out[name] = value; string(value) == "{}" {
			delete(out, name)
		}
	}
	return json.Marshal(out)
}

func isObject(text json.RawMessage) bool { return len(text) > 0 && text[0] == '{' }
