package emulator

import (
	"bytes"
	"slices"

	"github.com/valyala/fastjson"

	"binnacle/internal/lab/emulator/engine"
	"binnacle/internal/lab/emulator/refusal"
	"binnacle/internal/lab/emulator/sql"
)

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
