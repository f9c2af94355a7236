package main

// What tests call in process; and Main, which the test binary is when it is started as binnacle.
var (
	Main      = main
	Run       = run
	RedactURL = redactURL
)
