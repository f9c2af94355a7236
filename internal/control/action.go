package control

import (
	"binnacle/internal/store"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
)

// KindAction is the kind of documents that say what was done by those who may do more than read and write readings.
const KindAction = "action"

// Action is one thing that was done, or tried: a token made, a container scaled or dropped.
type Action struct {
	ID string `json:"id"`
	// At is when the action began.
	At time.Time `json:"at"`
	// The person, such as anna@desk, as far as the process knows.
	Who  string `json:"who"`
	Verb string `json:"verb"` // such as "token add"
	// Object is the id of the token, or the container, that the action changed.
	Object  string            `json:"object,omitempty"`
	Tenant  string            `json:"tenant,omitempty"` // the tenant that it is about, if it is one
	Detail  map[string]string `json:"detail,omitempty"` // nothing secret
	Outcome string            `json:"outcome"`          // OutcomeBegun, OutcomeDone, or why it was not done
}

// Outcomes of an action.
const (
	// OutcomeBegun is the outcome until the process stores another one; a process that died stores none.
	OutcomeBegun = "begun"
	OutcomeDone  = "done"
)

// actionBody is an action document: docs/internals/format/control.md.
type actionBody struct {
	At      int64             `json:"at"`
	Who     string            `json:"who"`
	Verb    string            `json:"verb"`
	Object  string            `json:"object,omitempty"`
	Tenant  string            `json:"tenant,omitempty"`
	Detail  map[string]string `json:"detail,omitempty"`
	Outcome string            `json:"outcome"`
}

// Actions stores what was done in the control documents, and logs it. An action is stored before it begins and again
// when it has ended, so none is done that is not stored. It is safe for any number of callers.
type Actions struct {
	docs store.Documents
	who  string
	log  *slog.Logger
	now  func() time.Time
}

// NewActions returns the Actions of a person or role, named as the log shall name them.
func NewActions(docs store.Documents, who string, log *slog.Logger, now func() time.Time) *Actions {
	return &Actions{docs, who, log, now}
}

// Do runs act, which is an action that operators list: act may add to the action what it learns, such as the id of what
// it makes. Where the action can't be stored it is not begun.
func (s *Actions) Do(ctx context.Context, a Action, act func(a *Action) error) error {
	begun, err := s.Begin(ctx, a)
	if err != nil {
		return err
	}
	err = act(&begun.action)
	return errors.Join(err, begun.End(ctx, err))
}

// StartedAction is an action that has begun. It belongs to one goroutine.
type StartedAction struct {
	by     *Actions
	action Action
	etag   string
	stored string // the outcome that is stored
}

// Begin stores that an action begins. Without Actions nothing is stored.
func (s *Actions) Begin(ctx context.Context, a Action) (*StartedAction, error) {
	if s == nil {
		return &StartedAction{action: a}, nil
	}
	a.At, a.Who, a.Outcome = s.now().UTC(), s.who, OutcomeBegun
	a.ID = fmt.Sprintf("%013d.%s", a.At.UnixMilli(), rand.Text()[:10])
	b := &StartedAction{by: s, action: a, stored: OutcomeBegun}
	var err error
	if b.etag, err = s.docs.Create(ctx, a.document()); err != nil {
		return nil, fmt.Errorf("%s %s was not begun, because its record can't be stored: %w", a.Verb,
			cmp.Or(a.Object, a.Tenant), err)
	}
	return b, nil
}

// endTimeout bounds how long it takes to store how an action has ended; the context of the action may have ended too.
const endTimeout = 5 * time.Second

// End stores how the action has ended; it may be called again after another attempt at the same.
func (b *StartedAction) End(ctx context.Context, failed error) error {
	b.action.Outcome = OutcomeDone
	if failed != nil {
		b.action.Outcome = failed.Error()
	}
	if b.by == nil || b.action.Outcome == b.stored {
		return nil
	}
	a := b.action
	level := slog.LevelInfo
	if failed != nil {
		level = slog.LevelDebug // the caller reports the error
	}
	b.by.log.Log(ctx, level, "admin action", "who", a.Who, "verb", a.Verb, "object", a.Object, "tenant", a.Tenant,
		"detail", a.Details(), "outcome", a.Outcome, "id", a.ID)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	doc := a.document()
	doc.ETag = b.etag
	etag, err := b.by.docs.Replace(ctx, doc)
	if err != nil {
		return fmt.Errorf("store how %s %s has ended: %w", a.Verb, cmp.Or(a.Object, a.Tenant), err)
	}
	b.etag, b.stored = etag, a.Outcome
	return nil
}

// List returns what was done from an instant on, the oldest first.
func (s *Actions) List(ctx context.Context, from time.Time) ([]Action, error) {
	docs, err := s.docs.List(ctx, KindAction)
	if err != nil {
		return nil, fmt.Errorf("list actions: %w", err)
	}
	var out []Action
	for _, d := range docs {
		var b actionBody
		if err := d.Decode(&b); err != nil {
			return nil, err
		}
		if b.At < from.UnixMilli() {
			continue
		}
		out = append(out, Action{
			ID: d.ID, At: time.UnixMilli(b.At).UTC(), Who: b.Who, Verb: b.Verb, Object: b.Object, Tenant: b.Tenant,
			Detail: b.Detail, Outcome: b.Outcome,
		})
	}
	return out, nil
}

// Details returns the action's details as one text, in the order of their names.
func (a Action) Details() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(a.Detail)) {
		if value := a.Detail[name]; value != "" {
			parts = append(parts, name+"="+value)
		}
	}
	return strings.Join(parts, " ")
}

func (a Action) document() store.Document {
	return store.NewDocument(KindAction, a.ID, actionBody{
		At: a.At.UnixMilli(), Who: a.Who, Verb: a.Verb, Object: a.Object, Tenant: a.Tenant, Detail: a.Detail,
		Outcome: a.Outcome,
	})
}
