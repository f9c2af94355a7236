package blogexample

// published are the article's access patterns, in its order, with the charges that it gives for V1, V2 and V3 (Azure
// Cosmos DB docs, model-partition-example, 2025; the same since 2019).
var published = []Pattern{
	{Name: "C1", What: "create a user", Published: [3]float64{5.71, 5.71, 5.71}},
	{Name: "Q1", What: "read a user", Published: [3]float64{1, 1, 1}},
	{Name: "C2", What: "create a post", Published: [3]float64{8.76, 8.76, 8.76}},
	{Name: "Q2", What: "read a post", Published: [3]float64{19.54, 1, 1}},
	{Name: "Q3", What: "a user's posts", Published: [3]float64{619.41, 201.54, 6.46}},
	{Name: "C3", What: "create a comment", Published: [3]float64{8.57, 15.27, 15.27}},
	{Name: "Q4", What: "a post's comments", Published: [3]float64{27.72, 7.72, 7.72}},
	{Name: "C4", What: "like a post", Published: [3]float64{7.05, 14.67, 14.67}},
	{Name: "Q5", What: "a post's likes", Published: [3]float64{58.92, 8.92, 8.92}},
	{Name: "Q6", What: "the newest posts", Published: [3]float64{2063.54, 532.33, 16.97}},
}
