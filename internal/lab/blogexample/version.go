package blogexample

import "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

// Version is one of the article's three data models.
type Version int

const (
	// V1 is normalised: users by id; posts, comments and likes by post. Names and counts are looked up.
	V1 Version = iota + 1
	// V2 keeps the author's name in every item and the counts in the post.
	V2
	// V3 also keeps a short copy of every post under its author, and one of the newest in a feed.
	V3
)

// String returns V1, V2 or V3.
func (v Version) String() string { return [...]string{V1: "V1", V2: "V2", V3: "V3"}[v] }

// Indexing is what the containers index.
type Indexing string

const (
	// IndexAll is the default policy: every property. The article measured with it.
	IndexAll Indexing = "every property"
	// IndexSelected indexes what the blog filters or sorts on, and nothing else.
	IndexSelected Indexing = "selected paths"
)

// container is how one container is made: its key, and the paths that IndexSelected indexes. A partition
// key is not indexed by itself, unless it is the id.
type container struct {
	name, key string
	selected  []string
}

func (v Version) containers() []container {
	posts := container{"posts", "/postId", []string{"/postId/?", "/type/?", "/userId/?", "/creationDate/?"}}
	if v < V3 {
		return []container{{"users", "/id", nil}, posts}
	}
	posts.selected = posts.selected[:3] // sorted in the feed only
	return []container{
		{"users", "/userId", []string{"/userId/?", "/type/?"}},
		posts,
		{"feed", "/type", []string{"/type/?", "/creationDate/?"}},
	}
}

func (c container) properties(indexing Indexing) azcosmos.ContainerProperties {
	p := azcosmos.ContainerProperties{
		ID: c.name,
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{
			Kind: azcosmos.PartitionKeyKindHash, Version: 2, Paths: []string{c.key},
		},
	}
	if indexing == IndexSelected {
		p.IndexingPolicy = &azcosmos.IndexingPolicy{
			Automatic: true, IndexingMode: azcosmos.IndexingModeConsistent,
			ExcludedPaths: []azcosmos.ExcludedPath{{Path: "/*"}},
		}
		for _, path := range c.selected {
			p.IndexingPolicy.IncludedPaths = append(p.IndexingPolicy.IncludedPaths, azcosmos.IncludedPath{Path: path})
		}
	}
	return p
}
