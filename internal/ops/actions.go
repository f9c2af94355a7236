package ops

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"slices"
	"strconv"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/erasure"
	"binnacle/internal/ops/erase"
	"binnacle/internal/provision"
	"binnacle/internal/store"
	"binnacle/internal/tenant"
	"binnacle/internal/text/report"
	"binnacle/query/diagnose/heatmap"
	"binnacle/query/httpapi"
)

// ActionsConfig sets which actions `binnacle actions` lists.
type ActionsConfig struct {
	Since  time.Duration `help:"Age of the oldest action to list." default:"30d"`
	Tenant string        `help:"List actions on this tenant only. Default: all."`
	JSON   bool          `name:"json" help:"Print the actions as JSON, one a line."`
}

// Run prints what was done by those who may do more than read and write readings.
func (cfg ActionsConfig) Run(ctx context.Context, client *cosmos.Client, env Env) error {
	all, err := ActionsOf(client, "", env.Logger).List(ctx, time.Now().Add(-cfg.Since))
	if err != nil {
		return err
	}
	rows := [][]string{{"at", "who", "what", "object", "tenant", "detail", "outcome"}}
	for _, a := range all {
		if cfg.Tenant != "" && a.Tenant != cfg.Tenant {
			continue
		}
		if cfg.JSON {
			if err := json.NewEncoder(env.Stdout).Encode(a); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, []string{
			a.At.Format(time.RFC3339), a.Who, a.Verb, a.Object, a.Tenant, a.Details(), a.Outcome,
		})
	}
	if cfg.JSON {
		return nil
	}
	return report.List(env.Stdout, rows)
}

// ActionsPath is the path of actions at the admin listener of a querier.
const ActionsPath = "/api/v1/actions"

// defaultActionsSince is how far back actions are listed, unless the request says how far.
const defaultActionsSince = 30 * 24 * time.Hour

// ServeActions serves the actions of a tenant (tenant=), or of all, that are not older than a duration (since=).
func ServeActions(client *cosmos.Client, log *slog.Logger) Endpoint {
	return func(r *http.Request) (int, any, error) {
		q := r.URL.Query()
		since, err := sinceOf(q, defaultActionsSince)
		if err != nil {
			return 0, nil, err
		}
		all, err := ActionsOf(client, "", log).List(r.Context(), time.Now().Add(-since))
		if tenant := q.Get("tenant"); tenant != "" {
			all = slices.DeleteFunc(all, func(a control.Action) bool { return a.Tenant != tenant })
		}
		return http.StatusOK, map[string]any{"actions": append([]control.Action{}, all...)}, err
	}
}

// sinceOf returns how far back a request asks for, or the default.
func sinceOf(q url.Values, otherwise time.Duration) (time.Duration, error) {
	text := cmp.Or(q.Get("since"), otherwise.String())
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, unfit("since=%s: a duration such as 90m is allowed", text)
	}
	return d, nil
}

// ActionsOf returns the record of actions on an account, by a role of this process or, with an empty name, by the
// user of the process.
func ActionsOf(client *cosmos.Client, role string, log *slog.Logger) *control.Actions {
	return control.NewActions(client.Documents(), ProcessIdentity(role), log, client.Clock().Now)
}

// ProcessIdentity names the user and machine of an action. It proves nothing: anybody with the account's key can
// write any name, and only the account's own log knows the identity.
func ProcessIdentity(role string) string {
	name := role
	if name == "" {
		name = "unknown"
		if u, err := user.Current(); err == nil {
			name = u.Username
		}
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return name + "@" + cmp.Or(host, "unknown")
}

// Endpoint answers a request at the admin listener with a status and a body for JSON, or with an error.
type Endpoint func(r *http.Request) (status int, body any, err error)

// ServeHTTP implements http.Handler. It says in a header what the requests of the answer to the account cost.
func (serve Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var meter store.Meter
	status, body, err := serve(r.WithContext(store.WithMeter(r.Context(), &meter)))
	w.Header().Set("Binnacle-Request-Units", strconv.FormatFloat(meter.Read().RUs, 'f', 2, 64))
	if err != nil {
		httpapi.Refuse(w, statusOf(err), err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store") // a new token's secret may be in it
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// unfitError says what is wrong with a request, whatever is stored.
type unfitError struct{ error }

// Unwrap returns the cause.
func (e unfitError) Unwrap() error { return e.error }

func unfit(format string, args ...any) error { return unfitError{fmt.Errorf(format, args...)} }

// statusOf returns the status of an error. What is left is the store's.
func statusOf(err error) int {
	switch {
	case errors.As(err, new(unfitError)), errors.As(err, new(heatmap.ParameterError)):
		return http.StatusBadRequest
	case errors.Is(err, tenant.ErrNoTenant), errors.Is(err, tenant.ErrNoToken), errors.Is(err, errNoOrder),
		errors.Is(err, store.ErrNoContainer):
		return http.StatusNotFound
	case errors.Is(err, errRegistered), errors.Is(err, provision.ErrPeriod), errors.Is(err, tenant.ErrTooMany),
		errors.Is(err, errOldIngester), errors.Is(err, erase.ErrNotCleared):
		return http.StatusConflict
	}
	return http.StatusBadGateway
}

// What follows goes by the clock of the account. While that of the machine is wrong it decides nothing that cannot be
// undone.

// DirectoryOf returns a copy of the control documents of an account, which has read nothing yet.
func DirectoryOf(client *cosmos.Client, cfg control.DirectoryConfig) *control.Directory {
	if cfg.Documents == nil {
		cfg.Documents = client.Documents()
	}
	cfg.Check = client.Clock().Check
	if cfg.Now == nil {
		cfg.Now = client.Clock().Now
	}
	return control.NewDirectory(cfg)
}

// LeasesOf returns the leases of a role of this process.
func LeasesOf(client *cosmos.Client, role string) *control.Leases {
	return control.NewLeases(client.Documents(), ProcessIdentity(role), client.Clock().Now).
		OnlyWhile(client.Clock().Check)
}

// OrdersOf returns the orders of erasure of an account.
func OrdersOf(client *cosmos.Client) *erasure.Orders {
	return erasure.NewOrders(client.Documents(), client.Clock().Now).OnlyWhile(client.Clock().Check)
}

// DecidingSnapshots returns what reads a snapshot for a stage that decides what cannot be undone.
func DecidingSnapshots(directory *control.Directory) func(context.Context) (*control.Snapshot, error) {
	return func(ctx context.Context) (*control.Snapshot, error) {
		v, err := directory.Refresh(ctx)
		if err == nil {
			err = directory.CheckClock()
		}
		return v, err
	}
}

// FreshFor is how old a snapshot may be that orders of erasure are taken from.
const FreshFor = 5 * time.Second

// FreshSnapshots returns what reads a snapshot, unless the one that is there is fresh.
func FreshSnapshots(directory *control.Directory) func(context.Context) (*control.Snapshot, error) {
	return func(ctx context.Context) (*control.Snapshot, error) {
		if v := directory.Snapshot(); directory.Age(v) < FreshFor {
			return v, nil
		}
		return directory.Refresh(ctx)
	}
}

// Lead returns how long before its first day an epoch must be stored, so that a snapshot can place every accepted
// event time (rule W1): the accepted future, plus the age of the snapshot and the difference of clocks.
func Lead(future time.Duration) time.Duration { return max(2*time.Hour, future+time.Hour) }

// AnnotationsOf returns the annotations of the tenants of an account.
func AnnotationsOf(c *cosmos.Client, directory *control.Directory) *tenant.Annotations {
	return tenant.NewAnnotations(c.Documents(), c.TenantDocuments(), func(tenant string) erasure.List {
		return directory.Snapshot().Erasures(tenant)
	})
}

// ProvisionLease returns the lease of the process that makes months and decides epochs.
func ProvisionLease(client *cosmos.Client) *control.Leases {
	return LeasesOf(client, "provision")
}
