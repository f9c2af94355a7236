package main

import "binnacle/internal/ops"

type tenantCommand struct {
	List      onAccount[ops.ListTenants]   `cmd:"" help:"List tenants with their settings."`
	Show      onAccount[ops.ShowTenant]    `cmd:"" help:"Show everything that was set of a tenant."`
	Add       onAccount[ops.AddTenant]     `cmd:"" help:"Register a tenant before its first reading."`
	Set       onAccount[ops.SetTenant]     `cmd:"" help:"Change settings of a tenant, without a restart."`
	Explain   onAccount[ops.ExplainTenant] `cmd:"" help:"Show where a tenant's readings are stored, since when, and why."`
	Retention struct {
		Explain onAccount[ops.ExplainRetention] `cmd:"" help:"Show which days of a device go when, and why; or which devices wait for a confirmation."`
		Confirm onAccount[ops.ConfirmRetention] `cmd:"" help:"Confirm that devices are kept for less because their tags have changed."`
	} `cmd:"" help:"Show how long readings are kept, and confirm that some are kept for less."`
	Pin      onAccount[ops.PinTenant]     `cmd:"" help:"Set a tenant's number of keys, or keep its keys as they are, whatever the balancer finds."`
	Move     onAccount[ops.MoveTenant]    `cmd:"" help:"Place a tenant in containers of its own, or in shared ones, from a day on."`
	Copy     command[ops.CopyConfig]      `cmd:"" help:"Copy chunks of a tenant to another account, and compare both."`
	Export   command[ops.ExportConfig]    `cmd:"" help:"Write a tenant's readings into files, a day each."`
	Suspend  onAccount[ops.SuspendTenant] `cmd:"" help:"Refuse queries of a tenant; its readings are stored as before."`
	Resume   onAccount[ops.ResumeTenant]  `cmd:"" help:"Answer queries of a suspended tenant again."`
	Cost     command[ops.CostConfig]      `cmd:"" help:"Show what a month costs, by tenant."`
	Erase    command[ops.EraseConfig]     `cmd:"" help:"Erase readings of a tenant or of one of its devices."`
	Erasures onAccount[ops.ListErasures]  `cmd:"" help:"List orders of erasure, and how far they are."`
	Token    struct {
		Add    onAccount[ops.AddToken]    `cmd:"" help:"Create a token and print it. It is shown only once."`
		List   onAccount[ops.ListTokens]  `cmd:"" help:"List tokens without their secrets."`
		Revoke onAccount[ops.RevokeToken] `cmd:"" help:"Revoke a token. Roles apply it within half a minute."`
	} `cmd:"" help:"Manage bearer tokens of tenants."`
}
