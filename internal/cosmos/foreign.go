package cosmos

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"binnacle/internal/store"
	"binnacle/sharding/epk"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// Foreign reads a container of any database of the account, also one that Binnacle did not make. It changes nothing. It
// is for one caller at a time.
type Foreign struct {
	c                   *Client
	database, container string
	rus                 float64
}

// Foreign returns a reader of a container of a database.
func (c *Client) Foreign(database, container string) *Foreign {
	return &Foreign{c, database, container, 0}
}

// Charged returns the RU that all requests so far were charged.
func (f *Foreign) Charged() float64 { return f.rus }

// Description is how a container is keyed, indexed and sold.
type Description struct {
	Key          []string // paths
	Hierarchical bool
	Version      int                    // version of the partition key's hash: 1 or 2
	Indexed      func(path string) bool // reports whether the scalar property at a path is indexed
	RUs          int                    // 0: the container has no throughput itself
	Autoscale    bool
}

// PhysicalRange is a physical partition: the id by which queries name it, and its range.
type PhysicalRange struct {
	ID string
	epk.Range
}

const rangeHeader = "x-ms-documentdb-partitionkeyrangeid"

// Describe reads the definition of the container and its throughput.
func (f *Foreign) Describe(ctx context.Context) (Description, error) {
	var found azcosmos.ContainerResponse
	err := f.do(ctx, func(ctx context.Context, co *azcosmos.ContainerClient) (azcosmos.Response, error) {
		var err error
		found, err = co.Read(ctx, nil)
		return found.Response, err
	})
	if err != nil {
		return Description{}, f.explain("read the definition", err)
	}
	def := found.ContainerProperties.PartitionKeyDefinition
	d := Description{Key: def.Paths, Hierarchical: len(def.Paths) > 1, Version: max(1, def.Version),
		Indexed: indexedBy(found.ContainerProperties.IndexingPolicy)}
	if len(d.Key) == 0 {
		return d, fmt.Errorf("container %s of database %s has no partition key: it lies in one logical partition",
			f.container, f.database)
	}
	var sold azcosmos.ThroughputResponse
	err = f.do(ctx, func(ctx context.Context, co *azcosmos.ContainerClient) (azcosmos.Response, error) {
		var err error
		sold, err = co.ReadThroughput(ctx, nil)
		return sold.Response, err
	})
	if err != nil && ctx.Err() != nil {
		return d, err
	}
	if err == nil && sold.ThroughputProperties != nil { // without one the database, or the account, has the throughput
		t := throughputIn(sold.ThroughputProperties)
		d.RUs, d.Autoscale = t.RUs, t.Autoscale
	}
	return d, nil
}

// indexedBy returns whether a policy indexes a path. The most precise path counts.
func indexedBy(p *azcosmos.IndexingPolicy) func(string) bool {
	if p == nil {
		return func(string) bool { return true }
	}
	if strings.EqualFold(string(p.IndexingMode), "none") {
		return func(string) bool { return false }
	}
	return func(path string) bool {
		best, included := -1, len(p.IncludedPaths) == 0 && len(p.ExcludedPaths) == 0
		weigh := func(pattern string, in bool) {
			bare := strings.TrimRight(pattern, "*?/")
			if (path == bare || strings.HasSuffix(pattern, "*") && strings.HasPrefix(path, bare)) && len(bare) > best {
				best, included = len(bare), in
			}
		}
		for _, in := range p.IncludedPaths {
			weigh(in.Path, true)
		}
		for _, out := range p.ExcludedPaths {
			weigh(out.Path, false)
		}
		return included
	}
}

// Ranges reads the physical partitions, in the order of their ranges. The SDK does not give their ids: Ranges asks
// for an empty page of the change feed in each range, and reads the id in the SDK's request. It costs about 1 RU a
// range.
func (f *Foreign) Ranges(ctx context.Context) ([]PhysicalRange, error) {
	co, err := f.c.az.Load().NewContainer(f.database, f.container)
	if err != nil {
		return nil, f.explain("read the physical partitions", err)
	}
	found, err := co.ReadFeedRanges(ctx, nil)
	if err != nil {
		return nil, f.explain("read the physical partitions", err)
	}
	var out []PhysicalRange
	for _, r := range found {
		now := f.c.cfg.Now().Add(time.Hour) // after everything that is stored: a page without documents
		id := ""
		err := f.do(ctx, func(ctx context.Context, co *azcosmos.ContainerClient) (azcosmos.Response, error) {
			answer, err := co.ReadChangeFeed(ctx, &azcosmos.ChangeFeedOptions{FeedRange: &r, MaxItemCount: 1, StartFrom: &now})
			if raw := answer.RawResponse; raw != nil && raw.Request != nil {
				id = raw.Request.Header.Get(rangeHeader)
			}
			return answer.Response, err
		})
		if err != nil {
			return nil, f.explain("read the physical partitions", err)
		}
		out = append(out, PhysicalRange{id, epk.Range{Min: r.MinInclusive, Max: r.MaxExclusive}})
	}
	slices.SortFunc(out, func(a, b PhysicalRange) int { return epk.Compare(a.Min, b.Min) })
	return out, nil
}

// Query asks one physical partition, and calls yield with each item, which must not keep its bytes.
func (f *Foreign) Query(ctx context.Context, rangeID string, q ForeignQuery,
	yield func(item []byte) error) error {
	asked, to := query{sql: q.SQL}, f.call()
	to.maxRUs = max(q.MaxRUs, math.SmallestNonzeroFloat64)
	for i, v := range q.Values {
		asked.params = append(asked.params, param(fmt.Sprint("@p", i), v))
	}
	ctx = policy.WithHTTPHeader(ctx, http.Header{http.CanonicalHeaderKey(rangeHeader): {rangeID}})
	var usage store.Usage
	err := f.c.each(ctx, to, asked, &usage, nil, func(item []byte) error { return yieldError(yield(item)) })
	f.rus += usage.RUs
	if own, ok := errors.AsType[callerError](err); ok {
		return own.error
	}
	if err != nil {
		return f.explain("query", err)
	}
	return nil
}

// ForeignQuery is a query with the values of its parameters @p0, @p1 and so on. After a page that takes its charge
// above MaxRUs there is no further one.
type ForeignQuery struct {
	SQL    string
	Values []any
	MaxRUs float64
}

func (f *Foreign) do(ctx context.Context, send func(ctx context.Context,
	co *azcosmos.ContainerClient) (azcosmos.Response, error)) error {
	receipt, err := f.c.inContainer(ctx, f.call(), send)
	f.rus += receipt.RUs
	return err
}

func (f *Foreign) call() call {
	return call{operation: "xray", database: f.database, container: f.container, pinned: true}
}

// explain names the attempt, and what a status means for a container that Binnacle did not make.
func (f *Foreign) explain(what string, err error) error {
	answer := asError(err)
	if answer == nil && !errors.As(err, &answer) {
		return fmt.Errorf("%s of container %s in database %s: %w", what, f.container, f.database, err)
	}
	why := ""
	switch {
	case answer.Status == http.StatusNotFound:
		return fmt.Errorf("there is no container %s in a database %s of this account", f.container, f.database)
	case answer.Status == http.StatusUnauthorized:
		why = "the account refuses the key: "
	case answer.Status == http.StatusForbidden:
		why = "the identity may not read metadata and items of it: "
	case answer.Status == http.StatusGone:
		why = "its physical partitions were split meanwhile, run it again: "
	}
	return fmt.Errorf("%s of container %s in database %s: %s%w", what, f.container, f.database, why, err)
}
