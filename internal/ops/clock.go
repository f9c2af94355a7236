package ops

import (
	"context"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/erasure"
	"binnacle/internal/tenant"
)

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
