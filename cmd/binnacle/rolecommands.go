package main

import "binnacle/internal/app"

type ingestCommand struct {
	Config app.IngestConfig `kong:"embed"`
}

// Help is shown below the flags.
func (ingestCommand) Help() string {
	return `Reads a topic as a member of a consumer group and writes chunks. Any number of processes share the work.

Examples:
  binnacle ingest --kafka broker.example:9092 --cosmos https://ACCOUNT.documents.azure.com:443/ --key-file keys
  binnacle ingest --event-hubs --kafka NAMESPACE.servicebus.windows.net --kafka-password-file connection --identity workload
  binnacle ingest --check`
}

// Run is called by kong.
func (c *ingestCommand) Run(e *env) error { return app.Ingest(e.ctx, c.Config, e.app()) }

type queryCommand struct {
	Config app.QueryRoleConfig `kong:"embed"`
}

// Help is shown below the flags.
func (queryCommand) Help() string {
	return `Answers queries from what is stored and from what the ingesters hold. Any number of processes may run.

Examples:
  binnacle query --heads ingest:7072 --heads-secret-file secret --cosmos https://ACCOUNT.documents.azure.com:443/ --key-file keys
  binnacle query --heads srv+_heads._tcp.ingest.example --oidc-issuer https://login.example --oidc-audience binnacle
  binnacle query --check`
}

// Run is called by kong.
func (c *queryCommand) Run(e *env) error { return app.Query(e.ctx, c.Config, e.app()) }

type serveCommand struct {
	Config app.ServeConfig `kong:"embed"`
}

// Help is shown below the flags.
func (serveCommand) Help() string {
	return `The small production: ingest, queries and provision in one process, on a real cluster and a real account.

Examples:
  binnacle serve --kafka broker.example:9092 --cosmos https://ACCOUNT.documents.azure.com:443/ --key-file keys
  binnacle serve --check`
}

// Run is called by kong.
func (c *serveCommand) Run(e *env) error { return app.Serve(e.ctx, c.Config, e.app()) }
