package query

import (
	"context"

	"binnacle/internal/telemetry"
)

// Tags has the tags of a tenant's devices for one answer: of a device twice the same. They are as Known has them. It is
// owned by one goroutine.
type Tags struct {
	querier   *Querier
	tenant    string
	known     *Known
	own       map[string]telemetry.Labels // of devices that were asked for
	refreshes int                         // how often heads were asked again
}

// maxRefreshes is how often heads are asked again, for one answer, because a device is not known.
const maxRefreshes = 8

// Tags returns the tags for an answer that begins now.
func (q *Querier) Tags(tenant string) *Tags {
	return &Tags{querier: q, tenant: tenant, own: make(map[string]telemetry.Labels)}
}

// Known returns the devices as the whole answer knows them. Errors are those of Querier.Known.
func (t *Tags) Known(ctx context.Context) (*Known, error) {
	if t.known == nil {
		k, err := t.querier.Known(ctx, t.tenant)
		if err != nil {
			return nil, err
		}
		t.known = k
	}
	return t.known, nil
}

// Refresh reads what is known of devices again; tags that were asked for stay as they were. Errors are those of Known.
func (t *Tags) Refresh(ctx context.Context) (*Known, error) {
	t.known = nil
	return t.Known(ctx)
}

// Of returns the tags of a device. Errors are those of Known.
func (t *Tags) Of(ctx context.Context, device string) (telemetry.Labels, error) {
	if tags, ok := t.own[device]; ok {
		return tags, nil
	}
	k, err := t.Known(ctx)
	if err != nil {
		return nil, err
	}
	e, ok := k.Entry(device)
	if !ok && t.refreshes < maxRefreshes && k.Changed(ctx) { // it has come since
		t.refreshes++
		if k, err = t.Refresh(ctx); err != nil {
			return nil, err
		}
		e, _ = k.Entry(device)
	}
	t.own[device] = e.TagLabels()
	return t.own[device], nil
}
