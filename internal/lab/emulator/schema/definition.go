package schema

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"binnacle/internal/lab/emulator/index"
	"binnacle/internal/lab/emulator/refusal"
	"binnacle/internal/lab/emulator/sql"
)

// maxLevels is the most levels of a hierarchical partition key.
const maxLevels = 3

// Definition is what a client has said about a container. It is immutable; a replace makes a new one.
type Definition struct {
	JSON    JSON
	Keys    [][]string // partition key paths, as steps
	TTL     int32      // defaultTtl: seconds, -1 on without a default; 0 off
	Policy  *index.Policy
	covered []coveredPath
	Unique  UniqueKeys
	Queries *sql.Cache // parsed with the computed properties; nil without any
}

// Levels returns the number of components of a full partition key.
func (d *Definition) Levels() int { return len(d.Keys) }

// JSON is a container's document on the wire, and in the catalog. Policies for vectors and full text are kept as they
// were sent, and not used.
type JSON struct {
	ID                       string          `json:"id"`
	PartitionKey             keyJSON         `json:"partitionKey"`
	IndexingPolicy           index.JSON      `json:"indexingPolicy"`
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
	Version version  `json:"version,omitempty"`
}

// version is the version of a partition key. Java's client sends 2 as "V2".
type version int

// UnmarshalJSON reads a number, or the name of one in Java.
func (v *version) UnmarshalJSON(text []byte) error {
	n, err := strconv.Atoi(strings.TrimPrefix(strings.Trim(string(text), `"`), "V"))
	if err != nil && string(text) != "null" {
		return fmt.Errorf("the version of a partition key, %s, is no number", text)
	}
	*v = version(n)
	return nil
}

// New checks a definition and fills its defaults.
func New(j JSON) (*Definition, error) {
	if err := CheckName(j.ID); err != nil {
		return nil, err
	}
	d := &Definition{}
	j.PartitionKey = j.PartitionKey.withDefaults()
	if err := d.setKey(j.PartitionKey); err != nil {
		return nil, err
	}
	var err error
	if d.Unique, err = parseUniqueKeys(j.UniqueKeyPolicy); err != nil {
		return nil, err
	}
	if d.Queries, err = computed(j.ComputedProperties); err != nil {
		return nil, err
	}
	j.IndexingPolicy = j.IndexingPolicy.WithDefaults()
	j.ConflictResolutionPolicy = orDefault(j.ConflictResolutionPolicy, lastWriterWins)
	j.GeospatialConfig = orDefault(j.GeospatialConfig, geography)
	p, err := index.New(j.IndexingPolicy)
	if err != nil {
		return nil, err
	}
	d.Policy = p
	if t := j.DefaultTTL; t != nil {
		if *t != -1 && (*t < 1 || *t > math.MaxInt32) {
			return nil, refusal.BadRequest("defaultTtl must be -1 or a number of seconds from 1 to %d", math.MaxInt32)
		}
		if p.Off() {
			return nil, refusal.BadRequest("defaultTtl needs an index: indexingMode none excludes it")
		}
		d.TTL = int32(*t)
	}
	j.Docs, j.Sprocs, j.Triggers, j.UDFs, j.Conflicts = "docs/", "sprocs/", "triggers/", "udfs/", "conflicts/"
	d.JSON = j
	d.covered = coveredPaths(d)
	return d, nil
}

// The service's defaults for a container.
const (
	lastWriterWins = `{"mode":"LastWriterWins","conflictResolutionPath":"/_ts","conflictResolutionProcedure":""}`
	geography      = `{"type":"Geography"}`
)

func orDefault(said json.RawMessage, text string) json.RawMessage {
	if len(said) == 0 {
		return json.RawMessage(text)
	}
	return said
}

func (k keyJSON) withDefaults() keyJSON {
	if k.Kind == "" {
		k.Kind = "Hash"
		if len(k.Paths) > 1 {
			k.Kind = "MultiHash"
		}
	}
	return k
}

func (d *Definition) setKey(k keyJSON) error {
	switch {
	case k.Kind != "Hash" && k.Kind != "MultiHash":
		return refusal.BadRequest("the partition key kind %q is neither Hash nor MultiHash", k.Kind)
	case k.Kind == "Hash" && len(k.Paths) != 1:
		return refusal.BadRequest("a partition key of kind Hash has one path, not %d", len(k.Paths))
	case len(k.Paths) < 1 || len(k.Paths) > maxLevels:
		return refusal.BadRequest("Too many partition key paths or none: a partition key has 1 to %d paths, not %d",
			maxLevels, len(k.Paths))
	case k.Version != 0 && k.Version != 2:
		return refusal.Unsupported("partition key version %d", k.Version)
	}
	for _, p := range k.Paths {
		steps, ok := index.SplitPath(p)
		if !ok || len(steps) == 0 || slices.Contains(steps, index.AnyElement) {
			return refusal.BadRequest("the partition key path %q is not a property", p)
		}
		if slices.ContainsFunc(d.Keys, func(k []string) bool { return slices.Equal(k, steps) }) {
			return refusal.BadRequest("the partition key has the path %q twice", p)
		}
		d.Keys = append(d.Keys, steps)
	}
	return nil
}

// Replaceable returns why a container cannot take over a new definition, or nil.
func (d *Definition) Replaceable(next *Definition) *refusal.Error {
	a, b := d.JSON, next.JSON
	if a.ID != b.ID {
		return refusal.BadRequest("the id of a container cannot be replaced")
	}
	if a.PartitionKey.Kind != b.PartitionKey.Kind || !slices.Equal(a.PartitionKey.Paths, b.PartitionKey.Paths) {
		return refusal.BadRequest("the partition key of a container cannot be replaced")
	}
	if !d.Unique.equal(next.Unique) {
		return refusal.Forbidden(0, "the unique keys of a container cannot be replaced")
	}
	return nil
}

// maxName is the longest name of a database or container.
const maxName = 255

// CheckName refuses names that the service does not take.
func CheckName(id string) error {
	if id == "" || len(id) > maxName || strings.ContainsAny(id, `/\?#`) || strings.HasSuffix(id, " ") {
		return refusal.BadRequest(
			"the id %q is not a name, which has no / \\ ? # and no blank at the end. "+
				"Ensure to provide a unique non-empty string less than '%d' characters.", id, maxName)
	}
	return nil
}

// Document returns the container as it is on the wire.
func (d *Definition) Document() []byte {
	b, err := json.Marshal(d.JSON)
	if err != nil {
		panic("schema: encode a container: " + err.Error()) // it was decoded from JSON
	}
	return b
}
