package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"binnacle/internal/catalog"
	"binnacle/internal/text/pattern"
	"binnacle/query"

	"github.com/prometheus/prometheus/model/labels"
)

// defaultListLimit is how many devices or metrics a list has unless limit says otherwise.
const defaultListLimit = 1000

// maxDevices is how many devices a page has at most: it is made as a whole.
const maxDevices = 50_000

var (
	devicesParameters     = []string{"prefix", "match", "after", "limit", "timeout"}
	metricsParameters     = []string{"prefix", "limit", "timeout"}
	facetsParameters      = []string{"prefix", "match", "tag", "limit", "timeout"}
	cardinalityParameters = []string{"prefix", "match", "limit", "timeout"}
)

// matcherForm is the spelling of a condition: what of, how, and a value.
var matcherForm = regexp.MustCompile(`(?s)^(.+?)(=~|!~|!=|=)(.*)$`)

// The two names that are no tags.
const (
	matchDevice = "device"
	matchMetric = "metric"
)

// matcher reads a condition on devices: device, metric, or else the name of a tag; =, !=, =~ or !~; and a value or an
// RE2 expression for all of it.
func matcher(text string) (m catalog.Matcher, err error) {
	parts := matcherForm.FindStringSubmatch(text)
	if parts == nil {
		return m, fmt.Errorf("%.100q; allowed is a condition like site=nord, model!=x1, device=~truck-.* "+
			"or metric=fuel", text)
	}
	name, op, value := parts[1], parts[2], parts[3]
	m = catalog.Matcher{Of: catalog.OfTag, Name: name}
	switch name {
	case matchDevice:
		m.Of = catalog.OfDevice
	case matchMetric:
		m.Of = catalog.OfMetric
	}
	is := func(s string) bool { return s == value }
	if strings.HasSuffix(op, "~") {
		re, err := labels.NewFastRegexMatcher(value)
		if err != nil {
			return m, fmt.Errorf("%.100q is not a regular expression: %v", value, err)
		}
		is = re.MatchString
	}
	m.Match = is
	switch {
	case op == "=":
		m.Values = []string{value}
	case strings.HasPrefix(op, "!") && m.Of == catalog.OfMetric:
		return m, fmt.Errorf("%.100q: a matcher of a metric can't be negated", text)
	case strings.HasPrefix(op, "!"):
		m.Match = func(s string) bool { return !is(s) }
	}
	return m, nil
}

func (p *params) search(tenant string, limit int) query.Search {
	s := query.Search{Tenant: tenant, Prefix: p.values.Get("prefix"), After: p.values.Get("after"),
		Limit: p.count("limit", limit)}
	instructions := 0
	for _, text := range p.names("match") {
		if instructions += pattern.Instructions(text); instructions > pattern.MaxInstructions {
			p.fail("match", "the regular expressions may take more than %d instructions", pattern.MaxInstructions)
			break
		}
		m, err := matcher(text)
		if err != nil {
			p.fail("match", "%v", err)
		}
		s.Matchers = append(s.Matchers, m)
	}
	return s
}

func (a *api) devices(w *response, r *http.Request, tenant string) error {
	p := parse(r, devicesParameters, "match")
	s := p.search(tenant, defaultListLimit)
	s.Limit = min(s.Limit, maxDevices)
	if done, err := w.beginJSON(p); done {
		return err
	}
	found, list, err := a.cfg.Querier.Devices(r.Context(), s)
	if err != nil {
		return err
	}
	next := ""
	if list.Truncated {
		next = found[len(found)-1].Device
	}
	return encode(w, struct {
		Devices    []query.Device `json:"devices"`
		Truncated  bool           `json:"truncated"`
		Next       string         `json:"next,omitempty"`
		Incomplete []string       `json:"incomplete,omitempty"`
	}{orEmpty(found), list.Truncated, next, list.Incomplete})
}

func (a *api) metrics(w *response, r *http.Request, tenant string) error {
	p := parse(r, metricsParameters)
	limit := p.count("limit", defaultListLimit)
	if done, err := w.beginJSON(p); done {
		return err
	}
	found, list, err := a.cfg.Querier.Metrics(r.Context(), tenant, p.values.Get("prefix"), limit)
	if err != nil {
		return err
	}
	return encode(w, struct {
		Metrics    []query.Metric `json:"metrics"`
		Truncated  bool           `json:"truncated"`
		Incomplete []string       `json:"incomplete,omitempty"`
	}{orEmpty(found), list.Truncated, list.Incomplete})
}

// defaultTop is the default number of values or names in each list.
const defaultTop = 10

func (a *api) facets(w *response, r *http.Request, tenant string) error {
	p := parse(r, facetsParameters, "match", "tag")
	s, tags := p.search(tenant, defaultTop), p.names("tag")
	if done, err := w.beginJSON(p); done {
		return err
	}
	found, devices, list, err := a.cfg.Querier.Facets(r.Context(), s, tags)
	if err != nil {
		return err
	}
	for i := range found {
		found[i].Values = orEmpty(found[i].Values)
	}
	return encode(w, struct {
		Devices    int           `json:"devices"`
		Facets     []query.Facet `json:"facets"`
		Incomplete []string      `json:"incomplete,omitempty"`
	}{devices, orEmpty(found), list.Incomplete})
}

func (a *api) cardinality(w *response, r *http.Request, tenant string) error {
	p := parse(r, cardinalityParameters, "match")
	s := p.search(tenant, defaultTop)
	if done, err := w.beginJSON(p); done {
		return err
	}
	found, err := a.cfg.Querier.Cardinality(r.Context(), s)
	if err != nil {
		return err
	}
	found.Metrics, found.Largest = orEmpty(found.Metrics), orEmpty(found.Largest)
	found.Tags, found.Labels = orEmpty(found.Tags), orEmpty(found.Labels)
	return encode(w, found)
}

// orEmpty returns a list that JSON shows as one, not as null.
func orEmpty[T any](list []T) []T { return append([]T{}, list...) }

func encode(w *response, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encode list: %w", err)
	}
	return nil
}
