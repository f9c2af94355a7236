package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// KindDecision is the kind of documents that say what the balancer has decided.
const KindDecision = "decision"

// Decision is what the balancer has decided of a container and a day. It is stored before any of its epochs is, and
// never changes: a process that finds it carries it out.
type Decision struct {
	Container string `json:"container"`
	// Day is the first day of the epochs.
	Day        telemetry.Day          `json:"day"`
	Created    int64                  `json:"created"` // ms since 1970
	Advice     bool                   `json:"advice,omitempty"`
	Partitions int                    `json:"partitions"`
	Before     float64                `json:"hottestBefore"` // hottest physical partition over mean, as forecast for the day
	After      float64                `json:"hottestAfter"`
	Changes    []sharding.EpochChange `json:"changes,omitempty"`
}

// id has advice apart: it decides nothing.
func (d Decision) id() string {
	id := d.Container + "." + d.Day.String()
	if d.Advice {
		id += ".advice"
	}
	return id
}

// Decisions keeps decisions. It holds no state and is safe for any number of callers.
type Decisions struct{ docs store.Documents }

// NewDecisions returns the Decisions of control documents.
func NewDecisions(docs store.Documents) *Decisions { return &Decisions{docs} }

// Find returns the decision of a container and day, if there is one.
func (s *Decisions) Find(ctx context.Context, like Decision) (d Decision, found bool, err error) {
	doc, found, err := s.docs.Read(ctx, KindDecision, like.id())
	if err == nil && found {
		err = doc.Decode(&d)
	}
	if err != nil {
		return d, false, fmt.Errorf("read decision %s: %w", like.id(), err)
	}
	return d, found, nil
}

// Store stores a decision. If there is one of its container and day already, that one counts: it fails with
// store.ErrExists.
func (s *Decisions) Store(ctx context.Context, d Decision) error {
	if _, err := s.docs.Create(ctx, store.NewDocument(KindDecision, d.id(), d)); err != nil {
		return fmt.Errorf("store decision %s: %w", d.id(), err)
	}
	return nil
}

// List returns the decisions since a day, the oldest first; those with changes of one tenant if it is given.
func (s *Decisions) List(ctx context.Context, tenant string, since telemetry.Day) ([]Decision, error) {
	docs, err := s.docs.List(ctx, KindDecision)
	if err != nil {
		return nil, fmt.Errorf("list decisions: %w", err)
	}
	var out []Decision
	for _, doc := range docs {
		var d Decision
		if err := doc.Decode(&d); err != nil {
			return nil, err
		}
		if tenant != "" {
			d.Changes = slices.DeleteFunc(d.Changes, func(c sharding.EpochChange) bool { return c.Tenant != tenant })
		}
		if d.Day >= since && (tenant == "" || len(d.Changes) > 0) {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b Decision) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Container, b.Container))
	})
	return out, nil
}

// Decided returns when it was decided.
func (d Decision) Decided() time.Time { return time.UnixMilli(d.Created).UTC() }
