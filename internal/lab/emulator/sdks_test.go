package emulator_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
)

// rest does requests by hand in one container, dbs/d/colls/c, as SDKs do that are not written in Go.
type rest struct {
	*testing.T
	s *emulator.Server
}

// withContainer opens an emulator with a container of this definition, keyed by /pk.
func withContainer(t *testing.T, definition string) rest {
	r := rest{t, open(t, emulator.Config{Unlimited: true})}
	r.do(201, "POST", "dbs", "dbs", "", `{"id":"d"}`)
	r.do(201, "POST", "dbs/d/colls", "colls", "dbs/d", r.definition(definition))
	return r
}

func (r rest) definition(more string) string {
	return `{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}` + more + `}`
}

// do sends a request and requires the status of its answer, of which it returns the body.
func (r rest) do(status int, verb, path, kind, link, body string, header ...string) string {
	r.Helper()
	resp, text := send(r.T, r.s, verb, path, kind, link, body, header...)
	require.Equal(r.T, status, resp.StatusCode, text)
	return text
}

const docs = "dbs/d/colls/c/docs"

func (r rest) create(item string) map[string]any {
	r.Helper()
	var out map[string]any
	text := r.do(201, "POST", docs, "docs", "dbs/d/colls/c", item, "x-ms-documentdb-partitionkey", `["p"]`)
	require.NoError(r.T, json.Unmarshal([]byte(text), &out))
	return out
}

// query returns the rows of a query in the partition key p.
func (r rest) query(text string) string {
	r.Helper()
	sent, err := json.Marshal(map[string]string{"query": text})
	require.NoError(r.T, err)
	answer := r.do(200, "POST", docs, "docs", "dbs/d/colls/c", string(sent),
		"x-ms-documentdb-partitionkey", `["p"]`, "x-ms-documentdb-isquery", "true")
	var out struct{ Documents json.RawMessage }
	require.NoError(r.T, json.Unmarshal([]byte(answer), &out))
	return string(out.Documents)
}

const lowered = `,"computedProperties":[{"name":"low","query":"SELECT VALUE LOWER(c.name) FROM c"},` +
	`{"name":"parts","query":"SELECT VALUE {\"n\": x.n * 2} FROM x"}]`

func TestComputedProperties(t *testing.T) {
	r := withContainer(t, lowered)
	for i, name := range []string{"Ab", "aB", "C"} {
		r.create(fmt.Sprintf(`{"id":"%d","pk":"p","name":"%s","n":%d}`, i, name, i))
	}
	require.JSONEq(t, `["0","1"]`, r.query(`SELECT VALUE c.id FROM c WHERE c.low = "ab"`))
	require.JSONEq(t, `[{"low":"c","n":4}]`, r.query(`SELECT x.low, x.parts.n FROM x WHERE x.parts.n > 2`))
	require.JSONEq(t, `[{"low":"ab","k":2},{"low":"c","k":1}]`,
		r.query(`SELECT c.low, COUNT(1) AS k FROM c GROUP BY c.low`))
	require.JSONEq(t, `[]`, r.query(`SELECT VALUE c.name.low FROM c`), "below a property it is none")
	require.NotContains(t, r.query(`SELECT * FROM c`), "low", "it is not stored")

	r.do(200, "PUT", "dbs/d/colls/c", "colls", "dbs/d/colls/c", r.definition(""))
	require.JSONEq(t, `[]`, r.query(`SELECT VALUE c.id FROM c WHERE c.low = "ab"`), "the container has none any more")
}

func TestAnOrderOfOneRow(t *testing.T) {
	r := withContainer(t, "")
	r.create(`{"id":"a","pk":"p","n":2}`)
	r.create(`{"id":"b","pk":"p","n":3}`)
	require.JSONEq(t, `[5]`, r.query(`SELECT VALUE SUM(c.n) FROM c ORDER BY c.n`))
}

func TestRefusedComputedProperties(t *testing.T) {
	r := withContainer(t, "")
	for name, list := range map[string]string{
		"no list": `{"name":"a","query":"SELECT VALUE c.a FROM c"}`,
		"no name": `[{"query":"SELECT VALUE c.a FROM c"}]`,
		"system":  `[{"name":"_ts","query":"SELECT VALUE c.a FROM c"}]`,
		"id":      `[{"name":"id","query":"SELECT VALUE c.a FROM c"}]`,
		"twice": `[{"name":"a","query":"SELECT VALUE c.a FROM c"},` +
			`{"name":"a","query":"SELECT VALUE c.b FROM c"}]`,
		"no query":     `[{"name":"a","query":"LOWER(c.a)"}]`,
		"no value":     `[{"name":"a","query":"SELECT c.a FROM c"}]`,
		"a condition":  `[{"name":"a","query":"SELECT VALUE c.a FROM c WHERE c.b"}]`,
		"an aggregate": `[{"name":"a","query":"SELECT VALUE COUNT(1) FROM c"}]`,
		"an iteration": `[{"name":"a","query":"SELECT VALUE x FROM x IN c.list"}]`,
		"a path":       `[{"name":"a","query":"SELECT VALUE x FROM c.a AS x"}]`,
		"more than 20": "[" + strings.Repeat(`{"name":"a","query":"SELECT VALUE c.a FROM c"},`, 20) +
			`{"name":"b"}]`,
		"another name":  `[{"name":"a","query":"SELECT VALUE d.a FROM c"}]`,
		"without names": `[{"name":"a","query":"SELECT VALUE 1"}]`,
	} {
		t.Run(name, func(t *testing.T) {
			def := r.definition(`,"computedProperties":` + list)
			rest{t, r.s}.do(400, "PUT", "dbs/d/colls/c", "colls", "dbs/d/colls/c", def)
		})
	}
}

// Clients that hold an item address it by its _self, which has resource ids, and sign its resource id in lower case.
func TestResourceIDsInPaths(t *testing.T) {
	r := withContainer(t, "")
	r.create(`{"id":"a","pk":"p"}`)
	item := r.create(`{"id":"b","pk":"p"}`)
	self, rid := strings.Trim(item["_self"].(string), "/"), strings.ToLower(item["_rid"].(string))
	header := []string{"x-ms-documentdb-partitionkey", `["p"]`}
	require.Contains(t, r.do(200, "GET", self, "docs", rid, "", header...), `"id":"b"`)
	r.do(200, "PUT", self+"/", "docs", rid, `{"id":"b","pk":"p","n":1}`, header...)
	require.JSONEq(t, `[1]`, r.query(`SELECT VALUE c.n FROM c`))
	r.do(204, "DELETE", self, "docs", rid, "", header...)
	r.do(404, "DELETE", self, "docs", rid, "", header...)
	r.do(401, "GET", self, "docs", self, "", header...)
	r.do(404, "GET", "dbs/AAAAAA==/colls/AAAAAAAAAAA=", "colls", "aaaaaaaaaaa=", "")
	coll := self[:strings.Index(self, "/docs")]
	r.do(200, "GET", coll, "colls", strings.ToLower(coll[strings.LastIndex(coll, "/")+1:]), "")
}

func TestAnotherContainerIsMeant(t *testing.T) {
	r := withContainer(t, "")
	resp, _ := send(t, r.s, "GET", docs+"/a", "docs", docs+"/a", "", "x-ms-documentdb-partitionkey", `["p"]`,
		"x-ms-cosmos-intended-collection-rid", "AAAAAAAAAAA=")
	require.Equal(t, "400/1024", fmt.Sprint(resp.StatusCode, "/", resp.Header.Get("x-ms-substatus")))
}

func TestDeleteAllItemsOfAKey(t *testing.T) {
	r := withContainer(t, "")
	for i := range 3 {
		r.create(fmt.Sprintf(`{"id":"%d","pk":"p"}`, i))
	}
	r.do(201, "POST", docs, "docs", "dbs/d/colls/c", `{"id":"other","pk":"q"}`, "x-ms-documentdb-partitionkey", `["q"]`)
	r.do(401, "POST", "dbs/d/colls/c/operations/partitionkeydelete", "docs", "dbs/d/colls/c", "")
	r.do(200, "POST", "dbs/d/colls/c/operations/partitionkeydelete", "partitionkey", "dbs/d/colls/c", "",
		"x-ms-documentdb-partitionkey", `["p"]`)
	require.JSONEq(t, `[]`, r.query(`SELECT * FROM c`))
	r.do(200, "GET", docs+"/other", "docs", docs+"/other", "", "x-ms-documentdb-partitionkey", `["q"]`)
}

func TestStatisticsOfContainers(t *testing.T) {
	r := withContainer(t, "")
	r.create(`{"id":"a","pk":"p"}`)
	resp, body := send(t, r.s, "GET", "dbs/d/colls/c", "colls", "dbs/d/colls/c", "",
		"x-ms-documentdb-populatequotainfo", "True", "x-ms-documentdb-populatepartitionstatistics", "True")
	require.Contains(t, body, `"statistics":[{"id":"0","sizeInKB":0,"documentCount":1,"partitionKeys":[]}]`)
	require.Contains(t, resp.Header.Get("x-ms-resource-usage"), "documentsCount=1;")
	require.Equal(t, "100", resp.Header.Get("x-ms-documentdb-collection-index-transformation-progress"))
}

// Policies for vectors and full text are kept as they are.
func TestSearchPolicies(t *testing.T) {
	const policies = `,"vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v","dataType":"float32","dimensions":8,` +
		`"distanceFunction":"cosine"}]},"indexingPolicy":{"vectorIndexes":[{"path":"/v","type":"diskANN"}],` +
		`"fullTextIndexes":[{"path":"/t"}]},` +
		`"fullTextPolicy":{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/t","language":"en-US"}]}`
	r := withContainer(t, policies)
	got := r.do(200, "GET", "dbs/d/colls/c", "colls", "dbs/d/colls/c", "")
	for _, kept := range []string{
		`"vectorEmbeddings":[{"path":"/v","dataType":"float32","dimensions":8,"distanceFunction":"cosine"}]`,
		`"vectorIndexes":[{"path":"/v","type":"diskANN"}]`, `"fullTextIndexes":[{"path":"/t"}]`,
		`"fullTextPaths":[{"path":"/t","language":"en-US"}]`,
	} {
		require.Contains(t, got, kept)
	}
}

// TestHeadersAreLowerCase reads an answer as it is on the wire: net/http tells nobody the case.
func TestHeadersAreLowerCase(t *testing.T) {
	s := open(t, emulator.Config{Unlimited: true})
	web := httptest.NewServer(s)
	defer web.Close()
	conn, err := net.Dial("tcp", web.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	_, err = fmt.Fprintf(conn, "GET /dbs HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"+
		"x-ms-date: %s\r\nAuthorization: %s\r\n\r\n", date, sign("GET", "dbs", ""))
	require.NoError(t, err)
	raw, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(raw), "\r\nx-ms-request-charge: 2\r\n")
	require.NotContains(t, string(raw), "X-Ms-")
}

func TestVersionsOfThePartitionKey(t *testing.T) {
	r := withContainer(t, "")
	answer := r.do(201, "POST", "dbs/d/colls", "colls", "dbs/d",
		`{"id":"j","partitionKey":{"paths":["/pk"],"kind":"Hash","version":"V2"}}`)
	require.Contains(t, answer, `"version":2`, "as Java's client sends it")
	for version, status := range map[string]int{`2`: 201, `"V1"`: 501, `"x"`: 400, `true`: 400} {
		r.do(status, "POST", "dbs/d/colls", "colls", "dbs/d",
			`{"id":"k","partitionKey":{"paths":["/pk"],"kind":"Hash","version":`+version+`}}`)
	}
}

// Java's client makes the path of a container of this header, and refuses resource ids that are not those of items.
func TestWhatJavaAsksOfAnAnswer(t *testing.T) {
	r := withContainer(t, "")
	resp, body := send(t, r.s, "GET", "dbs/d/colls/c", "colls", "dbs/d/colls/c", "")
	var co struct {
		Self string `json:"_self"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &co))
	require.Equal(t, "dbs/d", resp.Header.Get("x-ms-alt-content-path"))
	require.Equal(t, strings.Split(co.Self, "/")[1], resp.Header.Get("x-ms-content-path"))
	for i := range 3 {
		rid := r.create(fmt.Sprintf(`{"id":"%d","pk":"p"}`, i))["_rid"].(string)
		raw, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(rid, "-", "/"))
		require.NoError(t, err)
		require.Zero(t, raw[15]>>4, "the kind of resource: an item")
	}
}

// Python's suite expects these of the service.
func TestWhatPythonExpectsOfQueries(t *testing.T) {
	r := withContainer(t, "")
	for i := range 3 {
		r.create(fmt.Sprintf(`{"id":"%d","pk":"p","n":%d}`, i, i))
	}
	ask := func(kind, text string, header ...string) (int, string) {
		resp, body := send(t, r.s, "POST", "dbs/d/colls/c/"+kind, kind, "dbs/d/colls/c", `{"query":"`+text+`"}`,
			append(header, "x-ms-documentdb-isquery", "true")...)
		return resp.StatusCode, body + resp.Header.Get("x-ms-documentdb-query-metrics")
	}
	key := []string{"x-ms-documentdb-partitionkey", `["p"]`}
	cross := []string{"x-ms-documentdb-query-enablecrosspartition", "true"}
	for _, c := range []struct {
		kind, text string
		header     []string
		status     int
		holds      string
	}{
		{"docs", "SELECT VALUE COUNT(1) FROM c", key, 200, "retrievedDocumentCount=0;retrievedDocumentSize=0;"},
		{"docs", "SELECT VALUE COUNT(1) FROM c WHERE c.n > 0", key, 200, "retrievedDocumentCount=0;"},
		{"docs", "SELECT VALUE SUM(c.n) FROM c", key, 200, "retrievedDocumentCount=3;"},
		{"docs", "SELECT AVG(c.n) FROM c", key, 200, `"$1":1`},
		{"docs", "SELECT VALUE AVG(c.n) FROM c WHERE c.pk = 'p'", cross, 200, `[1]`},
		{"conflicts", "SELECT * FROM c", nil, 400, "Cross partition query is required"},
		{"conflicts", "SELECT * FROM c", cross, 200, `"Conflicts":[]`},
		{"conflicts", "SELECT * FROM c", key, 200, `"Conflicts":[]`},
	} {
		status, answer := ask(c.kind, c.text, c.header...)
		require.Equal(t, c.status, status, c.text+answer)
		require.Contains(t, answer, c.holds, c.text)
	}
}

// Clients that name a range of keys may go on by the key itself.
func TestAnOrderByRangeGoesOnByKey(t *testing.T) {
	for _, order := range []string{"ASC", "DESC"} {
		r := withContainer(t, "")
		for i := range 9 {
			r.create(fmt.Sprintf(`{"id":"%d","pk":"p"}`, i))
		}
		where, continuation, all := []string{"x-ms-documentdb-partitionkeyrangeid", "0"}, "", ""
		for range 3 {
			query := `{"query":"SELECT VALUE c.id FROM c ORDER BY c.id ` + order + `"}`
			header := append(where, "x-ms-documentdb-isquery", "true", "x-ms-max-item-count", "3",
				"x-ms-continuation", continuation)
			resp, body := send(t, r.s, "POST", docs, "docs", "dbs/d/colls/c", query, header...)
			require.Equal(t, 200, resp.StatusCode, body)
			var page struct{ Documents []string }
			require.NoError(t, json.Unmarshal([]byte(body), &page))
			all += strings.Join(page.Documents, "")
			where, continuation = []string{"x-ms-documentdb-partitionkey", `["p"]`}, resp.Header.Get("x-ms-continuation")
		}
		require.Empty(t, continuation)
		require.Equal(t, map[string]string{"ASC": "012345678", "DESC": "876543210"}[order], all)
	}
}
