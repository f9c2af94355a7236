package app

import (
	"binnacle/internal/store"
	"binnacle/query"
	"binnacle/query/httpapi"
)

// QueryConfig is what the role runs with that answers queries.
type QueryConfig struct {
	API string `name:"api" help:"Address of the query API." default:"127.0.0.1:7070"`
}

// newQuery builds the role that answers queries from heads and the account, and serves it at a door.
func (p *process) newQuery(_ QueryConfig, a account, heads store.Heads, log store.Log, at door) error {
	q, err := query.New(query.Config{
		Reader: a.client.Chunks(), Heads: heads, Log: log, Directory: a.directory, Catalog: a.client.Catalog(),
		Registerer: p.metrics, Logger: p.part("query"),
	})
	if err != nil {
		return err
	}
	h, err := httpapi.New(httpapi.Config{Querier: q, Logger: p.part("api")})
	if err != nil {
		return err
	}
	at.serve(h)
	return nil
}
