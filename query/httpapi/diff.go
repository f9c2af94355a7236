package httpapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/diagnose/rejected"
	"binnacle/query/merge"
)

var changeFields = append(fields{{name: "change", kind: nameField}}, slices.Insert(slices.Clone(valueFields), 4,
	field{name: "was", kind: valueField})...)

// refusal counts the readings that were refused for a reason.
type refusal struct {
	Reason string `json:"reason"`
	Count  int    `json:"count"`
}

// diff answers what has become known between two moments.
func (a *api) diff(w *response, r *http.Request, tenant string) error {
	p := parse(r, diffParameters, "device", "metric", "change")
	q := a.request(p, tenant)
	now := a.cfg.Now()
	since, until := p.optionalInstant("since", now, 0), p.optionalInstant("until", now, 0)
	if since == 0 {
		p.fail("since", "is missing; it is the earlier of two instants")
	}
	if until > 0 && since > until {
		p.fail("since", "%s is after until, %s", formatTime(p, "since", since), formatTime(p, "until", until))
	}
	if until > 0 && p.after {
		p.fail("until", "may not be combined with %s, which is about now", AfterHeader)
	}
	wanted := p.changes()
	list := records{w: w, asked: q, name: "changes", fields: changeFields}
	list.format, list.limit = p.format()
	if p.err != nil {
		return p.err
	}
	q.AsOf = until
	n := map[merge.How]int{merge.Corrected: 0, merge.Late: 0, merge.New: 0}
	list.more = func() ([]byte, error) {
		refused, why := a.refusedBetween(q, since, cmp.Or(until, clamp(now)))
		return json.Marshal(struct {
			Counts  map[merge.How]int `json:"counts"`
			Refused []refusal         `json:"refused"`
			Why     string            `json:"refused_incomplete,omitempty"`
		}{n, refused, why})
	}
	return a.list(&list, r, func() (query.Result, error) {
		return a.cfg.Querier.Changes(r.Context(), q, since, func(c query.Change) error {
			n[c.How]++
			if !slices.Contains(wanted, c.How) {
				return nil
			}
			err := list.record(textCell(string(c.How)), textCell(c.Device), intCell(c.Time), labelsCell(c.Labels),
				textCell(c.Metric), valueCell(c.Was), valueCell(c.Value))
			if errors.Is(err, query.ErrEnough) {
				return nil // changes beyond the limit are only counted
			}
			return err
		})
	})
}

func (p *params) changes() (out []merge.How) {
	if !p.values.Has("change") {
		return []merge.How{merge.Corrected, merge.Late}
	}
	for _, name := range p.list("change", len(merge.Hows)) {
		if !slices.Contains(merge.Hows, merge.How(name)) {
			p.fail("change", "%.100q; allowed are %s", name, strings.Join(words(merge.Hows), ", "))
		}
		out = append(out, merge.How(name))
	}
	return out
}

// refusedBetween returns what was refused of the request's devices after since and up to until; why is not empty if
// that may not be all.
func (a *api) refusedBetween(q query.Request, since, until int64) (out []refusal, why string) {
	if a.cfg.Rejected == nil {
		return []refusal{}, "what was refused is not known here"
	}
	ask := rejected.Request{Tenant: q.Tenant, Range: telemetry.Range{From: since + 1, To: until + 1}}
	if q.Devices != nil {
		ask.Devices = slices.Compact(slices.Sorted(slices.Values(q.Devices)))
	}
	found := a.cfg.Rejected.Rejected(ask) // once: it scans all dead letters
	out = make([]refusal, len(found.Groups))
	for i, g := range found.Groups {
		out[i] = refusal{string(g.Reason), g.Count}
	}
	return out, found.Incomplete
}

// withMembers puts the members of an object, which there must be, behind a list in an object.
func withMembers(b []byte, more func() ([]byte, error)) ([]byte, error) {
	if more == nil {
		return b, nil
	}
	members, err := more()
	if err != nil {
		return b, fmt.Errorf("encode the members behind the list: %w", err)
	}
	return append(append(b, ','), members[1:len(members)-1]...), nil
}
