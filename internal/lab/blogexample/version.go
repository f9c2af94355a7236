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

// container is how one container is made: its name and its key.
type container struct{ name, key string }

func (v Version) containers() []container {
	if v < V3 {
		return []container{{"users", "/id"}, {"posts", "/postId"}}
	}
	return []container{{"users", "/userId"}, {"posts", "/postId"}, {"feed", "/type"}}
}

// properties returns the container as the service makes it: it indexes every property, as in the article.
func (c container) properties() azcosmos.ContainerProperties {
	return azcosmos.ContainerProperties{
		ID: c.name,
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{
			Kind: azcosmos.PartitionKeyKindHash, Version: 2, Paths: []string{c.key},
		},
	}
}
