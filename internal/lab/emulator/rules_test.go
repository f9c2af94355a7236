package emulator_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
)

// The rules of the recordings, on data of our own: what a request is answered and charged in a database with throughput
// that its containers share.
func TestRecordedRules(t *testing.T) {
	r := replayer{t: t, server: open(t, emulator.Config{Unlimited: true})}
	const docs = "/dbs/d/colls/c/docs"
	key := map[string]string{"x-ms-documentdb-partitionkey": `["p"]`}
	query := map[string]string{
		"x-ms-documentdb-isquery": "True", "x-ms-documentdb-query-enablecrosspartition": "True",
	}
	batch := map[string]string{
		"x-ms-documentdb-partitionkey": `["p"]`, "x-ms-cosmos-is-batch-request": "True", "x-ms-cosmos-batch-atomic": "False",
		"x-ms-cosmos-batch-continue-on-error": "True",
	}
	for _, c := range []struct {
		method, path string
		headers      map[string]string
		body         string
		status       int
		charge, lsn  string
		names        string // part of the body
	}{
		{"POST", "/dbs", map[string]string{"x-ms-offer-throughput": "400"}, `{"id":"d"}`, 201, "1", "", ""},
		{"POST", "/dbs/d/colls", nil, `{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash"}}`, 201, "1", "2", ""},
		{"POST", "/dbs/d/colls", nil, `{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash"}}`, 409, "0", "", "Conflict"},
		{"POST", docs, key, `{"id":"b","pk":"p","n":1.50}`, 201, "6.29", "3", `"n":1.5`},
		{"POST", docs, key, `{"id":"a","pk":"p","l":[1,1,{}],"o":{"x":null}}`, 201, "7.62", "4", ""},
		{"POST", docs, key, `{"id":"b","pk":"p"}`, 409, "1.48", "4", "Conflict"},
		{"POST", docs, key, `{"id":`, 400, "1.24", "4", "BadRequest"},
		{"PUT", docs + "/b", key, `{"id":"b","pk":"p","n":2}`, 200, "10.67", "5", ""},
		{"PUT", docs + "/b", key, `{"id":"b","pk":"p","n":2}`, 200, "10.29", "6", ""},
		{"PATCH", docs + "/b", key, `{"operations":[{"op":"add","path":"/m","value":1}]}`, 200, "10.79", "7",
			`"_attachments":"attachments/","m":1,"_ts":`},
		{"DELETE", docs + "/none", key, "", 404, "1.24", "7", "NotFound"},
		{"GET", docs + "/b", key, "", 200, "1", "7", ""},
		{"GET", docs + "/b", nil, "", 400, "0", "7", ""},
		{"POST", docs, query, `{"query":"SELECT c.id FROM c"}`, 200, "2.27", "7", `[{"id":"b"},{"id":"a"}]`},
		{"POST", docs, query, `{"query":"SELECT c.id FROM c WHERE c.n = 7"}`, 200, "2.8", "7", `[]`},
		{"POST", docs, query, `{"query":"SELECT @a AS a","parameters":[{"name":"@a","value":9007199254740993}]}`, 200,
			"2.25", "7", `[{"a":9007199254740993}]`},
		{"POST", docs, query, `{"query":"SELECT TOP 1 * FROM c"}`, 400, "", "", `partitionedQueryExecutionInfoVersion`},
		{"POST", docs, query, `{"query":"SELEC"}`, 400, "", "", `SC1001`},
		{"POST", docs, batch, `[{"operationType":"Create","resourceBody":{"id":"b","pk":"p"}},` +
			`{"operationType":"Create","resourceBody":{"id":"e","pk":"p"}}]`, 207, "7.38", "8", `"statusCode":409`},
		{"GET", "/dbs/d/colls/c/conflicts", nil, "", 200, "1", "8", `"Conflicts":[]`},
		{"GET", "/dbs/d/colls", nil, "", 200, "2", "", `"_count":1`},
		{"GET", "/dbs/d/nothing", nil, "", 400, "", "", "BadRequest"},
		{"DELETE", "/dbs/d", nil, "", 204, "4.95", "", ""},
	} {
		a := r.do(call{Method: c.method, Path: c.path, Headers: c.headers, Body: literal(c.body)})
		what := c.method + " " + c.path + " " + c.body
		require.Equal(t, c.status, a.status, "%s: %s", what, a.body)
		require.Equal(t, c.charge, a.header.Get("x-ms-request-charge"), what)
		require.Equal(t, c.lsn, a.header.Get("lsn"), what)
		require.Contains(t, a.body, c.names, what)
		if c.lsn != "" {
			require.Equal(t, "0:-1#"+c.lsn, a.header.Get("x-ms-session-token"), what)
		}
	}
}

// literal is a body that is sent as it is.
func literal(body string) []byte {
	text, _ := json.Marshal(map[string]string{"literal": body}) // strings are JSON
	return text
}
