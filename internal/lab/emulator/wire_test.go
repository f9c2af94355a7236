package emulator_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
)

const date = "thu, 27 apr 2017 00:51:12 gmt"

// sign is the Authorization header for a request, by the algorithm of the REST reference.
func sign(verb, kind, link string) string {
	raw, _ := base64.StdEncoding.DecodeString(emulator.Key)
	mac := hmac.New(sha256.New, raw)
	mac.Write([]byte(strings.ToLower(verb) + "\n" + kind + "\n" + link + "\n" + date + "\n\n"))
	return url.QueryEscape("type=master&ver=1.0&sig=" + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

// send does one request by hand.
func send(t testing.TB, s *emulator.Server, verb, path, kind, link, body string, header ...string) (*http.Response,
	string) {
	t.Helper()
	r, err := http.NewRequest(verb, s.Endpoint()+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("x-ms-date", date)
	r.Header.Set("Authorization", sign(verb, kind, link))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := s.Transport().Do(r)
	require.NoError(t, err)
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, resp.Header.Get("x-ms-serviceversion") != "", resp.Header.Get("x-ms-request-charge") != "",
		"what a partition answers has a charge, and nothing else")
	if resp.StatusCode >= 400 {
		var fault struct{ Code, Message string }
		require.NoError(t, json.Unmarshal(b, &fault), "%s", b)
		require.NotEmpty(t, fault.Code)
		require.NotEmpty(t, fault.Message)
		require.NotContains(t, fault.Message, "%!", "a verb without its value")
	}
	return resp, string(b)
}

// Signatures that the documentation and recorded traffic give for the emulator's key.
func TestSignatures(t *testing.T) {
	for _, c := range []struct{ verb, kind, link, want string }{
		{"GET", "dbs", "dbs/testdb", "7AMHA4cc5jwSUmI/2jieU+QBY0EdhgZAyXiOAu+MEzs="},
		{"GET", "", "", "gFB1bRB/PLJTG3bCgMuoVgNzOyFvZAamzEtLuSITjRc="},
		{"POST", "docs", "dbs/d/colls/c", "BxpCFKtAFFoil4E60WnvfMCGa5YdI7RxUGBsMIi5+ik="},
		{"GET", "docs", "dbs/d/colls/c/docs/id with/ ?", "d3mHDyf4RGMIIMCpBm8FcCiYLkKdTld+KmCep5yPR1E="},
	} {
		got, err := url.QueryUnescape(sign(c.verb, c.kind, c.link))
		require.NoError(t, err)
		require.Equal(t, "type=master&ver=1.0&sig="+c.want, got)
	}
}

func TestAuthorization(t *testing.T) {
	s := open(t, emulator.Config{})
	resp, _ := send(t, s, "GET", "", "", "", "")
	require.Equal(t, 200, resp.StatusCode)
	for name, header := range map[string]string{
		"missing": "", "another key": url.QueryEscape("type=master&ver=1.0&sig=" + strings.Repeat("A", 43) + "="),
		"a token": "type=aad&ver=1.0&sig=x", "another link": sign("GET", "dbs", "dbs/x"),
		"another verb": sign("POST", "", ""), "escape": "%zz",
	} {
		t.Run(name, func(t *testing.T) {
			resp, _ := send(t, s, "GET", "", "", "", "", "Authorization", header)
			require.Equal(t, 401, resp.StatusCode)
		})
	}
	// The path of an item with an escaped id is signed unescaped, and may end in a slash.
	resp, body := send(t, s, "GET", "dbs/d/colls/c/docs/id%20with%2F%20%3F/", "docs", "dbs/d/colls/c/docs/id with/ ?", "")
	require.Equal(t, 404, resp.StatusCode, body)
}

func TestAccountEchoesTheEndpoint(t *testing.T) {
	s := open(t, emulator.Config{Region: "West Europe"})
	_, body := send(t, s, "GET", "", "", "", "")
	require.Contains(t, body, `"databaseAccountEndpoint":"`+s.Endpoint()+`"`)
	require.Contains(t, body, `"name":"West Europe"`)
	other := open(t, emulator.Config{Advertise: "https://127.0.0.1:8081/"})
	require.NotEqual(t, s.Endpoint(), other.Endpoint())
	_, body = send(t, other, "GET", "", "", "", "")
	require.Contains(t, body, `"databaseAccountEndpoint":"https://127.0.0.1:8081/"`)
}

func TestPartitionKeyRangesSpeakChangeFeed(t *testing.T) {
	s := open(t, emulator.Config{PhysicalPartitions: 3})
	create(t, client(t, s), hierarchical("chunks"), 400)
	resp, body := send(t, s, "GET", "dbs/db/colls/chunks/pkranges", "pkranges", "dbs/db/colls/chunks", "", "A-IM",
		"Incremental Feed")
	require.Equal(t, 200, resp.StatusCode)
	var feed struct {
		PartitionKeyRanges []struct{ ID, MinInclusive, MaxExclusive string }
		Count              int `json:"_count"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &feed))
	require.Equal(t, 3, feed.Count)
	require.Len(t, feed.PartitionKeyRanges, 3)
	etag := resp.Header.Get("etag")
	require.NotEmpty(t, etag)
	resp, body = send(t, s, "GET", "dbs/db/colls/chunks/pkranges", "pkranges", "dbs/db/colls/chunks", "", "If-None-Match",
		etag)
	require.Equal(t, 304, resp.StatusCode)
	require.Empty(t, body)
	require.Equal(t, etag, resp.Header.Get("etag"))
}

func TestUnsupportedIsNamed(t *testing.T) {
	s := open(t, emulator.Config{})
	create(t, client(t, s), hierarchical("chunks"), 400)
	const docs, link = "dbs/db/colls/chunks/docs", "dbs/db/colls/chunks"
	pk := []string{"x-ms-documentdb-partitionkey", `["s","d"]`}
	for _, c := range []struct {
		verb, path, kind, link, body string
		header                       []string
		status                       int
		names                        string
	}{
		{"POST", docs, "docs", link, `{"id":"a"}`, append(pk, "x-ms-indexing-directive", "Exclude"), 501,
			"the indexing directive Exclude"},
		{"PUT", docs, "docs", link, "", nil, 501, "the request docs PUT feed"},
		{"POST", link + "/sprocs", "sprocs", link, "", nil, 501, "sprocs"},
		{"POST", "dbs/db/users", "users", "dbs/db", "", nil, 501, "users"},
		{"POST", docs + "/$batch", "docs", docs + "/$batch", "", nil, 405, "POST"},
		{"POST", docs, "docs", link, `{"id":"a"}`, append(pk, "x-ms-documentdb-pre-trigger-include", "t"), 501, "trigger"},
		{"POST", docs, "docs", link, `{"query":"SELECT * FROM c JOIN d IN c.l"}`,
			append(pk, "x-ms-documentdb-query", "True"), 400,
			"line 1, column 1: SELECT * over more than one source is not supported"},
		{"POST", "dbs/db/colls", "colls", "dbs/db", `{"id":"u","partitionKey":{"paths":["/a"],"version":1}}`, nil, 501,
			"version 1"},
		{"GET", "other", "other", "", "", nil, 400, "/other"},
	} {
		t.Run(c.verb+" "+c.names, func(t *testing.T) {
			resp, body := send(t, s, c.verb, c.path, c.kind, c.link, c.body, c.header...)
			if resp.StatusCode == 401 {
				t.Fatal(body)
			}
			require.Equal(t, c.status, resp.StatusCode, body)
			require.Contains(t, body, c.names)
		})
	}
}

func TestRefusedItems(t *testing.T) {
	s := open(t, emulator.Config{})
	create(t, client(t, s), hierarchical("chunks"), 400)
	const docs, link = "dbs/db/colls/chunks/docs", "dbs/db/colls/chunks"
	for _, c := range []struct {
		name, key, body string
		status, sub     int
	}{
		{"prefix key", `["s"]`, `{"id":"a","tenantShard":"s","device":"d"}`, 400, 1001},
		{"three levels", `["s","d","e"]`, `{"id":"a","tenantShard":"s","device":"d"}`, 400, 0},
		{"another key", `["s","e"]`, `{"id":"a","tenantShard":"s","device":"d"}`, 400, 1001},
		{"no key", ``, `{"id":"a","tenantShard":"s","device":"d"}`, 400, 1001},
		{"key not JSON", `["s`, `{"id":"a","tenantShard":"s","device":"d"}`, 400, 0},
		{"key no array", `"s"`, `{"id":"a","tenantShard":"s","device":"d"}`, 400, 0},
		{"not JSON", `["s","d"]`, `{"id":"a","tenantShard":"s","device":"d"`, 400, 0},
		{"no object", `["s","d"]`, `[1]`, 400, 0},
		{"no UTF-8", `["s","d"]`, "{\"id\":\"a\",\"tenantShard\":\"s\",\"device\":\"d\",\"x\":\"\xff\"}", 400, 0},
		{"deep", `["s","d"]`, strings.Repeat("[", 100_000), 400, 0},
		{"no id", `["s","d"]`, `{"tenantShard":"s","device":"d"}`, 400, 0},
		{"id no string", `["s","d"]`, `{"id":1,"tenantShard":"s","device":"d"}`, 400, 0},
		{"empty id", `["s","d"]`, `{"id":"","tenantShard":"s","device":"d"}`, 400, 0},
		{"long id", `["s","d"]`, `{"id":"` + strings.Repeat("x", 256) + `","tenantShard":"s","device":"d"}`, 400, 0},
		{"slash in id", `["s","d"]`, `{"id":"a/b","tenantShard":"s","device":"d"}`, 201, 0},
		{"ttl 0", `["s","d"]`, `{"id":"a","tenantShard":"s","device":"d","ttl":0}`, 400, 0},
		{"ttl null", `["s","d"]`, `{"id":"a","tenantShard":"s","device":"d","ttl":null}`, 400, 0},
		{"ttl fraction", `["s","d"]`, `{"id":"a","tenantShard":"s","device":"d","ttl":1.5}`, 400, 0},
		{"too large", `["s","d"]`, `{"id":"a","tenantShard":"s","device":"d","x":"` + strings.Repeat("x", 2<<20) + `"}`, 413,
			0},
		{"fine", `["s","d"]`, ` { "id" : "a" , "tenantShard" : "s" , "device" : "d" } `, 201, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			header := []string{}
			if c.key != "" {
				header = append(header, "x-ms-documentdb-partitionkey", c.key)
			}
			resp, body := send(t, s, "POST", docs, "docs", link, c.body, header...)
			require.Equal(t, c.status, resp.StatusCode, body)
			sub := ""
			if c.sub > 0 {
				sub = strconv.Itoa(c.sub)
			}
			require.Equal(t, sub, resp.Header.Get("x-ms-substatus"))
		})
	}
	_, body := send(t, s, "GET", docs+"/a", "docs", link+"/docs/a", "", "x-ms-documentdb-partitionkey", `["s","d"]`)
	require.True(t, strings.HasPrefix(body, `{"id":"a","tenantShard":"s","device":"d","_rid":"`), body)
}

func TestUndefinedKey(t *testing.T) {
	s := open(t, emulator.Config{})
	create(t, client(t, s), hierarchical("chunks"), 400)
	const docs, link = "dbs/db/colls/chunks/docs", "dbs/db/colls/chunks"
	resp, body := send(t, s, "POST", docs, "docs", link, `{"id":"a"}`)
	require.Equal(t, 201, resp.StatusCode, body)
	resp, _ = send(t, s, "GET", docs+"/a", "docs", link+"/docs/a", "", "x-ms-documentdb-partitionkey", `[{},{}]`)
	require.Equal(t, 200, resp.StatusCode)
	resp, _ = send(t, s, "GET", docs+"/a", "docs", link+"/docs/a", "", "x-ms-documentdb-partitionkey", `[null,null]`)
	require.Equal(t, 404, resp.StatusCode)
}

func TestQueryHeaders(t *testing.T) {
	s := open(t, emulator.Config{PhysicalPartitions: 2})
	create(t, client(t, s), hierarchical("chunks"), 400)
	const docs, link = "dbs/db/colls/chunks/docs", "dbs/db/colls/chunks"
	for _, c := range []struct {
		name, query string
		header      []string
		status, sub int
	}{
		{"cross partition not enabled", `SELECT * FROM c`, nil, 400, 0},
		{"enabled", `SELECT * FROM c`, []string{"x-ms-documentdb-query-enablecrosspartition", "True"}, 200, 0},
		{"pinned by WHERE", `SELECT * FROM c WHERE c.tenantShard='s' AND c.device='d'`, nil, 200, 0},
		{"ORDER BY", `SELECT * FROM c ORDER BY c.id`, []string{"x-ms-documentdb-query-enablecrosspartition", "True"}, 400,
			1004},
		{"TOP", `SELECT TOP 1 * FROM c`, []string{"x-ms-documentdb-query-enablecrosspartition", "True"}, 400, 1004},
		{"COUNT", `SELECT VALUE COUNT(1) FROM c`, []string{"x-ms-documentdb-query-enablecrosspartition", "True"}, 400, 1004},
		{"ORDER BY in a range", `SELECT * FROM c ORDER BY c.id`, []string{"x-ms-documentdb-partitionkeyrangeid", "1"}, 200,
			0},
		{"ORDER BY with a prefix", `SELECT * FROM c ORDER BY c["from"]`, []string{"x-ms-documentdb-partitionkey", `["s"]`},
			200, 0},
		{"ORDER BY pinned", `SELECT * FROM c WHERE c.tenantShard='s' AND c.device='d' ORDER BY c["from"]`, nil, 200, 0},
		{"ORDER BY without an index", `SELECT * FROM c ORDER BY c.data`,
			[]string{"x-ms-documentdb-partitionkey", `["s","d"]`}, 400, 0},
		{"range that is gone", `SELECT * FROM c`, []string{"x-ms-documentdb-partitionkeyrangeid", "7"}, 410, 1002},
		{"page of none", `SELECT * FROM c`, []string{"x-ms-documentdb-partitionkey", `["s","d"]`, "x-ms-max-item-count",
			"0"}, 200, 0},
		{"foreign continuation", `SELECT * FROM c`, []string{"x-ms-documentdb-partitionkey", `["s","d"]`,
			"x-ms-continuation", "abc"}, 400, 0},
		{"missing parameter", `SELECT * FROM c WHERE c.x = @x`, []string{"x-ms-documentdb-partitionkey", `["s","d"]`}, 200,
			0},
	} {
		t.Run(c.name, func(t *testing.T) {
			body, err := json.Marshal(map[string]any{"query": c.query})
			require.NoError(t, err)
			header := append([]string{"x-ms-documentdb-query", "True", "Content-Type", "application/query+json"}, c.header...)
			resp, text := send(t, s, "POST", docs, "docs", link, string(body), header...)
			require.Equal(t, c.status, resp.StatusCode, text)
			if c.sub > 0 {
				require.Equal(t, strconv.Itoa(c.sub), resp.Header.Get("x-ms-substatus"))
			}
			if c.status == 200 {
				require.NotEmpty(t, resp.Header.Get("x-ms-documentdb-query-metrics"))
				require.Contains(t, text, `"Documents":[]`)
			}
		})
	}
}

func TestOverTCP(t *testing.T) {
	s := open(t, emulator.Config{})
	web := httptest.NewServer(s)
	defer web.Close()
	cred, err := azcosmos.NewKeyCredential(emulator.Key)
	require.NoError(t, err)
	opts := &azcosmos.ClientOptions{}
	opts.Transport = web.Client()
	c, err := azcosmos.NewClientWithKey(web.URL, cred, opts)
	require.NoError(t, err)
	co := create(t, c, hierarchical("chunks"), 400)
	body := encode(t, chunk{ID: "a b%", TenantShard: "s", Device: "d", Data: strings.Repeat("é", 40_000)})
	_, err = co.CreateItem(context.Background(), key("s", "d"), body, nil)
	require.NoError(t, err)
	got, err := co.ReadItem(context.Background(), key("s", "d"), "a b%", nil)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(got.Value, body[:len(body)-1]))
	rows, _, _ := query(t, co, key("s", "d"), "SELECT * FROM c", 0)
	require.Equal(t, []string{string(got.Value)}, rows)
}

func TestTransportHonoursTheContext(t *testing.T) {
	s := open(t, emulator.Config{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", s.Endpoint(), nil)
	require.NoError(t, err)
	_, err = s.Transport().Do(r)
	require.ErrorIs(t, err, context.Canceled)
}
