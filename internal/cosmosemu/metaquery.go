package cosmosemu

import (
	"bytes"
	"slices"

	"github.com/valyala/fastjson"

	"binnacle/internal/cosmosemu/engine"
	"binnacle/internal/cosmosemu/sql"
)

// queryMetadata answers a query over databases, containers or offers, which are few. All rows come in
// one page.
func (x *exchange) queryMetadata(list string, docs [][]byte) (reply, error) {
	q, err := x.parseQuery()
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
	body := listBody("", list, bytes.Join(rows, []byte{','}), len(rows))
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
