package emulator

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"binnacle/internal/lab/emulator/engine"
	"binnacle/internal/lab/emulator/refusal"
	"binnacle/internal/lab/emulator/sql"

	"github.com/valyala/fastjson"
)

// route is what the path of a request addresses.
type route struct {
	// kind is the resource type in its signed form: "", dbs, colls, docs, offers, pkranges, ...
	kind string
	// link is the signed part: the resource, or the parent of a feed.
	link      string
	database  string
	container string
	// id names an item or an offer.
	id   string
	feed bool   // the path names a set, not one of it
	rid  string // resource id of the item, where the path has resource ids in place of names
}

// kindKey is the resource type of a request that deletes all items of a partition key.
const kindKey = "partitionkey"

// parseRoute takes the path apart while it is still escaped: ids may hold any character.
func parseRoute(u *url.URL) (route, error) {
	text := strings.Trim(u.EscapedPath(), "/")
	if text == "" {
		return route{}, nil
	}
	segments := strings.Split(text, "/")
	n := len(segments)
	if n > 6 {
		return route{}, refusal.BadRequest("the url %s is invalid", u.Path)
	}
	for i, part := range segments {
		plain, err := url.PathUnescape(part)
		if err != nil {
			return route{}, refusal.BadRequest("the path %s is not escaped correctly", u.Path)
		}
		segments[i] = plain
	}
	rt := route{feed: n%2 == 1, kind: segments[(n-1)/2*2]}
	rt.link = strings.Join(segments[:n/2*2], "/")
	switch {
	case segments[0] == "offers" && n <= 2:
		if n == 2 {
			rt.id = segments[1]
			rt.link = strings.ToLower(segments[1])
		}
		return rt, nil
	case segments[0] != "dbs":
		return rt, refusal.BadRequest("the url %s is invalid", u.Path)
	}
	if n > 1 {
		rt.database = segments[1]
	}
	switch {
	case n > 2 && segments[2] == "users" && n < 5:
		return rt, nil
	case n > 2 && segments[2] != "colls":
		return rt, refusal.BadRequest("the url %s is invalid", u.Path)
	}
	if n > 3 {
		rt.container = segments[3]
	}
	if n == 6 && segments[4] == "operations" && segments[5] == "partitionkeydelete" {
		rt.kind, rt.link = kindKey, strings.Join(segments[:4], "/")
		return rt, nil
	}
	if n > 4 && segments[4] != "docs" && segments[4] != "pkranges" && lists[segments[4]] == "" {
		return rt, refusal.BadRequest("the url %s is invalid", u.Path)
	}
	if n > 5 {
		rt.id = segments[5]
	}
	return rt, nil
}

// named returns the route by names, where the path has resource ids: that of an item is still to be looked up.
func (s *Server) named(rt route) route {
	if rt.database == "" {
		return rt
	}
	database, container, ok := s.account.Named(rt.database, rt.container)
	if !ok && !s.account.Gone(rt.database) {
		return rt
	}
	rt.link = strings.ToLower(rt.link[strings.LastIndexByte(rt.link, '/')+1:]) // the part that is signed
	if !ok {
		return rt
	}
	rt.database, rt.container, rt.rid = database, container, rt.id
	return rt
}

// findItem finds the id of the item that the path names by its resource id.
func (x *exchange) findItem() error {
	co, err := x.container()
	if err != nil {
		return err
	}
	id, err := co.ItemID(x.request.Header.Get(hKey), x.route.rid)
	if id != "" {
		x.route.id = id
	}
	return err
}

func (rt route) containerPath() string { return "dbs/" + rt.database + "/colls/" + rt.container }

func (rt route) handler(method string, h http.Header) (handler, error) {
	key := rt.kind + " " + method
	if rt.feed {
		key += " feed"
		if isQuery(h) {
			key += " query"
		}
		if rt.kind == "docs" && method == http.MethodGet && h.Get("A-Im") != "" {
			key += " changes"
		}
	}
	serve := handlers[key]
	switch {
	case serve != nil:
		return serve, nil
	case rt.kind == "":
		return nil, refusal.NotAllowed(method, "/")
	case rt.kind == "docs" && !rt.feed && method == http.MethodPost:
		return nil, refusal.NotAllowed(method, "an item")
	case lists[rt.kind] != "" && rt.feed && (method == http.MethodGet || isQuery(h)):
		return (*exchange).listNone, nil
	case rt.kind == "conflicts" && !rt.feed:
		return nil, refusal.NotFound("the conflict %q does not exist", rt.id)
	}
	return nil, refusal.Unsupported("the request %s", key)
}

// handler serves one kind of request.
type handler func(*exchange) (reply, error)

// on returns what serves a request about a container that must be there.
func on(serve func(*exchange, *engine.Container) (reply, error)) handler {
	return func(x *exchange) (reply, error) {
		co, err := x.container()
		if err != nil {
			return reply{}, err
		}
		return serve(x, co)
	}
}

// handlers is all that the emulator serves, by resource type, method, and whether a set is addressed.
var handlers = map[string]handler{
	" GET":                   (*exchange).readAccount,
	"dbs POST feed":          (*exchange).createDatabase,
	"dbs POST feed query":    (*exchange).queryMetadata,
	"dbs GET feed":           (*exchange).listMetadata,
	"dbs GET":                (*exchange).readDatabase,
	"dbs DELETE":             (*exchange).deleteDatabase,
	"colls POST feed":        (*exchange).createContainer,
	"colls POST feed query":  (*exchange).queryMetadata,
	"colls GET feed":         (*exchange).listMetadata,
	"colls GET":              on((*exchange).readContainer),
	"colls PUT":              (*exchange).replaceContainer,
	"colls DELETE":           (*exchange).deleteContainer,
	"pkranges GET feed":      on((*exchange).readRanges),
	"offers POST feed query": (*exchange).queryMetadata,
	"offers GET feed":        (*exchange).listMetadata,
	"offers GET":             (*exchange).readOffer,
	"offers PUT":             (*exchange).replaceOffer,
	"docs POST feed":         on((*exchange).createItem),
	"docs POST feed query":   on((*exchange).queryItems),
	"docs GET feed":          on((*exchange).readItems),
	"docs GET feed changes":  on((*exchange).readChanges),
	"docs GET":               on((*exchange).readItem),
	"docs PUT":               write(engine.OpReplace),
	"docs PATCH":             write(engine.OpPatch),
	"docs DELETE":            write(engine.OpDelete),
	"partitionkey POST":      on((*exchange).deleteKey),
}

// lists are the resource types that an account may have and this one never has, with the names of their lists.
var lists = map[string]string{
	"users": "Users", "conflicts": "Conflicts", "sprocs": "StoredProcedures", "triggers": "Triggers",
	"udfs": "UserDefinedFunctions",
}

func isQuery(h http.Header) bool {
	return isTrue(h.Get("X-Ms-Documentdb-Query")) || isTrue(h.Get("X-Ms-Documentdb-Isquery")) || isPlan(h)
}

// isTrue reads a boolean header: SDKs write True and true.
func isTrue(s string) bool { return strings.EqualFold(s, "true") }

// listed answers with a list of databases, containers or offers, in one page.
func (x *exchange) listed(name string, docs [][]byte) reply {
	rep := x.metadata(engine.Resource{Body: list{"", name, bytes.Join(docs, []byte{','}), len(docs)}.body()})
	rep.items = len(docs)
	return rep
}

// metadataDocuments returns the documents of all databases, of the containers of one, or of all offers, and what their
// list is called.
func (x *exchange) metadataDocuments() (name string, docs [][]byte, err error) {
	switch x.route.kind {
	case "dbs":
		return "Databases", x.account.Databases(), nil
	case "offers":
		docs, err = x.account.Offers()
		return "Offers", docs, err
	}
	docs, err = x.account.ContainerDocuments(x.route.database)
	return "DocumentCollections", docs, err
}

func (x *exchange) listMetadata() (reply, error) {
	name, docs, err := x.metadataDocuments()
	if err != nil {
		return reply{}, err
	}
	return x.listed(name, docs), nil
}

// listNone answers with a list of what this account never has.
func (x *exchange) listNone() (reply, error) {
	h := x.request.Header
	if x.route.kind == "conflicts" && isQuery(h) && h.Get(hKey) == "" &&
		!isTrue(h.Get("X-Ms-Documentdb-Query-Enablecrosspartition")) {
		return reply{}, refusal.CrossDisabled()
	}
	rep := x.listed(lists[x.route.kind], nil)
	if x.route.container == "" {
		_, err := x.account.Database(x.route.database)
		return rep, err
	}
	co, err := x.container()
	if err != nil {
		return reply{}, err
	}
	first := co.Ranges()[0]
	rep.charge, rep.rangeID, rep.lsn = 1, first.ID, first.LSN
	return rep, nil
}

// queryMetadata answers a query over databases, containers or offers, which are few. All rows come in
// one page.
func (x *exchange) queryMetadata() (reply, error) {
	name, docs, err := x.metadataDocuments()
	if err != nil {
		return reply{}, err
	}
	q, err := x.parseQuery(nil)
	if err != nil {
		return reply{}, err
	}
	slices.SortFunc(docs, bytes.Compare)
	conditions := q.bound.Conditions()
	all := q.bound.Collector(true)
	for _, d := range docs {
		doc, err := fastjson.ParseBytes(d)
		if err != nil {
			return reply{}, err
		}
		r := q.bound.Query().Row(doc)
		if slices.ContainsFunc(conditions, func(c sql.Condition) bool { return !c.True(r) }) {
			continue
		}
		if err := all.Add(r); err != nil {
			return reply{}, err
		}
	}
	if err := q.bound.Err(); err != nil {
		return reply{}, err
	}
	return x.listed(name, all.Rows()), nil
}

// rangeJSON is a physical partition on the wire.
type rangeJSON struct {
	RID        string   `json:"_rid"`
	ID         string   `json:"id"`
	ETag       string   `json:"_etag"`
	Min        string   `json:"minInclusive"`
	Max        string   `json:"maxExclusive"`
	RIDPrefix  int      `json:"ridPrefix"`
	Self       string   `json:"_self"`
	Throughput float64  `json:"throughputFraction"`
	Status     string   `json:"status"`
	Parents    []string `json:"parents"`
	TS         int64    `json:"_ts"`
	LSN        uint64   `json:"lsn"`
}

// readRanges answers with the physical partitions. SDKs read it like a change feed: once all, with an ETag,
// then for that ETag the partitions that splits have made since. Each new partition names all its ancestors, so
// that a client that has missed several splits can drop the partitions that are gone.
func (x *exchange) readRanges(co *engine.Container) (reply, error) {
	parts := co.Ranges()
	splits := 0
	for _, p := range parts {
		splits = max(splits, p.Since)
	}
	etag := rangesETag(co.RID(), splits)
	seen := seenSplits(co.RID(), x.request.Header.Get("If-None-Match"))
	if seen >= splits {
		rep := x.metadata(engine.Resource{ETag: etag})
		rep.status = http.StatusNotModified
		return rep, nil
	}
	def := co.Definition()
	out := make([]rangeJSON, 0, len(parts))
	for i, p := range parts {
		if p.Since <= seen {
			continue
		}
		out = append(out, rangeJSON{
			RID: co.RID(), ID: p.ID, ETag: etag, Min: p.Min, Max: p.Max, RIDPrefix: i,
			Self:       strings.TrimSuffix(def.Self, "/") + "/pkranges/" + p.ID + "/",
			Throughput: 1 / float64(len(parts)), Status: "online", Parents: p.Parents, TS: def.TS, LSN: p.LSN,
		})
	}
	body, err := json.Marshal(map[string]any{"_rid": co.RID(), "PartitionKeyRanges": out, "_count": len(out)})
	if err != nil {
		return reply{}, err
	}
	rep := x.metadata(engine.Resource{Body: body, ETag: etag})
	rep.items, rep.rid, rep.path, rep.gateway = len(out), co.RID(), x.route.containerPath(), true
	return rep, nil
}

// rangesETag returns the ETag of the physical partitions of a container after that many splits.
func rangesETag(rid string, splits int) string { return `"` + rid + "-" + strconv.Itoa(splits) + `"` }

// seenSplits reads such an ETag; -1 for any other.
func seenSplits(rid, etag string) int {
	text, ok := strings.CutPrefix(strings.Trim(etag, `"`), rid+"-")
	n, err := strconv.Atoi(text)
	if !ok || err != nil || n < 0 {
		return -1
	}
	return n
}
