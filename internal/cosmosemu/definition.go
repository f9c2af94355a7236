package cosmosemu

import (
	"encoding/json"
	"math"
	"slices"
	"strings"

	"binnacle/internal/cosmosemu/sql"
)

// maxLevels is the most levels of a hierarchical partition key.
const maxLevels = 3

// definition is what a client has said about a container. It is immutable; a replace makes a new one.
type definition struct {
	json    definitionJSON
	keys    [][]string // partition key paths, as steps
	ttl     int32      // defaultTtl: seconds, -1 on without a default; 0 off
	policy  *policy
	covered []coveredPath
	unique  uniqueKeys
}

// levels is the number of components of a full partition key.
func (d *definition) levels() int { return len(d.keys) }

// definitionJSON is a container's document on the wire, and in the catalog.
type definitionJSON struct {
	ID                       string          `json:"id"`
	PartitionKey             keyJSON         `json:"partitionKey"`
	IndexingPolicy           policyJSON      `json:"indexingPolicy"`
	DefaultTTL               *int64          `json:"defaultTtl,omitempty"`
	AnalyticalStorageTTL     *int64          `json:"analyticalStorageTtl,omitempty"`
	UniqueKeyPolicy          json.RawMessage `json:"uniqueKeyPolicy,omitempty"`
	ConflictResolutionPolicy json.RawMessage `json:"conflictResolutionPolicy,omitempty"`
	GeospatialConfig         json.RawMessage `json:"geospatialConfig,omitempty"`
	VectorEmbeddingPolicy    json.RawMessage `json:"vectorEmbeddingPolicy,omitempty"`
	FullTextPolicy           json.RawMessage `json:"fullTextPolicy,omitempty"`
	ComputedProperties       json.RawMessage `json:"computedProperties,omitempty"`
	RID                      string          `json:"_rid"`
	Self                     string          `json:"_self"`
	ETag                     string          `json:"_etag"`
	TS                       int64           `json:"_ts"`
	Docs                     string          `json:"_docs"`
	Sprocs                   string          `json:"_sprocs"`
	Triggers                 string          `json:"_triggers"`
	UDFs                     string          `json:"_udfs"`
	Conflicts                string          `json:"_conflicts"`
}

type keyJSON struct {
	Paths   []string `json:"paths"`
	Kind    string   `json:"kind"`
	Version int      `json:"version"`
}

// newDefinition checks a definition and fills its defaults.
func newDefinition(j definitionJSON) (*definition, error) {
	if err := checkName(j.ID); err != nil {
		return nil, err
	}
	d := &definition{}
	j.PartitionKey = j.PartitionKey.withDefaults()
	if err := d.setKey(j.PartitionKey); err != nil {
		return nil, err
	}
	var err error
	if d.unique, err = parseUniqueKeys(j.UniqueKeyPolicy); err != nil {
		return nil, err
	}
	if len(j.ComputedProperties) > 0 && string(j.ComputedProperties) != "[]" && string(j.ComputedProperties) != "null" {
		return nil, unsupported("computedProperties")
	}
	j.IndexingPolicy = j.IndexingPolicy.withDefaults()
	p, err := newPolicy(j.IndexingPolicy)
	if err != nil {
		return nil, err
	}
	d.policy = p
	if t := j.DefaultTTL; t != nil {
		if *t != -1 && (*t < 1 || *t > math.MaxInt32) {
			return nil, badRequest("defaultTtl must be -1 or a number of seconds from 1 to %d", math.MaxInt32)
		}
		if p.none {
			return nil, badRequest("defaultTtl needs an index: indexingMode none excludes it")
		}
		d.ttl = int32(*t)
	}
	j.Docs, j.Sprocs, j.Triggers, j.UDFs, j.Conflicts = "docs/", "sprocs/", "triggers/", "udfs/", "conflicts/"
	d.json = j
	d.covered = coveredPaths(d)
	return d, nil
}

func (k keyJSON) withDefaults() keyJSON {
	if k.Kind == "" {
		k.Kind = "Hash"
		if len(k.Paths) > 1 {
			k.Kind = "MultiHash"
		}
	}
	if k.Version == 0 {
		k.Version = 2
	}
	return k
}

func (d *definition) setKey(k keyJSON) error {
	switch {
	case k.Kind != "Hash" && k.Kind != "MultiHash":
		return badRequest("the partition key kind %q is neither Hash nor MultiHash", k.Kind)
	case k.Kind == "Hash" && len(k.Paths) != 1:
		return badRequest("a partition key of kind Hash has one path, not %d", len(k.Paths))
	case len(k.Paths) < 1 || len(k.Paths) > maxLevels:
		return badRequest("a partition key has 1 to %d paths, not %d", maxLevels, len(k.Paths))
	case k.Version != 2:
		return unsupported("partition key version %d", k.Version)
	}
	for _, p := range k.Paths {
		steps, ok := splitPath(p)
		if !ok || len(steps) == 0 || slices.Contains(steps, anyElement) {
			return badRequest("the partition key path %q is not a property", p)
		}
		if slices.ContainsFunc(d.keys, func(k []string) bool { return slices.Equal(k, steps) }) {
			return badRequest("the partition key has the path %q twice", p)
		}
		d.keys = append(d.keys, steps)
	}
	return nil
}

// replaceable tells why a container cannot take over a new definition, or gives nil.
func (d *definition) replaceable(next *definition) error {
	a, b := d.json, next.json
	if a.ID != b.ID {
		return badRequest("the id of a container cannot be replaced")
	}
	if a.PartitionKey.Kind != b.PartitionKey.Kind || !slices.Equal(a.PartitionKey.Paths, b.PartitionKey.Paths) {
		return badRequest("the partition key of a container cannot be replaced")
	}
	if !d.unique.equal(next.unique) {
		return badRequest("the unique keys of a container cannot be replaced")
	}
	return nil
}

// maxName is the longest name of a database or container.
const maxName = 255

// checkName refuses names that the service does not take.
func checkName(id string) error {
	if id == "" || len(id) > maxName || strings.ContainsAny(id, `/\?#`) || strings.HasSuffix(id, " ") {
		return badRequest("the id %q is not a name: 1 to %d characters without / \\ ? # and no blank at the end", id, maxName)
	}
	return nil
}

// coveredPath is a property whose value is kept in the header of every item, so that queries can test
// it without reading the body.
type coveredPath struct {
	path sql.Path
	key  string
}

// maxCovered bounds the covered properties of a container.
const maxCovered = 16

// coveredPaths are the partition key paths and the single properties that the indexing policy
// includes by name.
func coveredPaths(d *definition) []coveredPath {
	var out []coveredPath
	add := func(steps []string) {
		path := make(sql.Path, len(steps))
		for i, s := range steps {
			path[i] = sql.Step{Name: s}
		}
		key := path.Key()
		known := func(c coveredPath) bool { return c.key == key }
		if len(out) < maxCovered && !slices.Contains(steps, anyElement) && !slices.ContainsFunc(out, known) {
			out = append(out, coveredPath{path, key})
		}
	}
	for _, k := range d.keys {
		add(k)
	}
	for _, p := range d.policy.included {
		if p.exact && len(p.steps) > 0 && !isAlways(p.steps[0]) {
			add(p.steps)
		}
	}
	return out
}
