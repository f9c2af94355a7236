package main

// What tests call in process, without starting the binary.
var (
	Run       = run
	RedactURL = redactURL
)
