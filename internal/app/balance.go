package app

import (
	"time"

	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/heat/heatlog"
	"binnacle/internal/ops"
	"binnacle/internal/provision"
)

// BalanceConfig sets the balancer of placements.
type BalanceConfig struct {
	Balance string        `help:"Whether tenants' keys follow the load from day to day. off: no; advise: decisions are stored and shown, and not applied; on: they are applied." enum:"off,advise,on" default:"${balance}"`
	From    time.Duration `name:"balance-from" help:"Time of the day in UTC from which on the next day's keys are decided." default:"${balance_from}"`
	Every   time.Duration `name:"balance-every" help:"Time between two looks of the balancer." default:"5m"`
	Future  time.Duration `name:"balance-future" help:"Largest --future of the ingesters of other processes: keys are decided so long, and an hour, before the day that they are for, 4h at least." default:"1h"`
}

// lead returns how long before their day epochs are stored: by 20:00, or earlier where ingesters accept readings of a
// later time (rule W1).
func (c BalanceConfig) lead() time.Duration { return max(4*time.Hour, ops.Lead(c.Future)) }

// addBalancer adds the stage that decides epochs.
func (p *process) addBalancer(c BalanceConfig, client *cosmos.Client, directory *control.Directory) {
	if c.Balance == "off" {
		return
	}
	log := p.partLogger("balance")
	p.add("balance", provision.NewBalancer(provision.BalancerConfig{
		Epochs: directory, Decisions: control.NewDecisions(client.Documents()), Advise: c.Balance != "on",
		Loads: provision.Loads{Ranges: client, Heat: heatlog.NewReader(client.Heat())},
		Lease: ops.ProvisionLease(client), Actions: ops.ActionsOf(client, "provision", log),
		From: c.From, Every: c.Every, Lead: c.lead(), Logger: log, Now: client.Clock().Now,
	}).Run)
}
