package blogexample

// figure is what the article gives for one pattern and version.
type figure struct{ rus, ms float64 }

// pattern is an access pattern with what the article has published for V1, V2 and V3 (Azure Cosmos DB docs,
// model-partition-example, 2025; the same since 2019).
type pattern struct {
	name, what string
	published  [3]figure
}

// patterns are the article's, in its order.
var patterns = []pattern{
	{"C1", "create a user", [3]figure{{5.71, 7}, {5.71, 7}, {5.71, 7}}},
	{"Q1", "read a user", [3]figure{{1, 2}, {1, 2}, {1, 2}}},
	{"C2", "create a post", [3]figure{{8.76, 9}, {8.76, 9}, {8.76, 9}}},
	{"Q2", "read a post", [3]figure{{19.54, 9}, {1, 2}, {1, 2}}},
	{"Q3", "a user's posts", [3]figure{{619.41, 130}, {201.54, 28}, {6.46, 4}}},
	{"C3", "create a comment", [3]figure{{8.57, 7}, {15.27, 7}, {15.27, 7}}},
	{"Q4", "a post's comments", [3]figure{{27.72, 23}, {7.72, 4}, {7.72, 4}}},
	{"C4", "like a post", [3]figure{{7.05, 6}, {14.67, 7}, {14.67, 7}}},
	{"Q5", "a post's likes", [3]figure{{58.92, 59}, {8.92, 4}, {8.92, 4}}},
	{"Q6", "the newest posts", [3]figure{{2063.54, 306}, {532.33, 83}, {16.97, 9}}},
}
