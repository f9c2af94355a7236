package tenant

import (
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
	"encoding/json"
	"errors"
)

// The kinds of documents that make a tenant.
const (
	Kind      = "tenant"
	KindEpoch = "epoch"
)

// tenantBody is a tenant document: docs/internals/format/control.md.
type tenantBody struct {
	Created          int64          `json:"created"`
	RetentionSeconds int64          `json:"retentionSeconds"`
	Epoch            sharding.Epoch `json:"epoch"`
	// Period is that of containers on all days before the first period that is stored for all tenants.
	Period          sharding.Period `json:"period,omitempty"`
	LookbackSeconds int64           `json:"lookbackSeconds,omitempty"`
	Limits          limitsBody      `json:"limits,omitzero"`
	Pin             sharding.Pin    `json:"pin,omitzero"`
	Suspended       *suspensionBody `json:"suspended,omitempty"`
	Profile

	Retention []retentionPolicyBody `json:"retention,omitempty"`
	Tagged    taggedTimes           `json:"tagged,omitempty"`
}

// limitsBody is the limits in a tenant document.
type limitsBody struct {
	Query  QueryLimits `json:"query,omitzero"`
	Ingest Ingest      `json:"ingest,omitzero"`
}

// retentionClassBody is a class in a tenant document: docs/internals/format/control.md.
type retentionClassBody struct {
	Devices string        `json:"devices"`
	Seconds int64         `json:"seconds"`
	First   telemetry.Day `json:"first,omitempty"`
}

// retentionPolicyBody is the classes of a time in a tenant document.
type retentionPolicyBody struct {
	Until   int64                `json:"until,omitempty"`
	Classes []retentionClassBody `json:"classes"`
}

// suspensionBody is the property suspended of a tenant document.
type suspensionBody struct {
	Since  int64  `json:"since"`
	Reason string `json:"reason"`
}

// taggedTimes says since when devices have a tag, and until when: by class and device, ms since 1970 UTC, first a time
// from which on it has the tag, then one from which on it has not, and so on.
type taggedTimes map[string]map[string][]int64

// Profile is what operators write down about a tenant. Nothing follows from it.
type Profile struct {
	DisplayName string            `json:"displayName,omitempty"`
	Contact     string            `json:"contact,omitempty"`
	Tags        map[string]string `json:"tags,omitempty"`
}

// Change is something about a tenant that an operator sets.
type Change struct {
	text string
	set  func(*tenantBody) error
}

// String returns the setting and its new value.
func (c Change) String() string { return c.text }

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

// ErrTooMany says that a tenant would have more of something than is stored of one.
var ErrTooMany = errors.New("too many")
