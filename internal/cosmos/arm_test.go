package cosmos_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"binnacle/internal/cosmos"
	"binnacle/internal/store"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	azfake "github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/cosmos/armcosmos/v3"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/cosmos/armcosmos/v3/fake"
	"github.com/stretchr/testify/require"
)

// Short names for what the SDK's fake server takes and gives.
type (
	databaseOptions  = armcosmos.SQLResourcesClientBeginCreateUpdateSQLDatabaseOptions
	databaseResponse = armcosmos.SQLResourcesClientCreateUpdateSQLDatabaseResponse
	createOptions    = armcosmos.SQLResourcesClientBeginCreateUpdateSQLContainerOptions
	createResponse   = armcosmos.SQLResourcesClientCreateUpdateSQLContainerResponse
	updateOptions    = armcosmos.SQLResourcesClientBeginUpdateSQLContainerThroughputOptions
	updateResponse   = armcosmos.SQLResourcesClientUpdateSQLContainerThroughputResponse
	dropOptions      = armcosmos.SQLResourcesClientBeginDeleteSQLContainerOptions
	dropResponse     = armcosmos.SQLResourcesClientDeleteSQLContainerResponse
	listOptions      = armcosmos.SQLResourcesClientListSQLContainersOptions
	listResponse     = armcosmos.SQLResourcesClientListSQLContainersResponse
	readOptions      = armcosmos.SQLResourcesClientGetSQLContainerThroughputOptions
	readResponse     = armcosmos.SQLResourcesClientGetSQLContainerThroughputResponse

	sharedReadResponse   = armcosmos.SQLResourcesClientGetSQLDatabaseThroughputResponse
	sharedUpdateResponse = armcosmos.SQLResourcesClientUpdateSQLDatabaseThroughputResponse

	settings  = armcosmos.ThroughputSettingsGetPropertiesResource
	responder = azfake.ErrorResponder
)

// manager is Azure Resource Manager with one account, as its SDK's own fake server.
type manager struct {
	t          *testing.T
	database   bool
	containers map[string]*armcosmos.SQLContainerResource
	throughput map[string]*settings
	denied     bool
}

func (m *manager) refuse(e *responder) bool {
	if m.denied {
		e.SetResponseError(http.StatusForbidden, "AuthorizationFailed")
	}
	return m.denied
}

func (m *manager) arm() *cosmos.ARM {
	server := &fake.SQLResourcesServer{
		BeginCreateUpdateSQLDatabase: func(
			_ context.Context, group, account, db string, p armcosmos.SQLDatabaseCreateUpdateParameters, _ *databaseOptions,
		) (r azfake.PollerResponder[databaseResponse], e responder) {
			if !m.refuse(&e) {
				require.Equal(m.t, []string{"rg", "acct", store.Database}, []string{group, account, db})
				m.database = true
				if o := p.Properties.Options; o != nil {
					m.throughput[db] = &settings{Throughput: o.Throughput}
				}
				r.SetTerminalResponse(http.StatusOK, databaseResponse{}, nil)
			}
			return r, e
		},
		BeginCreateUpdateSQLContainer: func(
			_ context.Context, _, _, _, name string, p armcosmos.SQLContainerCreateUpdateParameters, _ *createOptions,
		) (r azfake.PollerResponder[createResponse], e responder) {
			if !m.refuse(&e) {
				require.NotContains(m.t, m.containers, name, "a container that exists would be changed")
				m.containers[name] = p.Properties.Resource
				if p.Properties.Options == nil {
					r.SetTerminalResponse(http.StatusOK, createResponse{}, nil)
					return r, e
				}
				m.throughput[name] = &settings{
					Throughput: p.Properties.Options.Throughput, MinimumThroughput: to.Ptr("400"),
				}
				if a := p.Properties.Options.AutoscaleSettings; a != nil {
					m.throughput[name].AutoscaleSettings = &armcosmos.AutoscaleSettingsResource{MaxThroughput: a.MaxThroughput}
				}
				r.SetTerminalResponse(http.StatusOK, createResponse{}, nil)
			}
			return r, e
		},
		NewListSQLContainersPager: func(
			_, _, _ string, _ *listOptions,
		) (r azfake.PagerResponder[listResponse]) {
			switch {
			case m.denied:
				r.AddResponseError(http.StatusForbidden, "AuthorizationFailed")
			case !m.database:
				r.AddResponseError(http.StatusNotFound, "NotFound")
			default:
				var page listResponse
				for name := range m.containers {
					page.Value = append(page.Value, &armcosmos.SQLContainerGetResults{Name: to.Ptr(name)})
				}
				r.AddPage(http.StatusOK, page, nil)
			}
			return r
		},
		GetSQLContainerThroughput: func(
			_ context.Context, _, _, _, name string, _ *readOptions,
		) (r azfake.Responder[readResponse], e responder) {
			if found := m.throughput[name]; m.refuse(&e) {
			} else if found == nil {
				e.SetResponseError(http.StatusNotFound, "NotFound")
			} else {
				var answer readResponse
				answer.Properties = &armcosmos.ThroughputSettingsGetProperties{Resource: found}
				r.SetResponse(http.StatusOK, answer, nil)
			}
			return r, e
		},
		GetSQLDatabase: func(
			_ context.Context, _, _, _ string, _ *armcosmos.SQLResourcesClientGetSQLDatabaseOptions,
		) (r azfake.Responder[armcosmos.SQLResourcesClientGetSQLDatabaseResponse], e responder) {
			if m.refuse(&e) {
			} else if !m.database {
				e.SetResponseError(http.StatusNotFound, "NotFound")
			} else {
				r.SetResponse(http.StatusOK, armcosmos.SQLResourcesClientGetSQLDatabaseResponse{}, nil)
			}
			return r, e
		},
		GetSQLDatabaseThroughput: func(
			_ context.Context, _, _, db string, _ *armcosmos.SQLResourcesClientGetSQLDatabaseThroughputOptions,
		) (r azfake.Responder[sharedReadResponse], e responder) {
			if found := m.throughput[db]; m.refuse(&e) {
			} else if found == nil {
				e.SetResponseError(http.StatusNotFound, "NotFound")
			} else {
				var answer sharedReadResponse
				answer.Properties = &armcosmos.ThroughputSettingsGetProperties{Resource: found}
				r.SetResponse(http.StatusOK, answer, nil)
			}
			return r, e
		},
		BeginUpdateSQLDatabaseThroughput: func(
			_ context.Context, _, _, db string, p armcosmos.ThroughputSettingsUpdateParameters,
			_ *armcosmos.SQLResourcesClientBeginUpdateSQLDatabaseThroughputOptions,
		) (r azfake.PollerResponder[sharedUpdateResponse], e responder) {
			m.throughput[db].Throughput = p.Properties.Resource.Throughput
			r.SetTerminalResponse(http.StatusOK, sharedUpdateResponse{}, nil)
			return r, e
		},
		BeginUpdateSQLContainerThroughput: func(
			_ context.Context, _, _, _, name string, p armcosmos.ThroughputSettingsUpdateParameters, _ *updateOptions,
		) (r azfake.PollerResponder[updateResponse], e responder) {
			if found := m.throughput[name]; m.refuse(&e) {
			} else if found == nil {
				e.SetResponseError(http.StatusNotFound, "NotFound")
			} else {
				wanted := p.Properties.Resource
				found.Throughput, found.AutoscaleSettings = wanted.Throughput, wanted.AutoscaleSettings
				found.OfferReplacePending = to.Ptr("True")
				r.SetTerminalResponse(http.StatusOK, updateResponse{}, nil)
			}
			return r, e
		},
		BeginDeleteSQLContainer: func(
			_ context.Context, _, _, _, name string, _ *dropOptions,
		) (r azfake.PollerResponder[dropResponse], e responder) {
			switch {
			case m.refuse(&e):
			case m.containers[name] == nil:
				e.SetResponseError(http.StatusNotFound, "NotFound")
			default:
				delete(m.containers, name)
				delete(m.throughput, name)
				r.SetTerminalResponse(http.StatusNoContent, dropResponse{}, nil)
			}
			return r, e
		},
	}
	a, err := cosmos.NewARM(cosmos.ARMConfig{
		Subscription: "sub", ResourceGroup: "rg", Account: "acct", Token: &azfake.TokenCredential{},
		Transport: fake.NewSQLResourcesServerTransport(server), Poll: time.Second,
	})
	require.NoError(m.t, err)
	return a
}

func newManager(t *testing.T) *manager {
	return &manager{
		t: t, containers: map[string]*armcosmos.SQLContainerResource{}, throughput: map[string]*settings{},
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
	require.Equal(t, armcosmos.PartitionKindMultiHash, *chunks.PartitionKey.Kind)
	require.Equal(t, int32(2), *chunks.PartitionKey.Version)
	require.Equal(t, to.SliceOfPtrs("/tenantShard", "/device"), chunks.PartitionKey.Paths)
	require.Equal(t, int32(-1), *chunks.DefaultTTL)
	var indexed []string
	for _, p := range chunks.IndexingPolicy.IncludedPaths {
		indexed = append(indexed, *p.Path)
	}
	require.Equal(t, []string{"/tenantShard/?", "/device/?", "/from/?", "/to/?"}, indexed)
	require.Equal(t, armcosmos.PartitionKindHash, *m.containers["control"].PartitionKey.Kind)

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
