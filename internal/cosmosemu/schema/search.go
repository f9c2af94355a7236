package schema

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"binnacle/internal/cosmosemu/refusal"
)

// The policies for vectors and for full text are checked and kept. Nothing else is done with them: there is no search
// by distance or by score. What they may say: Azure Cosmos DB docs, vector-search and gen-ai/full-text-search.

type vectorPolicy struct {
	Embeddings []embedding `json:"vectorEmbeddings"`
}

type embedding struct {
	Path       string `json:"path"`
	DataType   string `json:"dataType"`
	Dimensions int    `json:"dimensions"`
	Distance   string `json:"distanceFunction"`
}

type vectorIndex struct {
	Path     string   `json:"path"`
	Type     string   `json:"type"`
	Bytes    *int     `json:"quantizationByteSize"`
	List     *int     `json:"indexingSearchListSize"`
	ShardKey []string `json:"vectorIndexShardKey"`
}

type fullTextPolicy struct {
	Default string         `json:"defaultLanguage"`
	Paths   []fullTextPath `json:"fullTextPaths"`
}

type fullTextPath struct {
	Path     string `json:"path"`
	Language string `json:"language"`
}

const maxDimensions = 4096

// Languages of full text, and what vectors are made of.
var (
	languages   = []string{"", "en-US", "de-DE", "es-ES", "fr-FR", "it-IT", "pt-BR", "pt-PT"}
	vectorTypes = []string{"float32", "float16", "int8", "uint8"}
	distances   = []string{"cosine", "dotproduct", "euclidean"}
	indexTypes  = []string{"flat", "quantizedFlat", "diskANN"}
)

// decodeInto reads one policy.
func decodeInto(raw json.RawMessage, into any) error {
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return refusal.BadRequest("One of the specified inputs is invalid: %v", err)
	}
	return nil
}

// checkVectors checks the policy for vectors and the indexes over them.
func (j JSON) checkVectors() error {
	var policy vectorPolicy
	var indexes []vectorIndex
	if err := decodeInto(j.VectorEmbeddingPolicy, &policy); err != nil {
		return err
	}
	if err := decodeInto(j.IndexingPolicy.VectorIndexes, &indexes); err != nil {
		return err
	}
	for _, e := range policy.Embeddings {
		switch {
		case !slices.Contains(vectorTypes, e.DataType):
			return refusal.BadRequest("The Vector Embedding Policy has an invalid DataType::%s: it is one of %s",
				e.DataType, strings.Join(vectorTypes, ", "))
		case e.Dimensions > maxDimensions:
			return refusal.BadRequest("The Vector Embedding Policy has Dimensions:%d which is more than the maximum "+
				"supported value %d", e.Dimensions, maxDimensions)
		case e.Dimensions < 1:
			return refusal.BadRequest("The Vector Embedding Policy has Dimensions:%d: at least 1", e.Dimensions)
		case !slices.Contains(distances, strings.ToLower(e.Distance)):
			return refusal.BadRequest("The Vector Embedding Policy has an invalid DistanceFunction:%s: it is one of %s",
				e.Distance, strings.Join(distances, ", "))
		case !strings.HasPrefix(e.Path, "/"):
			return refusal.BadRequest("The Vector Embedding Policy has an invalid Path::%s: it begins with /", e.Path)
		}
	}
	for _, i := range indexes {
		if err := i.check(policy); err != nil {
			return err
		}
	}
	return nil
}

func (i vectorIndex) check(policy vectorPolicy) error {
	at := slices.IndexFunc(policy.Embeddings, func(e embedding) bool { return e.Path == i.Path })
	switch {
	case !slices.Contains(indexTypes, i.Type):
		return refusal.BadRequest("The Vector Indexing Policy's Index Type::%s is invalid: it is one of %s",
			i.Type, strings.Join(indexTypes, ", "))
	case at < 0:
		return refusal.BadRequest("The Vector Indexing Policy's path::%s not matching in Embedding's path.", i.Path)
	case i.Bytes != nil && (*i.Bytes < 1 || *i.Bytes > min(512, policy.Embeddings[at].Dimensions)):
		return refusal.BadRequest("The Vector Indexing Policy parameter QuantizationByteSize value :: %d is out of range. "+
			"The allowed range is between 1 and %d.", *i.Bytes, min(512, policy.Embeddings[at].Dimensions))
	case i.List != nil && (*i.List < 25 || *i.List > 500):
		return refusal.BadRequest("The Vector Indexing Policy parameter IndexingSearchListSize value :: %d is out of range. "+
			"The allowed range is between 25 and 500.", *i.List)
	case len(i.ShardKey) > 1:
		return refusal.BadRequest("The number of shard paths defined in the Vector Indexing Policy: %d exceeds "+
			"the maximum: 1.", len(i.ShardKey))
	case len(i.ShardKey) == 1 && !strings.HasPrefix(i.ShardKey[0], "/"):
		return refusal.BadRequest("The Vector Indexing Policy has an invalid Shard Path: %s.", i.ShardKey[0])
	}
	return nil
}

// checkFullText checks the policy for full text and the indexes over it.
func (j JSON) checkFullText() error {
	var policy fullTextPolicy
	var indexes []fullTextPath
	if err := decodeInto(j.FullTextPolicy, &policy); err != nil {
		return err
	}
	if err := decodeInto(j.IndexingPolicy.FullTextIndexes, &indexes); err != nil {
		return err
	}
	for _, p := range append([]fullTextPath{{"/", policy.Default}}, policy.Paths...) {
		switch {
		case !strings.HasPrefix(p.Path, "/"):
			return refusal.BadRequest("The Full Text Policy contains an invalid Path: %s", p.Path)
		case !slices.Contains(languages, p.Language):
			return refusal.BadRequest("The Full Text Policy contains an unsupported language: %s", p.Language)
		}
	}
	for _, i := range indexes {
		if !slices.ContainsFunc(policy.Paths, func(p fullTextPath) bool { return p.Path == i.Path }) {
			return refusal.BadRequest("The Full Text Indexing Policy's path::%s is not in the Full Text Policy", i.Path)
		}
	}
	return nil
}

// sameVectors refuses to change the vectors of a container, or the indexes over them.
func (j JSON) sameVectors(next JSON) *refusal.Error {
	switch {
	case changed(j.IndexingPolicy.VectorIndexes, next.IndexingPolicy.VectorIndexes):
		return refusal.BadRequest("Paths in existing vector indexing policy cannot be modified in Collection Replace")
	case changed(j.VectorEmbeddingPolicy, next.VectorEmbeddingPolicy):
		return refusal.BadRequest("Paths in existing embedding policy cannot be modified in Collection Replace")
	}
	return nil
}

// changed reports whether a policy that a container has is another one now.
func changed(old, next json.RawMessage) bool {
	var a, b bytes.Buffer
	if len(old) == 0 || json.Compact(&a, old) != nil {
		return false
	}
	_ = json.Compact(&b, next) // what is not JSON leaves it empty: it differs
	return !bytes.Equal(a.Bytes(), b.Bytes())
}
