package sql

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Plan describes how a client may send a query to each physical partition and merge the answers.
type Plan struct {
	Version int       `json:"partitionedQueryExecutionInfoVersion"`
	Info    planInfo  `json:"queryInfo"`
	Ranges  []planned `json:"queryRanges"`
	Hybrid  *struct{} `json:"hybridSearchQueryInfo"`
}

type planInfo struct {
	Distinct        string             `json:"distinctType"`
	Top             *int               `json:"top"`
	Offset          *int               `json:"offset"`
	Limit           *int               `json:"limit"`
	OrderBy         []string           `json:"orderBy"`
	OrderByTexts    []string           `json:"orderByExpressions"`
	GroupByTexts    []string           `json:"groupByExpressions"`
	GroupByAliases  []string           `json:"groupByAliases"`
	Aggregates      []string           `json:"aggregates"`
	AggregateTypes  map[string]*string `json:"groupByAliasToAggregateType"`
	Rewritten       string             `json:"rewrittenQuery"`
	HasValue        bool               `json:"hasSelectValue"`
	DistinctCount   *struct{}          `json:"dCountInfo"`
	NonStreamingOrd bool               `json:"hasNonStreamingOrderBy"`
}

type planned struct {
	Min    string `json:"min"`
	Max    string `json:"max"`
	HasMin bool   `json:"isMinInclusive"`
	HasMax bool   `json:"isMaxInclusive"`
}

// orderFilter marks in a plan the place of the condition with which a client resumes in an order.
const orderFilter = "{documentdb-formattableorderbyquery-filter}"

// Plan returns the plan of a query. It contains the values of the parameters in TOP, OFFSET and LIMIT. counts
// reports that the client wants the number of values with each minimum and maximum.
func (b *Bound) Plan(counts bool) *Plan {
	q, s := b.query, b.query.text
	p := &Plan{Version: 2, Ranges: []planned{{Max: "FF", HasMin: true}}}
	p.Info = planInfo{
		Distinct: "None", Top: counted(b.top), Offset: counted(b.offset), Limit: counted(b.limit),
		OrderBy: []string{}, OrderByTexts: []string{}, GroupByTexts: []string{}, GroupByAliases: []string{},
		Aggregates: []string{}, AggregateTypes: map[string]*string{}, HasValue: s.Value != nil,
	}
	w := rewriting{q, s, b, &p.Info, counts}
	switch {
	case q.Grouped || q.Aggregate && s.Value == nil:
		w.grouped()
	case q.Aggregate:
		w.aggregate()
	case len(s.Order) > 0:
		w.ordered()
	case s.Distinct:
		w.distinct()
	case b.limit >= 0 && !q.Scalar:
		w.info.Rewritten = w.rest("SELECT " + w.list())
	}
	return p
}

// Text returns the plan as JSON.
func (p *Plan) Text() []byte {
	text := strings.Builder{}
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	if err := out.Encode(p); err != nil {
		panic("sql: encode a plan: " + err.Error()) // strings, numbers and booleans
	}
	return []byte(strings.TrimSpace(text.String()))
}

func counted(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}

// rewriting makes the query that each physical partition is asked.
type rewriting struct {
	*Query
	s     *statement
	bound *Bound
	info  *planInfo

	counts bool // MIN and MAX come with the number of their values
}

func (w rewriting) print(list ...*expr) string {
	if len(list) == 0 {
		return ""
	}
	return printed(w.sent[list[0].Pos.Offset:list[len(list)-1].EndPos.Offset])
}

func (w rewriting) list() string {
	switch {
	case w.s.Star:
		return "*"
	case w.s.Value != nil:
		return "VALUE " + w.print(w.s.Value)
	}
	columns := make([]string, len(w.s.Columns))
	for i, c := range w.s.Columns {
		columns[i] = w.print(c.Expr)
		if c.Alias != nil {
			columns[i] += " AS " + c.Alias.Name
		}
	}
	return strings.Join(columns, ", ")
}

func (w rewriting) payload() string {
	switch {
	case w.s.Star:
		return w.root()
	case w.s.Value != nil:
		return w.print(w.s.Value)
	}
	fields := make([]string, len(w.s.Columns))
	for i, c := range w.s.Columns {
		fields[i] = `"` + w.columns[i].name + `"` + ": " + w.print(c.Expr)
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

func (w rewriting) root() string {
	source := w.s.From.Source
	if source.Alias != "" {
		return source.Alias
	}
	return source.Root
}

// ordered rewrites a query with ORDER BY: each row has its id and its sort values.
func (w rewriting) ordered() {
	items := make([]string, len(w.s.Order))
	for i, o := range w.s.Order {
		text := w.print(o.Expr)
		items[i] = `{"item": ` + text + `}`
		direction := "Ascending"
		if o.descending() {
			direction = "Descending"
		}
		w.info.OrderBy = append(w.info.OrderBy, direction)
		w.info.OrderByTexts = append(w.info.OrderByTexts, text)
	}
	head := "SELECT "
	switch {
	case w.s.Distinct: // the rows that TOP or LIMIT cuts off would count duplicates
		w.info.Distinct = "Ordered"
		head += "DISTINCT "
	case w.bound.top >= 0:
		head += "TOP " + strconv.Itoa(w.bound.top) + " "
	}
	w.info.Rewritten = w.rest(fmt.Sprintf("%s%s._rid, [%s] AS orderByItems, %s AS payload",
		head, w.root(), strings.Join(items, ", "), w.payload()))
}

// distinct rewrites a query with DISTINCT where TOP must count rows that are distinct over all partitions.
func (w rewriting) distinct() {
	w.info.Distinct = "Unordered"
	if w.s.Top != nil || w.s.Limit != nil {
		w.info.Rewritten = w.rest("SELECT DISTINCT " + w.list())
	}
}

func (w rewriting) aggregate() {
	called, call := w.partial(w.s.Value)
	if called != "" {
		w.info.Aggregates = append(w.info.Aggregates, called)
	}
	w.info.Rewritten = w.rest(`SELECT VALUE [{"item": ` + call + `}]`)
}

// partial returns what plans call the aggregate that an expression is, "" for any other, and the expression as one
// partition has to answer it: an average as its sum and count.
func (w rewriting) partial(e *expr) (called, text string) {
	text = w.print(e)
	t := sole(e)
	if t == nil || t.Call == nil {
		return "", text
	}
	name, args := strings.ToUpper(t.Call.Name), w.print(t.Call.Args...)
	called = aggregates[name]
	switch {
	case called == "Average":
		text = `{"sum": SUM(` + args + `), "count": COUNT(` + args + `)}`
	case w.counts && (called == "Min" || called == "Max"):
		text = `{"` + strings.ToLower(name) + `": ` + text + `, "count": COUNT(` + args + `)}`
	}
	return called, text
}

// grouped rewrites GROUP BY, or several aggregates: each row has its group and, apart, its columns.
func (w rewriting) grouped() {
	var keys, fields []string
	for _, g := range w.s.Group {
		w.info.GroupByTexts = append(w.info.GroupByTexts, w.print(g))
		keys = append(keys, `{"item": `+w.print(g)+`}`)
	}
	for i, c := range w.s.Columns {
		name := w.columns[i].name
		called, text := w.partial(c.Expr)
		var kind *string
		if called != "" {
			kind, text = &called, `{"item": `+text+`}`
		}
		w.info.GroupByAliases = append(w.info.GroupByAliases, name)
		w.info.AggregateTypes[name] = kind
		fields = append(fields, `"`+name+`"`+": "+text)
	}
	payload := "{" + strings.Join(fields, ", ") + "}"
	if w.s.Value != nil {
		payload = w.print(w.s.Value)
	}
	head := "SELECT "
	if len(keys) > 0 {
		head += "[" + strings.Join(keys, ", ") + "] AS groupByItems, "
	}
	w.info.Rewritten = w.rest(head + payload + " AS payload")
}

// rest adds the clauses after the select list.
func (w rewriting) rest(head string) string {
	lines := []string{head, "FROM " + printed(w.sent[w.s.From.Pos.Offset:w.s.From.EndPos.Offset])}
	sorted := len(w.info.OrderBy) > 0
	switch {
	case w.s.Where != nil && sorted:
		lines = append(lines, "WHERE (("+w.print(w.s.Where)+") AND ("+orderFilter+"))")
	case sorted:
		lines = append(lines, "WHERE ("+orderFilter+")")
	case w.s.Where != nil:
		lines = append(lines, "WHERE "+w.print(w.s.Where))
	}
	if len(w.s.Group) > 0 {
		lines = append(lines, "GROUP BY "+w.print(w.s.Group...))
	}
	if len(w.s.Order) > 0 {
		order := make([]string, len(w.s.Order))
		for i, o := range w.s.Order {
			order[i] = w.print(o.Expr)
			if o.descending() {
				order[i] += " DESC"
			}
		}
		lines = append(lines, "ORDER BY "+strings.Join(order, ", "))
	}
	if w.bound.limit >= 0 && !(w.s.Distinct && sorted) {
		lines = append(lines, fmt.Sprintf("OFFSET 0 LIMIT %d", w.bound.offset+w.bound.limit))
	}
	return strings.Join(lines, "\n")
}
