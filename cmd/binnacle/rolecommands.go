package main

import "binnacle/internal/app"

type ingestCommand struct {
	Config app.IngestConfig `kong:"embed"`
}

func (ingestCommand) Help() string {
	return `Reads topics as a member of a consumer group and stores chunks. Any number of processes share the work.

Examples:
  binnacle ingest --kafka broker.example:9092 --cosmos https://ACCOUNT.documents.azure.com:443/ --key-file keys
  binnacle ingest --event-hubs --kafka NAMESPACE.servicebus.windows.net --kafka-password-file connection --identity workload
  binnacle ingest --check`
}

func (c *ingestCommand) Run(e *env) error { return app.Ingest(e.ctx, c.Config, e.app()) }

type queryCommand struct {
	Config app.QueryRoleConfig `kong:"embed"`
}

func (queryCommand) Help() string {
	return `Answers queries from stored chunks and from the ingesters' open bins. Any number of processes may run.

Examples:
  binnacle query --heads ingest:7072 --heads-secret-file secret --cosmos https://ACCOUNT.documents.azure.com:443/ --key-file keys
  binnacle query --heads srv+_heads._tcp.ingest.example --oidc-issuer https://login.example --oidc-audience binnacle
  binnacle query --check`
}

func (c *queryCommand) Run(e *env) error { return app.Query(e.ctx, c.Config, e.app()) }

type serveCommand struct {
	Config app.ServeConfig `kong:"embed"`
}

func (serveCommand) Help() string {
	return `For a small production: ingest, queries and provision in one process.

Examples:
  binnacle serve --kafka broker.example:9092 --cosmos https://ACCOUNT.documents.azure.com:443/ --key-file keys
  binnacle serve --check`
}

func (c *serveCommand) Run(e *env) error { return app.Serve(e.ctx, c.Config, e.app()) }
