package index

import (
	"encoding/json"
	"slices"
	"strings"

	"binnacle/internal/lab/emulator/refusal"
)

// Policy is the indexing policy of a container, in the form that charges and queries ask it.
type Policy struct {
	none       bool // indexingMode none: no index at all
	root       *rule
	included   []policyPath // all included paths but /*
	composites [][]compositePath
}

// rule is a node of the tree of paths. The most precise rule for a path wins.
type rule struct {
	children map[string]*rule
	exact    verdict // /path/?  : the scalar here
	subtree  verdict // /path/*  : all that is here and below
}

type verdict uint8

const (
	unsaid verdict = iota
	include
	exclude
)

// policyPath is one path of the policy; a step is a property name, or anyElement.
type policyPath struct {
	steps []string
	exact bool // ends in ?, else in *
}

// JSON is the policy as clients send it. What the emulator does not interpret is kept.
type JSON struct {
	IndexingMode     string          `json:"indexingMode"`
	Automatic        *bool           `json:"automatic"`
	IncludedPaths    []pathJSON      `json:"includedPaths"`
	ExcludedPaths    []pathJSON      `json:"excludedPaths"`
	SpatialIndexes   json.RawMessage `json:"spatialIndexes,omitempty"`
	CompositeIndexes json.RawMessage `json:"compositeIndexes,omitempty"`
	VectorIndexes    json.RawMessage `json:"vectorIndexes,omitempty"`
	FullTextIndexes  json.RawMessage `json:"fullTextIndexes,omitempty"`
}

type pathJSON struct {
	Path string `json:"path"`
}

// WithDefaults fills what a client may leave out, as the service does.
func (p JSON) WithDefaults() JSON {
	p.IndexingMode = strings.ToLower(p.IndexingMode)
	if p.IndexingMode == "" {
		p.IndexingMode = "consistent"
	}
	if p.Automatic == nil {
		automatic := p.IndexingMode != "none"
		p.Automatic = &automatic
	}
	if p.IndexingMode != "none" && len(p.IncludedPaths) == 0 && len(p.ExcludedPaths) == 0 {
		p.IncludedPaths = []pathJSON{{"/*"}}
	}
	if etag := (pathJSON{`/"_etag"/?`}); p.IndexingMode != "none" && !slices.Contains(p.ExcludedPaths, etag) {
		p.ExcludedPaths = append(slices.Clone(p.ExcludedPaths), etag)
	}
	if p.IncludedPaths == nil {
		p.IncludedPaths = []pathJSON{}
	}
	if p.ExcludedPaths == nil {
		p.ExcludedPaths = []pathJSON{}
	}
	return p
}

// New checks a policy that has its defaults.
func New(p JSON) (*Policy, error) {
	out := &Policy{root: &rule{}, none: p.IndexingMode == "none"}
	if p.IndexingMode != "none" && p.IndexingMode != "consistent" {
		return nil, refusal.BadRequest("the indexing mode %q is neither consistent nor none", p.IndexingMode)
	}
	for _, group := range []struct {
		paths []pathJSON
		as    verdict
	}{{p.IncludedPaths, include}, {p.ExcludedPaths, exclude}} {
		for _, j := range group.paths {
			path, err := parsePolicyPath(j.Path)
			if err != nil {
				return nil, err
			}
			if !out.set(path, group.as) {
				return nil, refusal.BadRequest("the indexing path %q is included and excluded", j.Path)
			}
			if group.as == include && (path.exact || len(path.steps) > 0) {
				out.included = append(out.included, path)
			}
		}
	}
	if !out.none && out.root.subtree == unsaid {
		return nil, refusal.BadRequest("the indexing policy must include or exclude the path /*")
	}
	return out, out.setComposites(p.CompositeIndexes)
}

func (p *Policy) set(path policyPath, as verdict) bool {
	at := p.root
	for _, s := range path.steps {
		if at.children == nil {
			at.children = map[string]*rule{}
		}
		if at.children[s] == nil {
			at.children[s] = &rule{}
		}
		at = at.children[s]
	}
	slot := &at.subtree
	if path.exact {
		slot = &at.exact
	}
	if *slot != unsaid && *slot != as {
		return false
	}
	*slot = as
	return true
}

// Off reports whether there is no index at all.
func (p *Policy) Off() bool { return p.none }

// Scalars returns the single properties that are included by name, but for id and _ts.
func (p *Policy) Scalars() [][]string {
	var out [][]string
	for _, path := range p.included {
		if path.exact && len(path.steps) > 0 && !isAlways(path.steps[0]) {
			out = append(out, path.steps)
		}
	}
	return out
}

// Indexed reports whether a scalar at this path is in the index. id and _ts always are, without a policy
// of none.
func (p *Policy) Indexed(steps []string) bool {
	if p.none {
		return false
	}
	if onlyAlways(steps) {
		return true
	}
	at, verdict := p.root, p.root.subtree
	for _, s := range steps {
		if at = at.children[s]; at == nil {
			return verdict == include
		}
		if at.subtree != unsaid {
			verdict = at.subtree
		}
	}
	if at.exact != unsaid {
		verdict = at.exact
	}
	return verdict == include
}

// parsePolicyPath reads /a/b/?, /a/[]/*, /"a b"/?.
func parsePolicyPath(text string) (policyPath, error) {
	bad := refusal.BadRequest("the indexing path %q must begin with / and end in /? or /*", text)
	if text == "/" { // policies of old: all that is below
		return policyPath{}, nil
	}
	steps, ok := SplitPath(text)
	if !ok || len(steps) == 0 {
		return policyPath{}, bad
	}
	last := steps[len(steps)-1]
	if last != "?" && last != "*" {
		return policyPath{}, bad
	}
	steps = steps[:len(steps)-1]
	if slices.Contains(steps, "?") || slices.Contains(steps, "*") {
		return policyPath{}, refusal.BadRequest("the indexing path %q has a wildcard before its end", text)
	}
	return policyPath{steps: steps, exact: last == "?"}, nil
}
