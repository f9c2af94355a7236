package cosmos_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"binnacle/internal/cosmos"
	"binnacle/internal/store"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	azfake "github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/stretchr/testify/require"
)

// What Azure Resource Manager takes and answers, by its reference.
type (
	armThroughput struct {
		Throughput          *int32        `json:"throughput,omitempty"`
		AutoscaleSettings   *armAutoscale `json:"autoscaleSettings,omitempty"`
		MinimumThroughput   *string       `json:"minimumThroughput,omitempty"`
		OfferReplacePending *string       `json:"offerReplacePending,omitempty"`
	}
	armAutoscale struct {
		MaxThroughput *int32 `json:"maxThroughput"`
	}
	armPath struct {
		Path string `json:"path"`
	}
	armContainer struct {
		ID           string `json:"id"`
		DefaultTTL   *int32 `json:"defaultTtl"`
		PartitionKey struct {
			Kind    string   `json:"kind"`
			Version int32    `json:"version"`
			Paths   []string `json:"paths"`
		} `json:"partitionKey"`
		IndexingPolicy *struct {
			Automatic     bool      `json:"automatic"`
			IndexingMode  string    `json:"indexingMode"`
			IncludedPaths []armPath `json:"includedPaths"`
			ExcludedPaths []armPath `json:"excludedPaths"`
		} `json:"indexingPolicy"`
	}
	armBody[R any] struct {
		Properties struct {
			Resource R              `json:"resource"`
			Options  *armThroughput `json:"options"`
		} `json:"properties"`
	}
)

// manager is Azure Resource Manager with one account: its REST interface, where each operation ends at once.
// https://learn.microsoft.com/rest/api/cosmos-db-resource-provider/sql-resources
type manager struct {
	t          *testing.T
	database   bool
	containers map[string]*armContainer
	throughput map[string]*armThroughput
	denied     bool
	serverless bool
}

func (m *manager) arm() *cosmos.ARM {
	a, err := cosmos.NewARM(cosmos.ARMConfig{
		Subscription: "sub", ResourceGroup: "rg", Account: "acct", Token: &azfake.TokenCredential{}, Transport: m,
		Poll: time.Second,
	})
	require.NoError(m.t, err)
	return a
}

const databases = "/subscriptions/sub/resourceGroups/rg/providers/Microsoft.DocumentDB/databaseAccounts/acct/" +
	"sqlDatabases/"

// Do answers a request for the database, for a container, for the list of containers, or for a throughput.
func (m *manager) Do(r *http.Request) (*http.Response, error) {
	status, body := http.StatusForbidden, any(map[string]any{"error": map[string]string{"code": "AuthorizationFailed"}})
	if !m.denied {
		path, ok := strings.CutPrefix(r.URL.Path, databases+store.Database)
		require.True(m.t, ok, r.URL.Path)
		path, ofThroughput := strings.CutSuffix(path, "/throughputSettings/default")
		name := strings.TrimPrefix(strings.TrimPrefix(path, "/containers"), "/")
		switch {
		case m.serverless && (ofThroughput || r.Method == http.MethodPut && m.asksThroughput(r)):
			status, body = http.StatusBadRequest, map[string]any{"error": map[string]string{"code": "BadRequest",
				"message": "Message: {\"code\":\"BadRequest\",\"message\":\"... not supported for serverless accounts.\"}"}}
		case ofThroughput:
			status, body = m.throughputOf(cmp.Or(name, store.Database), r)
		case path == "":
			status, body = m.theDatabase(r)
		case name == "":
			status, body = m.list()
		default:
			status, body = m.container(name, r)
		}
	}
	text, err := json.Marshal(body)
	require.NoError(m.t, err)
	return &http.Response{
		StatusCode: status, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(text)),
	}, nil
}

// read decodes the body of a request.
func (m *manager) read(r *http.Request, into any) {
	require.NoError(m.t, json.NewDecoder(r.Body).Decode(into))
}

var notFound = map[string]any{"error": map[string]string{"code": "NotFound"}}

func (m *manager) theDatabase(r *http.Request) (int, any) {
	if r.Method == http.MethodPut {
		var p armBody[struct{ ID string }]
		m.read(r, &p)
		require.Equal(m.t, store.Database, p.Properties.Resource.ID)
		m.database = true
		if o := p.Properties.Options; o != nil {
			m.throughput[store.Database] = &armThroughput{Throughput: o.Throughput}
		}
	}
	if !m.database {
		return http.StatusNotFound, notFound
	}
	return http.StatusOK, map[string]any{}
}

func (m *manager) list() (int, any) {
	if !m.database {
		return http.StatusNotFound, notFound
	}
	value := []any{}
	for name := range m.containers {
		value = append(value, map[string]string{"name": name})
	}
	return http.StatusOK, map[string]any{"value": value}
}

func (m *manager) container(name string, r *http.Request) (int, any) {
	switch r.Method {
	case http.MethodPut:
		require.NotContains(m.t, m.containers, name, "a container that exists would be changed")
		var p armBody[*armContainer]
		m.read(r, &p)
		m.containers[name] = p.Properties.Resource
		if o := p.Properties.Options; o != nil {
			m.throughput[name] = &armThroughput{Throughput: o.Throughput, MinimumThroughput: to.Ptr("400")}
			if a := o.AutoscaleSettings; a != nil {
				m.throughput[name].AutoscaleSettings = &armAutoscale{MaxThroughput: a.MaxThroughput}
			}
		}
		return http.StatusOK, map[string]any{}
	case http.MethodDelete:
		if m.containers[name] == nil {
			return http.StatusNotFound, notFound
		}
		delete(m.containers, name)
		delete(m.throughput, name)
		return http.StatusNoContent, nil
	}
	return http.StatusMethodNotAllowed, nil
}

func (m *manager) throughputOf(name string, r *http.Request) (int, any) {
	found := m.throughput[name]
	if found == nil {
		return http.StatusNotFound, notFound
	}
	if r.Method == http.MethodPut {
		var p armBody[armThroughput]
		m.read(r, &p)
		wanted := p.Properties.Resource
		found.Throughput, found.AutoscaleSettings = wanted.Throughput, wanted.AutoscaleSettings
		found.OfferReplacePending = to.Ptr("True")
	}
	var answer armBody[*armThroughput]
	answer.Properties.Resource = found
	return http.StatusOK, answer
}

func newManager(t *testing.T) *manager {
	return &manager{
		t: t, containers: map[string]*armContainer{}, throughput: map[string]*armThroughput{},
	}
}

// The containers that an identity makes are those that a key makes: the same keys, index and TTL.
func TestARMContainers(t *testing.T) {
	m := newManager(t)
	a, ctx := m.arm(), t.Context()
	names, err := m.arm().List(ctx)
	require.NoError(t, err)
	require.Empty(t, names, "there is no database")
	for range 2 {
		require.NoError(t, a.EnsureBase(ctx))
		require.NoError(t, a.Create(ctx, "chunks-2026-11", store.Throughput{RUs: 4000, Autoscale: true}))
	}
	names, err = a.List(ctx)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"control", "catalog", "heat", "chunks-2026-11"}, names)

	chunks := m.containers["chunks-2026-11"]
	require.Equal(t, "MultiHash", chunks.PartitionKey.Kind)
	require.Equal(t, int32(2), chunks.PartitionKey.Version)
	require.Equal(t, []string{"/tenantShard", "/device"}, chunks.PartitionKey.Paths)
	require.Equal(t, int32(-1), *chunks.DefaultTTL)
	var indexed []string
	for _, p := range chunks.IndexingPolicy.IncludedPaths {
		indexed = append(indexed, p.Path)
	}
	require.Equal(t, []string{"/tenantShard/?", "/device/?", "/from/?", "/to/?"}, indexed)
	require.Equal(t, "Hash", m.containers["control"].PartitionKey.Kind)
	require.Equal(t, "consistent", chunks.IndexingPolicy.IndexingMode)

	state, err := a.ReadThroughput(ctx, "chunks-2026-11")
	require.NoError(t, err)
	autoscale := store.Throughput{RUs: 4000, Autoscale: true}
	require.Equal(t, store.ContainerState{Name: "chunks-2026-11", Throughput: autoscale, MinRUs: 400}, state)
	require.NoError(t, a.SetThroughput(ctx, "control", store.Throughput{RUs: 800}))
	state, err = a.ReadThroughput(ctx, "control")
	require.NoError(t, err)
	manual := store.Throughput{RUs: 800}
	require.Equal(t, store.ContainerState{Name: "control", Throughput: manual, MinRUs: 400, Pending: true}, state)

	require.NoError(t, a.Delete(ctx, "chunks-2026-11"))
	require.NoError(t, a.Delete(ctx, "chunks-2026-11"), "one that is missing is no error")
	_, err = a.ReadThroughput(ctx, "chunks-2026-11")
	require.ErrorIs(t, err, store.ErrNoContainer)
	require.ErrorIs(t, a.SetThroughput(ctx, "chunks-2026-11", store.Throughput{RUs: 400}), store.ErrNoContainer)
}

// In a database with throughput, the base containers share it, and so do others that are made so.
func TestARMSharedThroughput(t *testing.T) {
	m := newManager(t)
	a, ctx := m.arm(), t.Context()
	for range 2 {
		require.NoError(t, a.EnsureShared(ctx, store.Throughput{RUs: 400}))
		require.NoError(t, a.EnsureBase(ctx))
		require.NoError(t, a.Create(ctx, "chunks-2026", store.Throughput{Shared: true}))
		require.NoError(t, a.Create(ctx, "chunks-2026-11", store.Throughput{RUs: 1000}))
	}
	require.NoError(t, a.SetThroughput(ctx, store.Database, store.Throughput{RUs: 600}))
	for name, want := range map[string]store.Throughput{store.Database: {RUs: 600}, "control": {Shared: true},
		"chunks-2026": {Shared: true}, "chunks-2026-11": {RUs: 1000}} {
		state, err := a.ReadThroughput(ctx, name)
		require.NoError(t, err)
		require.Equal(t, want, state.Throughput, name)
	}
	_, err := a.ReadThroughput(ctx, "chunks-2027")
	require.ErrorIs(t, err, store.ErrNoContainer)
}

// An identity without a role gets an error with the action that it lacks, and where.
func TestARMDeniedActions(t *testing.T) {
	m := newManager(t)
	m.denied = true
	a, ctx := m.arm(), t.Context()
	_, list := a.List(ctx)
	_, read := a.ReadThroughput(ctx, "control")
	for action, err := range map[string]error{
		"sqlDatabases/write": a.EnsureBase(ctx), "containers/read": list, "throughputSettings/read": read,
		"throughputSettings/write": a.SetThroughput(ctx, "control", store.Throughput{RUs: 400}),
		"containers/delete":        a.Delete(ctx, "control"),
	} {
		require.ErrorIs(t, err, store.ErrDenied)
		require.ErrorContains(t, err, action)
		require.ErrorContains(t, err, "on account acct in resource group rg")
	}
}

func TestARMConfigIsChecked(t *testing.T) {
	_, err := cosmos.NewARM(cosmos.ARMConfig{Account: "a"})
	for _, missing := range []string{"subscription is missing", "resource group is missing", "needs an identity"} {
		require.ErrorContains(t, err, missing)
	}
	var none azcore.TokenCredential
	_, err = cosmos.NewARM(cosmos.ARMConfig{Subscription: "s", ResourceGroup: "g", Account: "a", Token: none})
	require.ErrorContains(t, err, "needs an identity")
}

// asksThroughput reports whether a request to make something asks for throughput.
func (m *manager) asksThroughput(r *http.Request) bool {
	body, err := io.ReadAll(r.Body)
	require.NoError(m.t, err)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return bytes.Contains(body, []byte("hroughput"))
}

// In a serverless account an identity makes containers without throughput too.
func TestARMServerless(t *testing.T) {
	m := newManager(t)
	m.serverless = true
	a, ctx := m.arm(), t.Context()
	require.NoError(t, a.EnsureShared(ctx, store.Throughput{RUs: 400}))
	require.NoError(t, a.EnsureBase(ctx))
	require.Empty(t, m.throughput)
	state, err := a.ReadThroughput(ctx, "heat")
	require.NoError(t, err)
	require.Equal(t, store.Throughput{Serverless: true}, state.Throughput)
	_, err = a.ReadThroughput(ctx, store.Database)
	require.ErrorIs(t, err, store.ErrNoContainer)
}
