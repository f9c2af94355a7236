package tenant

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"binnacle/internal/text/duration"
	"binnacle/sharding"
)

// Setting is one setting of a tenant: the name of its flag of `tenant set`, and the value that the flag has.
type Setting struct{ Name, Value string }

// Names of settings that are not limits.
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
	var ingest Ingest
	if t.Ingest != nil {
		ingest = *t.Ingest
	}
	return slices.Concat([]Setting{{settingDisplayName, t.DisplayName}, {settingContact, t.Contact},
		{settingLookback, lookback}, {settingRetention, t.RetentionText()}, {settingPin, pin}},
		queryLimits.settings(&t.Queries), ingestLimits.settings(&ingest))
}

// Changes returns the changes that give a tenant the setting.
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
		c, err = textChange(s, func(p *Profile) *string { return &p.DisplayName })
	case settingContact:
		c, err = textChange(s, func(p *Profile) *string { return &p.Contact })
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
		return PinChange(sharding.Pin{Keep: true})
	case pinFree:
		return PinChange(sharding.Pin{})
	}
	keys, err := strconv.Atoi(text)
	if err != nil || keys < 1 {
		return Change{}, fmt.Errorf("%q is neither a number of keys, nor %s, nor %s", text, pinKeep, pinFree)
	}
	return PinChange(sharding.Pin{Keys: keys})
}

func (s Setting) limitChanges() ([]Change, error) {
	var queries QueryLimits
	var ingest Ingest
	err := cmp.Or(queryLimits.parse(&queries, s), ingestLimits.parse(&ingest, s))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	changes := slices.Concat(queries.Changes(), ingest.Changes())
	if len(changes) == 0 {
		return nil, fmt.Errorf("there is no setting %q", s.Name)
	}
	return changes, nil
}
