package app

import (
	"context"

	"binnacle/internal/control"
	"binnacle/internal/cosmos"
)

// What follows goes by the clock of the account. While that of the machine is wrong it decides nothing that cannot be
// undone.

// directoryOf returns a copy of the control documents of an account, which has read nothing yet.
func directoryOf(client *cosmos.Client, cfg control.DirectoryConfig) *control.Directory {
	if cfg.Documents == nil {
		cfg.Documents = client.Documents()
	}
	cfg.Check = client.Clock().Check
	if cfg.Now == nil {
		cfg.Now = client.Clock().Now
	}
	return control.NewDirectory(cfg)
}

// leasesOf returns the leases of a role of this process.
func leasesOf(client *cosmos.Client, role string) *control.Leases {
	return control.NewLeases(client.Documents(), processIdentity(role), client.Clock().Now).
		OnlyWhile(client.Clock().Check)
}

// ordersOf returns the orders of erasure of an account.
func ordersOf(client *cosmos.Client) *control.ErasureOrders {
	return control.NewErasureOrders(client.Documents(), client.Clock().Now).OnlyWhile(client.Clock().Check)
}

// decidingSnapshots returns what reads a snapshot for a stage that decides what cannot be undone.
func decidingSnapshots(directory *control.Directory) func(context.Context) (*control.Snapshot, error) {
	return func(ctx context.Context) (*control.Snapshot, error) {
		v, err := directory.Refresh(ctx)
		if err == nil {
			err = directory.CheckClock()
		}
		return v, err
	}
}
