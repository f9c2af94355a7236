package tenant

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

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
func (s Setting) Changes(now func() time.Time) ([]Change, error) {
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

// Changes returns the changes after which a tenant document says what l says, in the order of the fields.
func (l QueryLimits) Changes() []Change {
	return queryLimits.changes(&l, func(b *tenantBody) *QueryLimits { return &b.Limits.Query })
}

// changes returns a change for each limit that says something. in returns the limits of a tenant document.
func (t limitTable[T]) changes(limits *T, in func(*tenantBody) *T) (out []Change) {
	for _, l := range t {
		if from := l.field(limits); from.says() != Default {
			out = append(out, Change{l.name + " " + from.String(), func(b *tenantBody) error {
				l.field(in(b)).take(from)
				return nil
			}})
		}
	}
	return out
}

// parse sets the limit of a setting's name to its value, if there is such a limit.
func (t limitTable[T]) parse(limits *T, s Setting) error {
	for _, l := range t {
		if l.name == s.Name {
			return l.field(limits).UnmarshalText([]byte(s.Value))
		}
	}
	return nil
}

// settings returns the limits as their flags have them.
func (t limitTable[T]) settings(limits *T) (out []Setting) {
	for _, l := range t {
		out = append(out, Setting{l.name, l.field(limits).String()})
	}
	return out
}

// Changes returns the changes after which a tenant document says what l says, in the order of the fields.
func (l Ingest) Changes() []Change {
	return ingestLimits.changes(&l, func(b *tenantBody) *Ingest { return &b.Limits.Ingest })
}

const (
	maxProfileText = 200 // bytes
	maxTags        = 50
)

var (
	tagName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$`)

	errTags = fmt.Errorf("%w: a tenant has at most 50 tags", ErrTooMany)
)

func checkProfileText(text string) error {
	if len(text) > maxProfileText || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Errorf("%.40q is not a text of at most %d bytes in one line", text, maxProfileText)
	}
	return nil
}

// textChange sets a text of the profile; an empty one removes it.
func textChange(s Setting, in func(*Profile) *string) (Change, error) {
	text := strings.TrimSpace(s.Value)
	if err := checkProfileText(text); err != nil {
		return Change{}, err
	}
	return Change{s.Name + " " + cmp.Or(text, "none"), func(b *tenantBody) error {
		*in(&b.Profile) = text
		return nil
	}}, nil
}

// TagChanges sets tags of a tenant by their names; an empty value removes one.
func TagChanges(tags map[string]string) (out []Change, err error) {
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		if !tagName.MatchString(name) {
			return nil, fmt.Errorf("tag %.80q: a name has 1 to 63 letters, digits, or any of . _ / - after the first", name)
		}
		text := strings.TrimSpace(tags[name])
		if err := checkProfileText(text); err != nil {
			return nil, fmt.Errorf("tag %s: %w", name, err)
		}
		out = append(out, Change{"tag:" + name + " " + cmp.Or(text, "none"), func(b *tenantBody) error {
			return b.setTag(name, text)
		}})
	}
	return out, nil
}

// setTag sets a tag; an empty text removes it.
func (b *tenantBody) setTag(name, text string) error {
	if text == "" {
		delete(b.Tags, name)
		return nil
	}
	if b.Tags == nil {
		b.Tags = map[string]string{}
	}
	if b.Tags[name] = text; len(b.Tags) > maxTags {
		return errTags
	}
	return nil
}

// maxReason is how long the reason of a suspension may be, in bytes: every refused query has it.
const maxReason = 200

// SuspendChange suspends a tenant.
func SuspendChange(reason string, now time.Time) (Change, error) {
	reason = strings.TrimSpace(reason)
	if reason == "" || len(reason) > maxReason {
		return Change{}, errors.New("the reason of a suspension has 1 to 200 bytes: the tenant's users read it")
	}
	return Change{"suspended " + reason, func(b *tenantBody) error {
		b.Suspended = &suspensionBody{now.UnixMilli(), reason}
		return nil
	}}, nil
}

// ResumeChange ends a suspension, if there is one.
func ResumeChange() Change {
	return Change{"suspended default", func(b *tenantBody) error {
		b.Suspended = nil
		return nil
	}}
}
