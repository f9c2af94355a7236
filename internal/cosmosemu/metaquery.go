package cosmosemu

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/valyala/fastjson"

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
	body := append([]byte(`{"_rid":"","`), list...)
	body = append(append(body, `":[`...), bytes.Join(rows, []byte{','})...)
	body = append(body, `],"_count":`...)
	rep := x.metadata(append(strconv.AppendInt(body, int64(len(rows)), 10), '}'), "")
	rep.items = len(rows)
	return rep, nil
}

func (x *exchange) queryDatabases() (reply, error) {
	x.catalog.mu.RLock()
	var docs [][]byte
	for _, db := range x.catalog.databases {
		docs = append(docs, db.record.document())
	}
	x.catalog.mu.RUnlock()
	return x.queryMetadata("Databases", docs)
}

func (x *exchange) queryContainers() (reply, error) {
	if _, err := x.catalog.database(x.route.database); err != nil {
		return reply{}, err
	}
	x.catalog.mu.RLock()
	var docs [][]byte
	if db := x.catalog.databases[x.route.database]; db != nil {
		for _, co := range db.containers {
			docs = append(docs, co.current.Load().Document())
		}
	}
	x.catalog.mu.RUnlock()
	return x.queryMetadata("DocumentCollections", docs)
}
