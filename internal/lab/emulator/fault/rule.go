// Package fault has rules by which an emulator fails on purpose: which requests one is for, how many of them it hits,
// and what becomes of those. A Set holds the rules of one emulator and may be changed while it serves. It must not
// know how requests arrive or are answered.
package fault

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// The operations of a Rule. Metadata is every request that is not about items.
const (
	Create   = "create"
	Upsert   = "upsert"
	Replace  = "replace"
	Patch    = "patch"
	Delete   = "delete"
	Batch    = "batch"
	Read     = "read"
	Query    = "query"
	Changes  = "changes" // the change feed
	Metadata = "metadata"
)

var operations = []string{Create, Upsert, Replace, Patch, Delete, Batch, Read, Query, Changes, Metadata}

// Rule sets what happens to some requests. Its zero value covers every operation on items, hits each request,
// without end, and does nothing: a rule must have an effect.
type Rule struct {
	// Name is said in the answers that the rule makes, and in its counts.
	Name string `json:"name,omitempty"`

	// Operations that the rule is for. None: every one but Metadata.
	Operations []string `json:"operations,omitempty"`
	// Database and Container are patterns of path.Match, such as chunks-*. "": all.
	Database  string `json:"database,omitempty"`
	Container string `json:"container,omitempty"`

	// Skip is how many requests pass before the first is hit.
	Skip int `json:"skip,omitempty"`
	// Count is how many requests are hit, 0 for no end.
	Count int `json:"count,omitempty"`
	// Probability that a request after those is hit; 0 is 1.
	Probability float64 `json:"probability,omitempty"`

	// LatencyMs is how many milliseconds the answer comes late, and JitterMs what is added to that at most, by chance.
	LatencyMs int `json:"latencyMs,omitempty"`
	JitterMs  int `json:"jitterMs,omitempty"`
	// Status, 400 to 599, is answered in place of what the request would get, with Substatus and RetryAfterMs, if set.
	Status       int `json:"status,omitempty"`
	Substatus    int `json:"substatus,omitempty"`
	RetryAfterMs int `json:"retryAfterMs,omitempty"`
	// Drop ends the connection without an answer.
	Drop bool `json:"drop,omitempty"`
	// Hang answers nothing until the client gives up, or the rules change; then the connection ends.
	Hang bool `json:"hang,omitempty"`
	// Applied does the request before any of this happens to its answer. Without it, a request that gets Status, Drop
	// or Hang is not done at all, and one that is only late is done after LatencyMs.
	Applied bool `json:"applied,omitempty"`
}

// maxMs is an hour.
const maxMs = 3_600_000

func (r Rule) mistakes() (all []error) {
	wrong := func(is bool, format string, args ...any) {
		if is {
			all = append(all, fmt.Errorf(format, args...))
		}
	}
	for _, o := range r.Operations {
		wrong(!slices.Contains(operations, o), "the operation %q is none of %s", o, strings.Join(operations, ", "))
	}
	for _, pattern := range []string{r.Database, r.Container} {
		_, err := path.Match(pattern, "")
		wrong(err != nil, "%q is no pattern of names", pattern)
	}
	wrong(r.Skip < 0 || r.Count < 0, "skip and count are at least 0")
	wrong(!(r.Probability >= 0 && r.Probability <= 1), "the probability %v is not from 0 to 1", r.Probability)
	for _, ms := range []int{r.LatencyMs, r.JitterMs, r.RetryAfterMs} {
		wrong(ms < 0 || ms > maxMs, "latencyMs, jitterMs and retryAfterMs are at least 0 and at most %d", maxMs)
	}
	wrong(r.Status != 0 && (r.Status < 400 || r.Status > 599), "the status %d is not from 400 to 599", r.Status)
	wrong(r.Status == 0 && (r.Substatus != 0 || r.RetryAfterMs != 0), "substatus and retryAfterMs need a status")
	effects := 0
	for _, on := range []bool{r.Status != 0, r.Drop, r.Hang} {
		if on {
			effects++
		}
	}
	wrong(effects > 1, "status, drop and hang exclude each other")
	wrong(effects == 0 && r.LatencyMs == 0 && r.JitterMs == 0,
		"it has no effect: latencyMs, jitterMs, status, drop or hang")
	return all
}

// Request is what rules know of a request.
type Request struct {
	Operation string
	Database  string // "" for none, as Container
	Container string
}

func (r *Rule) matches(q Request) bool {
	if len(r.Operations) == 0 && q.Operation == Metadata ||
		len(r.Operations) > 0 && !slices.Contains(r.Operations, q.Operation) {
		return false
	}
	return named(r.Database, q.Database) && named(r.Container, q.Container)
}

func named(pattern, name string) bool {
	if pattern == "" {
		return true
	}
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}
