package cosmos

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"binnacle/internal/store"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/cosmos/armcosmos/v3"
)

// ARMConfig says where the account is found in Azure Resource Manager. An Entra ID identity can't make containers or
// change throughput through the account itself, whatever its roles: this is the way for those who have no account
// key.
type ARMConfig struct {
	Subscription  string // id
	ResourceGroup string
	Account       string // name
	Token         azcore.TokenCredential

	Transport policy.Transporter // the SDK's own HTTP client
	// Poll is how often an operation under way is polled where the service does not say; at least a second. Default 2
	// s.
	Poll time.Duration
}

// ARM manages containers of database binnacle through Azure Resource Manager. It is safe for any number of callers.
type ARM struct {
	cfg ARMConfig
	sql *armcosmos.SQLResourcesClient
}

// NewARM makes an ARM. It sends nothing. All faults of the config are reported at once.
func NewARM(cfg ARMConfig) (*ARM, error) {
	var errs []error
	for _, f := range []struct{ name, value string }{
		{"subscription", cfg.Subscription}, {"resource group", cfg.ResourceGroup}, {"account", cfg.Account},
	} {
		if f.value == "" {
			errs = append(errs, fmt.Errorf("cosmos: the %s is missing", f.name))
		}
	}
	if cfg.Token == nil {
		errs = append(errs, errors.New("cosmos: Azure Resource Manager needs an identity, not an account key"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	cfg.Poll = cmp.Or(cfg.Poll, 2*time.Second)
	sql, err := armcosmos.NewSQLResourcesClient(cfg.Subscription, cfg.Token,
		&arm.ClientOptions{ClientOptions: policy.ClientOptions{
			Transport: cfg.Transport, Telemetry: policy.TelemetryOptions{ApplicationID: "binnacle"},
		}})
	if err != nil {
		return nil, fmt.Errorf("cosmos: client of Azure Resource Manager: %w", err)
	}
	return &ARM{cfg, sql}, nil
}

// action is what an identity must be allowed, by its name in roles.
type action string

// The actions that provision needs; deploy has a role definition with them.
const (
	databaseRead    action = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/read"
	databaseWrite   action = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/write"
	containerRead   action = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/read"
	containerWrite  action = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/write"
	containerDelete action = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/delete"
	throughputRead  action = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/throughputSettings/read"
	sharedRead      action = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/throughputSettings/read"
	sharedWrite     action = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/throughputSettings/write"
	throughputWrite action = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/throughputSettings/write"
)

func (a *ARM) fault(err error, needs action) error {
	var r *azcore.ResponseError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &r):
		return err
	case r.StatusCode == http.StatusForbidden, r.StatusCode == http.StatusUnauthorized:
		return fmt.Errorf("%w: the identity needs a role with the action %s on account %s in resource group %s (%s)",
			store.ErrDenied, needs, a.cfg.Account, a.cfg.ResourceGroup, r.ErrorCode)
	case r.StatusCode == http.StatusNotFound:
		return store.ErrNoContainer
	case r.StatusCode == http.StatusBadRequest && isServerlessText(r.Error()):
		return store.ErrServerless
	}
	return fmt.Errorf("answer of Azure Resource Manager: %d %s", r.StatusCode, r.ErrorCode)
}

func wait[T any](ctx context.Context, a *ARM, p *runtime.Poller[T], err error) error {
	if err == nil {
		_, err = p.PollUntilDone(ctx, &runtime.PollUntilDoneOptions{Frequency: a.cfg.Poll})
	}
	return err
}

// EnsureBase makes the database and its base containers unless they exist, as that of Client does.
func (a *ARM) EnsureBase(ctx context.Context) error {
	if err := a.ensureDatabase(ctx, store.Throughput{}); err != nil {
		return err
	}
	return ensureBase(ctx, a, a.create)
}

// EnsureShared makes the database, with throughput for its containers to share, unless it exists.
func (a *ARM) EnsureShared(ctx context.Context, t store.Throughput) error {
	_, err := a.sql.GetSQLDatabase(ctx, a.cfg.ResourceGroup, a.cfg.Account, store.Database, nil)
	if err = a.fault(err, databaseRead); !errors.Is(err, store.ErrNoContainer) {
		return err
	}
	if err = a.ensureDatabase(ctx, t); errors.Is(err, store.ErrServerless) {
		return a.ensureDatabase(ctx, store.Throughput{})
	}
	return err
}

func (a *ARM) ensureDatabase(ctx context.Context, t store.Throughput) error {
	database := &armcosmos.SQLDatabaseResource{ID: to.Ptr(store.Database)}
	p, err := a.sql.BeginCreateUpdateSQLDatabase(ctx, a.cfg.ResourceGroup, a.cfg.Account, store.Database,
		armcosmos.SQLDatabaseCreateUpdateParameters{
			Properties: &armcosmos.SQLDatabaseCreateUpdateProperties{Resource: database, Options: throughputOptions(t)},
		}, nil)
	if err := a.fault(wait(ctx, a, p, err), databaseWrite); err != nil {
		return fmt.Errorf("create database %s: %w", store.Database, err)
	}
	return nil
}

// throughputOptions returns the throughput of a database or container to create, nil for none.
func throughputOptions(t store.Throughput) *armcosmos.CreateUpdateOptions {
	switch {
	case t.Shared || t.RUs == 0:
		return nil
	case t.Autoscale:
		return &armcosmos.CreateUpdateOptions{
			AutoscaleSettings: &armcosmos.AutoscaleSettings{MaxThroughput: to.Ptr(int32(t.RUs))}}
	}
	return &armcosmos.CreateUpdateOptions{Throughput: to.Ptr(int32(t.RUs))}
}

// List returns the names of all containers of the database, in no order; none when the database is missing.
func (a *ARM) List(ctx context.Context) ([]string, error) {
	var names []string
	for pages := a.sql.NewListSQLContainersPager(a.cfg.ResourceGroup, a.cfg.Account, store.Database, nil); pages.More(); {
		page, err := pages.NextPage(ctx)
		if err = a.fault(err, containerRead); errors.Is(err, store.ErrNoContainer) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list containers: %w", err)
		}
		for _, c := range page.Value {
			if c.Name != nil {
				names = append(names, *c.Name)
			}
		}
	}
	return names, nil
}

// Create makes a container of the layout that its name says. One that exists is left as it is. It fails with
// store.ErrAccountFull when the account has no container left.
func (a *ARM) Create(ctx context.Context, name string, t store.Throughput) error {
	return a.create(ctx, layoutOf(name), t)
}

// create looks first: the service's own operation would change a container that exists.
func (a *ARM) create(ctx context.Context, l Layout, t store.Throughput) error {
	names, err := a.List(ctx)
	if err != nil {
		return fmt.Errorf("create container %s: %w", l.Name, err)
	}
	if slices.Contains(names, l.Name) {
		return nil
	}
	if len(names)+1 >= AccountLimit {
		return fmt.Errorf("create container %s: %w", l.Name, store.ErrAccountFull)
	}
	p, err := a.sql.BeginCreateUpdateSQLContainer(ctx, a.cfg.ResourceGroup, a.cfg.Account, store.Database, l.Name,
		armcosmos.SQLContainerCreateUpdateParameters{
			Properties: &armcosmos.SQLContainerCreateUpdateProperties{Resource: l.resource(), Options: throughputOptions(t)},
		}, nil)
	if err = a.fault(wait(ctx, a, p, err), containerWrite); errors.Is(err, store.ErrServerless) && !t.Serverless {
		return a.create(ctx, l, store.Throughput{Serverless: true})
	}
	if err != nil {
		return fmt.Errorf("create container %s: %w", l.Name, err)
	}
	return nil
}

// ReadThroughput returns what is provisioned for a container, store.ErrNoContainer when it is missing; of the name
// store.Database what its containers share, store.ErrNoContainer when they share none.
func (a *ARM) ReadThroughput(ctx context.Context, name string) (store.ContainerState, error) {
	out, err := a.readThroughput(ctx, name)
	if out, err = serverless(name, out, err); name == store.Database || !errors.Is(err, store.ErrNoContainer) {
		return out, err
	}
	if _, ofDatabase := a.readThroughput(ctx, store.Database); ofDatabase != nil {
		return out, err
	}
	names, missing := a.List(ctx)
	if missing != nil || !slices.Contains(names, name) {
		return out, errors.Join(err, missing)
	}
	return store.ContainerState{Name: name, Throughput: store.Throughput{Shared: true}}, nil
}

func (a *ARM) readThroughput(ctx context.Context, name string) (store.ContainerState, error) {
	var properties *armcosmos.ThroughputSettingsGetProperties
	var err error
	needs := throughputRead
	if name == store.Database {
		var r armcosmos.SQLResourcesClientGetSQLDatabaseThroughputResponse
		r, err = a.sql.GetSQLDatabaseThroughput(ctx, a.cfg.ResourceGroup, a.cfg.Account, name, nil)
		properties, needs = r.Properties, sharedRead
	} else {
		var r armcosmos.SQLResourcesClientGetSQLContainerThroughputResponse
		r, err = a.sql.GetSQLContainerThroughput(ctx, a.cfg.ResourceGroup, a.cfg.Account, store.Database, name, nil)
		properties = r.Properties
	}
	if err := a.fault(err, needs); err != nil {
		return store.ContainerState{}, fmt.Errorf("throughput of %s: %w", name, err)
	}
	out := store.ContainerState{Name: name}
	if properties == nil || properties.Resource == nil {
		return out, fmt.Errorf("throughput of %s: the answer has none", name)
	}
	found := properties.Resource
	out.MinRUs, _ = strconv.Atoi(text(found.MinimumThroughput)) // absent is 0: it does not tell
	out.Pending = strings.EqualFold(text(found.OfferReplacePending), "true")
	switch {
	case found.AutoscaleSettings != nil && found.AutoscaleSettings.MaxThroughput != nil:
		out.Throughput = store.Throughput{RUs: int(*found.AutoscaleSettings.MaxThroughput), Autoscale: true}
	case found.Throughput != nil:
		out.Throughput = store.Throughput{RUs: int(*found.Throughput)}
	}
	return out, nil
}

// SetThroughput changes what is provisioned for a container. Manual and autoscale can't be exchanged.
func (a *ARM) SetThroughput(ctx context.Context, name string, t store.Throughput) error {
	wanted := &armcosmos.ThroughputSettingsResource{Throughput: to.Ptr(int32(t.RUs))}
	if t.Autoscale {
		most := &armcosmos.AutoscaleSettingsResource{MaxThroughput: to.Ptr(int32(t.RUs))}
		wanted = &armcosmos.ThroughputSettingsResource{AutoscaleSettings: most}
	}
	params := armcosmos.ThroughputSettingsUpdateParameters{
		Properties: &armcosmos.ThroughputSettingsUpdateProperties{Resource: wanted},
	}
	var err error
	needs := throughputWrite
	if name == store.Database {
		needs = sharedWrite
		p, begun := a.sql.BeginUpdateSQLDatabaseThroughput(ctx, a.cfg.ResourceGroup, a.cfg.Account, name, params, nil)
		err = wait(ctx, a, p, begun)
	} else {
		p, begun := a.sql.BeginUpdateSQLContainerThroughput(ctx, a.cfg.ResourceGroup, a.cfg.Account, store.Database, name,
			params, nil)
		err = wait(ctx, a, p, begun)
	}
	if err := a.fault(err, needs); err != nil {
		return fmt.Errorf("set throughput of %s to %d RU/s: %w", name, t.RUs, err)
	}
	return nil
}

// Delete drops a container and all that is in it. One that is missing is no error.
func (a *ARM) Delete(ctx context.Context, name string) error {
	p, err := a.sql.BeginDeleteSQLContainer(ctx, a.cfg.ResourceGroup, a.cfg.Account, store.Database, name, nil)
	if err := a.fault(wait(ctx, a, p, err), containerDelete); err != nil && !errors.Is(err, store.ErrNoContainer) {
		return fmt.Errorf("delete container %s: %w", name, err)
	}
	return nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// resource returns the layout as Azure Resource Manager takes it: in the same JSON as the account itself.
func (l Layout) resource() *armcosmos.SQLContainerResource {
	var r armcosmos.SQLContainerResource
	raw, err := json.Marshal(l.properties())
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		panic("cosmos: the layout of " + l.Name + ": " + err.Error()) // of this package alone
	}
	if r.IndexingPolicy != nil {
		r.IndexingPolicy.IndexingMode = to.Ptr(armcosmos.IndexingModeConsistent) // it is lower case there
	}
	return &r
}
