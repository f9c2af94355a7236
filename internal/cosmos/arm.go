package cosmos

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"binnacle/internal/settings"
	"binnacle/internal/store"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
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
	cfg    ARMConfig
	client *arm.Client
}

// NewARM makes an ARM. It sends nothing. All faults of the config are reported at once.
func NewARM(cfg ARMConfig) (*ARM, error) {
	var faults settings.Faults
	for _, f := range []struct{ name, value string }{
		{"subscription", cfg.Subscription}, {"resource group", cfg.ResourceGroup}, {"account", cfg.Account},
	} {
		faults.Check(f.value != "", "cosmos: the %s is missing", f.name)
	}
	faults.Check(cfg.Token != nil, "cosmos: Azure Resource Manager needs an identity, not an account key")
	if err := faults.Err(); err != nil {
		return nil, err
	}
	cfg.Poll = cmp.Or(cfg.Poll, 2*time.Second)
	client, err := arm.NewClient("binnacle", "v0.0.0", cfg.Token, &arm.ClientOptions{ClientOptions: policy.ClientOptions{
		Transport: cfg.Transport, Telemetry: policy.TelemetryOptions{ApplicationID: "binnacle"},
	}})
	if err != nil {
		return nil, fmt.Errorf("cosmos: client of Azure Resource Manager: %w", err)
	}
	return &ARM{cfg, client}, nil
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

// armBody is what a request changes, and what an answer has.
type armBody struct {
	Properties struct {
		Resource any            `json:"resource"`
		Options  *armThroughput `json:"options,omitempty"`
	} `json:"properties"`
}

// armThroughput is the throughput of a database or container.
type armThroughput struct {
	Throughput *int          `json:"throughput,omitempty"`
	Autoscale  *armAutoscale `json:"autoscaleSettings,omitempty"`
	Least      string        `json:"minimumThroughput,omitempty"`
	Pending    string        `json:"offerReplacePending,omitempty"`
}

type armAutoscale struct {
	Max int `json:"maxThroughput"`
}

// armTime bounds a request and its operation: one that is never answered holds up no round for good. An operation that
// goes on is found by the next round.
const armTime = 5 * time.Minute

// do sends a request for the database, or for a path below it, waits until its operation has ended, and decodes the
// answer. body and into may be nil. needs is the action that the identity must have.
func (a *ARM) do(ctx context.Context, method, path string, needs action, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, armTime)
	defer cancel()
	at := runtime.JoinPaths(a.client.Endpoint(), "subscriptions", url.PathEscape(a.cfg.Subscription), "resourceGroups",
		url.PathEscape(a.cfg.ResourceGroup), "providers/Microsoft.DocumentDB/databaseAccounts",
		url.PathEscape(a.cfg.Account), "sqlDatabases", store.Database, path)
	r, err := runtime.NewRequest(ctx, method, strings.TrimSuffix(at, "/")+"?api-version="+armVersion)
	if err != nil {
		return err
	}
	if body != nil {
		if err := runtime.MarshalAsJSON(r, body); err != nil {
			return err
		}
	}
	answer, err := a.client.Pipeline().Do(r)
	if err != nil {
		return err
	}
	if !runtime.HasStatusCode(answer, http.StatusOK, http.StatusAccepted, http.StatusNoContent) {
		return a.fault(runtime.NewResponseError(answer), needs)
	}
	if method == http.MethodGet {
		return runtime.UnmarshalAsJSON(answer, into)
	}
	operation, err := runtime.NewPoller[struct{}](answer, a.client.Pipeline(), nil)
	if err == nil {
		_, err = operation.PollUntilDone(ctx, &runtime.PollUntilDoneOptions{Frequency: a.cfg.Poll})
	}
	return a.fault(err, needs)
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
	err := a.do(ctx, http.MethodGet, "", databaseRead, nil, &armBody{})
	if !errors.Is(err, store.ErrNoContainer) {
		return err
	}
	if err = a.ensureDatabase(ctx, t); errors.Is(err, store.ErrServerless) {
		return a.ensureDatabase(ctx, store.Throughput{})
	}
	return err
}

func (a *ARM) ensureDatabase(ctx context.Context, t store.Throughput) error {
	if err := a.make(ctx, "", databaseWrite, map[string]string{"id": store.Database}, t); err != nil {
		return fmt.Errorf("create database %s: %w", store.Database, err)
	}
	return nil
}

// make creates what a path names, with a throughput of its own unless that is shared or 0.
func (a *ARM) make(ctx context.Context, path string, needs action, resource any, t store.Throughput) error {
	var body armBody
	body.Properties.Resource = resource
	if !t.Shared && t.RUs > 0 {
		body.Properties.Options = throughputOf(t)
	}
	return a.do(ctx, http.MethodPut, path, needs, body, nil)
}

func throughputOf(t store.Throughput) *armThroughput {
	if t.Autoscale {
		return &armThroughput{Autoscale: &armAutoscale{t.RUs}}
	}
	return &armThroughput{Throughput: &t.RUs}
}

// List returns the names of all containers of the database, in no order; none when the database is missing.
func (a *ARM) List(ctx context.Context) (names []string, err error) {
	var page struct{ Value []struct{ Name string } }
	err = a.do(ctx, http.MethodGet, "containers", containerRead, nil, &page)
	if errors.Is(err, store.ErrNoContainer) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	for _, c := range page.Value {
		names = append(names, c.Name)
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
	err = a.make(ctx, "containers/"+l.Name, containerWrite, l.resource(), t)
	if errors.Is(err, store.ErrServerless) && !t.Serverless {
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

func throughputPath(name string) string {
	if name == store.Database {
		return "throughputSettings/default"
	}
	return "containers/" + name + "/throughputSettings/default"
}

func (a *ARM) readThroughput(ctx context.Context, name string) (store.ContainerState, error) {
	needs := throughputRead
	if name == store.Database {
		needs = sharedRead
	}
	var found *armThroughput
	var answer armBody
	answer.Properties.Resource = &found
	if err := a.do(ctx, http.MethodGet, throughputPath(name), needs, nil, &answer); err != nil {
		return store.ContainerState{}, fmt.Errorf("throughput of %s: %w", name, err)
	}
	out := store.ContainerState{Name: name}
	if found == nil {
		return out, fmt.Errorf("throughput of %s: the answer has none", name)
	}
	out.MinRUs, _ = strconv.Atoi(found.Least) // absent is 0: it does not tell
	out.Pending = strings.EqualFold(found.Pending, "true")
	switch {
	case found.Autoscale != nil && found.Autoscale.Max > 0:
		out.Throughput = store.Throughput{RUs: found.Autoscale.Max, Autoscale: true}
	case found.Throughput != nil:
		out.Throughput = store.Throughput{RUs: *found.Throughput}
	}
	return out, nil
}

// SetThroughput changes what is provisioned for a container. Manual and autoscale can't be exchanged.
func (a *ARM) SetThroughput(ctx context.Context, name string, t store.Throughput) error {
	needs := throughputWrite
	if name == store.Database {
		needs = sharedWrite
	}
	var body armBody
	body.Properties.Resource = throughputOf(t)
	if err := a.do(ctx, http.MethodPut, throughputPath(name), needs, body, nil); err != nil {
		return fmt.Errorf("set throughput of %s to %d RU/s: %w", name, t.RUs, err)
	}
	return nil
}

// Delete drops a container and all that is in it. One that is missing is no error.
func (a *ARM) Delete(ctx context.Context, name string) error {
	err := a.do(ctx, http.MethodDelete, "containers/"+name, containerDelete, nil, nil)
	if err != nil && !errors.Is(err, store.ErrNoContainer) {
		return fmt.Errorf("delete container %s: %w", name, err)
	}
	return nil
}

// resource returns the layout as Azure Resource Manager takes it: in the same JSON as the account itself.
func (l Layout) resource() map[string]any {
	var r map[string]any
	raw, err := json.Marshal(l.properties())
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		panic("cosmos: the layout of " + l.Name + ": " + err.Error()) // of this package alone
	}
	maps.DeleteFunc(r, func(name string, value any) bool { return value == nil || strings.HasPrefix(name, "_") })
	if policy, ok := r["indexingPolicy"].(map[string]any); ok {
		policy["indexingMode"] = "consistent" // it is lower case there
	}
	return r
}
