package main

// What tests call in process; and Main, which the test binary is when it is started as binnacle.
var (
	Main  = main
	Run   = run
	IsKey = isKey
	Keys  = keys

	RedactURL   = redactURL
	AllCommands = allCommands
)

// The grammar of the command line, and of one of its commands that has commands of its own.
type (
	Commands      = commands
	TenantCommand = tenantCommand
)
