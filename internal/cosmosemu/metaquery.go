package cosmosemu

import (
	"bytes"
	"slices"

	"github.com/valyala/fastjson"

	"binnacle/internal/cosmosemu/engine"
	"binnacle/internal/cosmosemu/refusal"
	"binnacle/internal/cosmosemu/sql"
)

// listed answers with a list of databases, containers or offers, in one page.
func (x *exchange) listed(rid, name string, docs [][]byte) reply {
	rep := x.metadata(engine.Resource{Body: list{rid, name, bytes.Join(docs, []byte{','}), len(docs)}.body()})
	rep.items = len(docs)
	return rep
}

func (x *exchange) listDatabases() (reply, error) {
	return x.listed("", "Databases", x.account.Databases()), nil
}

func (x *exchange) listContainers() (reply, error) {
	docs, err := x.account.ContainerDocuments(x.route.database)
	if err != nil {
		return reply{}, err
	}
	return x.listed("", "DocumentCollections", docs), nil
}

func (x *exchange) listOffers() (reply, error) {
	return x.listed("", "Offers", x.account.Offers()), nil
}

// listNone answers with a list of what this account never has.
func (x *exchange) listNone() (reply, error) {
	h := x.request.Header
	if x.route.kind == "conflicts" && isQuery(h) && h.Get(hKey) == "" &&
		!isTrue(h.Get("X-Ms-Documentdb-Query-Enablecrosspartition")) {
		return reply{}, refusal.CrossDisabled()
	}
	rep := x.listed("", lists[x.route.kind], nil)
	if x.route.container == "" {
		_, err := x.account.Database(x.route.database)
		return rep, err
	}
	co, err := x.container()
	if err != nil {
		return reply{}, err
	}
	rep.charge, rep.rangeID = 1, co.Ranges()[0].ID
	rep.lsn = co.Ranges()[0].LSN
	return rep, nil
}

// queryMetadata answers a query over databases, containers or offers, which are few. All rows come in
// one page.
func (x *exchange) queryMetadata(name string, docs [][]byte) (reply, error) {
	q, err := x.parseQuery(nil)
	if err != nil {
		return reply{}, err
	}
	slices.SortFunc(docs, func(a, b []byte) int { return slices.Compare(a, b) })
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
	rows := all.Rows()
	body := list{"", name, bytes.Join(rows, []byte{','}), len(rows)}.body()
	rep := x.metadata(engine.Resource{Body: body})
	rep.items = len(rows)
	return rep, nil
}

func (x *exchange) queryDatabases() (reply, error) {
	return x.queryMetadata("Databases", x.account.Databases())
}

func (x *exchange) queryContainers() (reply, error) {
	docs, err := x.account.ContainerDocuments(x.route.database)
	if err != nil {
		return reply{}, err
	}
	return x.queryMetadata("DocumentCollections", docs)
}

func (x *exchange) queryOffers() (reply, error) {
	return x.queryMetadata("Offers", x.account.Offers())
}
