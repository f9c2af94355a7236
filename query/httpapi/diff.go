package httpapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"binnacle/internal/telemetry"
	"binnacle/internal/wire/jsontext"
	"binnacle/query"
	"binnacle/query/diagnose/rejected"
	"binnacle/query/merge"
)

const diffHead = "change,time,device,labels,metric,was,value"

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
	list := records{w: w, name: "changes", head: diffHead}
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
			err := list.record(func(b []byte) []byte { return appendChange(b, &c) },
				func(b []byte) []byte { return appendChangeCells(b, &c) }, nil)
			if errors.Is(err, query.ErrEnough) {
				return nil // changes beyond the limit are only counted
			}
			return err
		})
	})
}

// changes returns the kinds of changes that are listed.
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

func appendChange(b []byte, c *query.Change) []byte {
	b = jsontext.AppendString(append(b, `{"change":`...), string(c.How))
	b = jsontext.AppendString(append(b, `,"device":`...), c.Device)
	b = strconv.AppendInt(append(b, `,"ts":`...), c.Time, 10)
	if len(c.Labels) > 0 {
		b = jsontext.AppendLabels(append(b, `,"labels":`...), c.Labels)
	}
	b = jsontext.AppendString(append(b, `,"metric":`...), c.Metric)
	if c.Was.Kind() != 0 {
		b = appendJSON(append(b, `,"was":`...), c.Was)
	}
	return append(appendJSON(append(b, `,"value":`...), c.Value), '}')
}

func appendChangeCells(b []byte, c *query.Change) []byte {
	b = appendTime(append(append(b, c.How...), ','), c.Time)
	b = append(appendSeriesCells(b, curveName{c.Device, c.Labels, c.Metric}), ',')
	if c.Was.Kind() != 0 {
		b = appendValueCell(b, c.Was)
	}
	return appendValueCell(append(b, ','), c.Value)
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
