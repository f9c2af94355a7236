package control

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"binnacle/internal/text/duration"
	"binnacle/sharding/balance"
)

// Setting is one thing that an operator sets of a tenant: the name of its flag of `tenant set`, and its value as the
// flag has it.
type Setting struct{ Name, Value string }

// names of settings that are no limits.
const (
	settingLookback    = "lookback"
	settingRetention   = "retention"
	settingPin         = "pin"
	settingDisplayName = "display-name"
	settingContact     = "contact"

	pinKeep, pinFree = "keep", "free"
)

// Settings returns all settings of the tenant but its tags, in the order of the flags.
func (t Tenant) Settings() []Setting {
	lookback, pin := Unset.String(), pinFree
	if t.Lookback > 0 {
		lookback = duration.String(t.Lookback)
	}
	switch {
	case t.Pin.Keep:
		pin = pinKeep
	case t.Pin.Keys > 0:
		pin = strconv.Itoa(t.Pin.Keys)
	}
	var ingest TenantIngest
	if t.Ingest != nil {
		ingest = *t.Ingest
	}
	out := []Setting{{settingDisplayName, t.DisplayName}, {settingContact, t.Contact}, {settingLookback, lookback},
		{settingRetention, t.RetentionText()}, {settingPin, pin}}
	for _, limits := range []any{t.Queries, ingest} {
		for _, f := range limitFields(reflect.ValueOf(limits)) {
			out = append(out, Setting{f.Tag.Get("name"), f.value.Interface().(fmt.Stringer).String()})
		}
	}
	return out
}

// Changes returns what has to be set so that a tenant has the setting.
func (s Setting) Changes(now time.Time) ([]Change, error) {
	c, err := Change{}, error(nil)
	switch s.Name {
	case settingLookback:
		c, err = lookbackChange(s.Value)
	case settingRetention:
		c, err = RetentionChange(s.Value, now)
	case settingPin:
		c, err = pinChange(s.Value)
	case settingDisplayName:
		c, err = textChange("displayName", s.Name, s.Value)
	case settingContact:
		c, err = textChange("contact", s.Name, s.Value)
	default:
		return s.limitChanges()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	return []Change{c}, nil
}

func lookbackChange(text string) (Change, error) {
	var lookback time.Duration
	if text != Unset.String() {
		var err error
		if lookback, err = duration.Parse(text); err != nil {
			return Change{}, err
		}
	}
	return LookbackChange(lookback)
}

func pinChange(text string) (Change, error) {
	switch text {
	case pinKeep:
		return PinChange(balance.Pin{Keep: true})
	case pinFree:
		return PinChange(balance.Pin{})
	}
	keys, err := strconv.Atoi(text)
	if err != nil || keys < 1 {
		return Change{}, fmt.Errorf("%q is neither a number of keys, nor %s, nor %s", text, pinKeep, pinFree)
	}
	return PinChange(balance.Pin{Keys: keys})
}

func (s Setting) limitChanges() ([]Change, error) {
	var queries QueryLimits
	var ingest TenantIngest
	for _, limits := range []any{&queries, &ingest} {
		for _, f := range limitFields(reflect.ValueOf(limits).Elem()) {
			if f.Tag.Get("name") != s.Name {
				continue
			}
			if err := f.value.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s.Value)); err != nil {
				return nil, fmt.Errorf("%s: %w", s.Name, err)
			}
		}
	}
	changes := slices.Concat(queries.Changes(), ingest.Changes())
	if len(changes) == 0 {
		return nil, fmt.Errorf("there is no setting %q", s.Name)
	}
	return changes, nil
}
