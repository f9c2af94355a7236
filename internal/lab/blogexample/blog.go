package blogexample

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// ErrNotFound is the error of a comment on, or a like of, a post that does not exist.
var ErrNotFound = errors.New("no such post")

const database = "blog"

// Setup is how a Blog is stored.
type Setup struct {
	Version Version
	// PhysicalPartitions is the number of physical partitions in every container.
	PhysicalPartitions int
	Model              ru.Model
}

// Blog is the application in one version, on a separate embedded Cosmos DB. Its methods return their cost. It
// is safe for concurrent use.
type Blog struct {
	setup   Setup
	version Version
	server  *emulator.Server
	az      *azcosmos.Client
	users   *azcosmos.ContainerClient
	posts   *azcosmos.ContainerClient
	// feed exists from V3 on.
	feed *azcosmos.ContainerClient
}

// Open makes an empty blog. Budgets are off: charges are counted, and nothing is answered 429.
func Open(ctx context.Context, setup Setup) (*Blog, error) {
	b := &Blog{setup: setup, version: setup.Version}
	var err error
	b.server, err = emulator.Open(emulator.Config{
		InMemory: true, Unlimited: true, PhysicalPartitions: setup.PhysicalPartitions, Model: setup.Model,
	})
	if err != nil {
		return nil, err
	}
	if err := b.connect(ctx); err != nil {
		b.Close()
		return nil, fmt.Errorf("make the blog: %w", err)
	}
	return b, nil
}

// connect makes the client, the database and the version's containers.
func (b *Blog) connect(ctx context.Context) error {
	key, err := azcosmos.NewKeyCredential(emulator.Key)
	if err != nil {
		return err
	}
	b.az, err = azcosmos.NewClientWithKey(b.server.Endpoint(), key, &azcosmos.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: b.server.Transport(), Retry: policy.RetryOptions{MaxRetries: -1}},
	})
	if err != nil {
		return err
	}
	if _, err := b.az.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: database}, nil); err != nil {
		return err
	}
	db, err := b.az.NewDatabase(database)
	if err != nil {
		return err
	}
	clients := map[string]**azcosmos.ContainerClient{"users": &b.users, "posts": &b.posts, "feed": &b.feed}
	throughput := azcosmos.NewManualThroughputProperties(400)
	for _, c := range b.version.containers() {
		if _, err := db.CreateContainer(ctx, c.properties(),
			&azcosmos.CreateContainerOptions{ThroughputProperties: &throughput}); err != nil {
			return err
		}
		if *clients[c.name], err = b.az.NewContainer(database, c.name); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the blog and drops its data.
func (b *Blog) Close() {
	if b.az != nil {
		b.az.Close()
	}
	_ = b.server.Close() // it is in memory: nothing can be lost
}

// Cost is what an operation took, in modelled request units.
type Cost struct{ RUs float64 }

func (c *Cost) count(r azcosmos.Response) { c.RUs += float64(r.RequestCharge) }

func key(value string) azcosmos.PartitionKey { return azcosmos.NewPartitionKeyString(value) }

func read[T any](ctx context.Context, from *azcosmos.ContainerClient, k, id string, cost *Cost) (item T, err error) {
	r, err := from.ReadItem(ctx, key(k), id, nil)
	if err != nil {
		return item, fmt.Errorf("read %s: %w", id, err)
	}
	cost.count(r.Response)
	return item, json.Unmarshal(r.Value, &item)
}

// query is a question to one container.
type query struct {
	from   *azcosmos.ContainerClient
	sql    string
	params []azcosmos.QueryParameter
	// key is the full partition key, or the empty one: then all physical partitions are asked.
	key azcosmos.PartitionKey
}

// dynamicPage lets the service choose the size of a page.
const dynamicPage = -1

func ask[T any](ctx context.Context, q query, cost *Cost) ([]T, error) {
	var out []T
	pager := q.from.NewQueryItemsPager(q.sql, q.key, &azcosmos.QueryOptions{QueryParameters: q.params,
		PageSizeHint: dynamicPage})
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("query %q: %w", q.sql, err)
		}
		cost.count(page.Response)
		for _, row := range page.Items {
			var item T
			if err := json.Unmarshal(row, &item); err != nil {
				return nil, fmt.Errorf("query %q: %w", q.sql, err)
			}
			out = append(out, item)
		}
	}
	return out, nil
}

func with(name string, value any) azcosmos.QueryParameter {
	return azcosmos.QueryParameter{Name: name, Value: value}
}

// transact runs a transactional batch: all of it, or nothing.
func transact(ctx context.Context, in *azcosmos.ContainerClient, batch azcosmos.TransactionalBatch, cost *Cost) error {
	r, err := in.ExecuteTransactionalBatch(ctx, batch, nil)
	if err != nil {
		return err
	}
	cost.count(r.Response)
	if r.Success {
		return nil
	}
	for i, op := range r.OperationResults {
		switch op.StatusCode {
		case http.StatusFailedDependency:
		case http.StatusNotFound:
			return fmt.Errorf("operation %d of a batch: %w", i, ErrNotFound)
		default:
			return fmt.Errorf("operation %d of a batch: status %d", i, op.StatusCode)
		}
	}
	return errors.New("a batch failed without a reason")
}

// rangeHeader addresses a request to one physical partition.
const rangeHeader = "x-ms-documentdb-partitionkeyrangeid"

// mergeNewest asks every physical partition for its newest posts and merges the answers. The service's
// gateway does not serve an ORDER BY over several of them: SDKs with a query engine do this inside, and
// azcosmos has none. Nor does it tell the ids of the partitions, so they come from the emulator.
func (b *Blog) mergeNewest(ctx context.Context, sql string, cost *Cost) ([]Post, error) {
	partitions, err := b.server.Partitions(database, "posts")
	if err != nil {
		return nil, err
	}
	var all []Post
	for _, p := range partitions {
		ctx := policy.WithHTTPHeader(ctx, http.Header{rangeHeader: {p.ID}})
		posts, err := ask[Post](ctx, query{from: b.posts, sql: sql, key: azcosmos.NewPartitionKey()}, cost)
		if err != nil {
			return nil, fmt.Errorf("physical partition %s: %w", p.ID, err)
		}
		all = append(all, posts...)
	}
	slices.SortFunc(all, newer)
	return all[:min(len(all), FrontPage)], nil
}

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
