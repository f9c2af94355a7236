package cosmos

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"text/template"

	"binnacle/internal/store"
	"binnacle/sharding"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// Layout is how a container is keyed and indexed.
type Layout struct {
	Name string
	Key  []string // partition key paths, such as /tenant; several make a hierarchical key
	// Indexed are the paths of properties in the index, in addition to id and _ts, which always are. Nil indexes
	// everything, as the service does by default.
	Indexed []string
	TTL     bool // items may have a ttl
}

// What the base containers get. control is hardly used: the least that is sold. catalog is written in bursts, when a
// fleet comes or is taken over, and rests in between: its throughput follows its load, from a tenth of this up, which
// costs less at rest than the least that is sold without autoscale. So does the throughput of heat, which is written
// a little all the time and seldom read.
var (
	controlThroughput = store.Throughput{RUs: 400}
	catalogThroughput = store.Throughput{RUs: 2000, Autoscale: true}
	heatThroughput    = store.Throughput{RUs: 1000, Autoscale: true}
)

// chunkLayout returns the layout of a container of chunks. Every indexed term costs on each write; the two paths of the
// key are in it because a query for a prefix of the key would scan without.
func chunkLayout(name string) Layout {
	return Layout{
		Name: name, TTL: true,
		Key:     []string{"/tenantShard", "/device"},
		Indexed: []string{"/tenantShard", "/device", "/from", "/to"},
	}
}

func rollupsLayout(name string) Layout {
	return Layout{
		Name: name, TTL: true,
		Key:     []string{"/tenantShard", "/rollup"},
		Indexed: []string{"/tenantShard", "/rollup", "/from", "/to"},
	}
}

func layoutOf(name string) Layout {
	for _, l := range baseLayouts {
		if l.Name == name {
			return l.Layout
		}
	}
	if _, _, ok := sharding.ParseRollupsContainer(name); ok {
		return rollupsLayout(name)
	}
	return chunkLayout(name)
}

// baseLayouts are the containers that every database of Binnacle has.
var baseLayouts = []struct {
	Layout
	throughput store.Throughput
}{
	{Layout{Name: store.ControlContainer, Key: []string{"/kind"}, Indexed: []string{"/kind"}}, controlThroughput},
	{Layout{Name: store.CatalogContainer, Key: []string{"/tenant", "/device"}, Indexed: []string{"/tenant", "/device"}},
		catalogThroughput},
	{Layout{Name: store.HeatContainer, TTL: true, Key: []string{"/key"}, Indexed: []string{"/key", "/from"}},
		heatThroughput},
}

// Base returns the base containers with the throughput that EnsureBase makes them with.
func Base() []store.ContainerState {
	var all []store.ContainerState
	for _, l := range baseLayouts {
		all = append(all, store.ContainerState{Name: l.Name, Throughput: l.throughput})
	}
	return all
}

// EnsureBase makes the database and its base containers unless they exist. Where containers can share throughput, the
// base containers do.
func (c *Client) EnsureBase(ctx context.Context) error {
	if err := c.ensureDatabase(ctx, store.Throughput{}); err != nil {
		return err
	}
	return ensureBase(ctx, c.Containers(), c.Containers().CreateAs)
}

// EnsureShared makes the database, with throughput for its containers to share, unless it exists: whether a database
// has any is chosen when it is made, once and for all. In a serverless account it has none.
func (c *Client) EnsureShared(ctx context.Context, t store.Throughput) error {
	err := c.ensureDatabase(ctx, t)
	if errors.Is(err, store.ErrServerless) {
		return c.ensureDatabase(ctx, store.Throughput{})
	}
	return err
}

func (c *Client) ensureDatabase(ctx context.Context, t store.Throughput) error {
	var options azcosmos.CreateDatabaseOptions
	if t.RUs > 0 {
		p := throughput(t)
		options.ThroughputProperties = &p
	}
	_, err := c.do(ctx, call{operation: "database_create", changes: repeatable}, func(ctx context.Context,
		az *azcosmos.Client) (azcosmos.Response, error) {
		resp, err := az.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: store.Database}, &options)
		return resp.Response, err
	})
	if err != nil && !is(err, http.StatusConflict) {
		return failed("create database "+store.Database, err)
	}
	return nil
}

// ensureBase makes the base containers in a database unless they exist.
func ensureBase(ctx context.Context, in interface {
	ReadThroughput(ctx context.Context, name string) (store.ContainerState, error)
}, create func(ctx context.Context, l Layout, t store.Throughput) error) error {
	_, err := in.ReadThroughput(ctx, store.Database)
	if err != nil && !errors.Is(err, store.ErrNoContainer) && !errors.Is(err, store.ErrDenied) {
		return err
	}
	for _, l := range baseLayouts {
		t := l.throughput
		if err == nil {
			t = store.Throughput{Shared: true}
		}
		if err := create(ctx, l.Layout, t); err != nil {
			return err
		}
	}
	return nil
}

func (l Layout) properties() azcosmos.ContainerProperties {
	kind := azcosmos.PartitionKeyKindHash
	if len(l.Key) > 1 {
		kind = azcosmos.PartitionKeyKindMultiHash
	}
	p := azcosmos.ContainerProperties{
		ID:                     l.Name,
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Kind: kind, Version: 2, Paths: l.Key},
	}
	if l.TTL {
		never := int32(-1) // on, and items without their own never expire
		p.DefaultTimeToLive = &never
	}
	if l.Indexed != nil {
		policy := &azcosmos.IndexingPolicy{
			Automatic: true, IndexingMode: azcosmos.IndexingModeConsistent,
			ExcludedPaths: []azcosmos.ExcludedPath{{Path: "/*"}},
		}
		for _, path := range l.Indexed {
			policy.IncludedPaths = append(policy.IncludedPaths, azcosmos.IncludedPath{Path: path + "/?"})
		}
		p.IndexingPolicy = policy
	}
	return p
}

// Exports are the languages in which Export writes.
var Exports = []string{"arm", "bicep", "terraform"}

// armVersion is the version of the service's own interface that templates and requests of ARM are written for.
const armVersion = "2024-11-15"

//go:embed export/*.tmpl
var exports embed.FS

// Export returns the database and the containers that infrastructure code owns, in the language of its tool: with the
// keys, the index and the throughput that EnsureBase makes. Containers of chunks and rollups are made by provision
// alone, month by month, and are in none of them.
func Export(language string) ([]byte, error) {
	if !slices.Contains(Exports, language) {
		return nil, fmt.Errorf("there is no export as %q; there are %s", language, strings.Join(Exports, ", "))
	}
	quoted := func(quote string, all []string) string {
		return quote + strings.Join(all, quote+", "+quote) + quote
	}
	t, err := template.New(language+".tmpl").Funcs(template.FuncMap{"quoted": quoted}).
		ParseFS(exports, "export/"+language+".tmpl")
	if err != nil {
		return nil, fmt.Errorf("export as %s: %w", language, err)
	}
	var b bytes.Buffer
	err = t.Execute(&b, map[string]any{"Database": store.Database, "API": armVersion, "Containers": exportedBase()})
	if err != nil {
		return nil, fmt.Errorf("export as %s: %w", language, err)
	}
	return b.Bytes(), nil
}

// exported is a container as templates see it.
type exported struct {
	Name, Kind    string
	Key, Indexed  []string
	RUs           int
	Autoscale     bool
	Hierarchical  bool
	Expires       bool // documents may have a time to live
	Version, Keys int
}

func exportedBase() (out []exported) {
	for _, l := range baseLayouts {
		p := l.properties()
		e := exported{
			Name: l.Name, Kind: string(p.PartitionKeyDefinition.Kind), Key: l.Key, RUs: l.throughput.RUs,
			Autoscale: l.throughput.Autoscale, Hierarchical: len(l.Key) > 1, Keys: len(l.Key),
			Version: p.PartitionKeyDefinition.Version, Expires: l.TTL,
		}
		for _, path := range p.IndexingPolicy.IncludedPaths {
			e.Indexed = append(e.Indexed, path.Path)
		}
		out = append(out, e)
	}
	return out
}
