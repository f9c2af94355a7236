package main_test

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// table is what a tenant's readings must be: a plain map. A value is a float64, an int64, a bool or a string.
type table map[row]map[string]any

// row is a device, an instant in ms and labels as JSON, "" without.
type row struct {
	device string
	ts     int64
	labels string
}

// labelled is labels as a row has them.
func labelled(labels map[string]string) string {
	if len(labels) == 0 {
		return ""
	}
	b, err := json.Marshal(labels) // sorted by name
	if err != nil {
		panic(err)
	}
	return string(b)
}

// set gives a series a value at an instant; the later one wins.
func (w table) set(r row, metric string, v any) {
	if w[r] == nil {
		w[r] = map[string]any{}
	}
	w[r][metric] = v
}

// clone is a table that can be changed alone.
func (w table) clone() table {
	out := make(table, len(w))
	for r, values := range w {
		out[r] = maps.Clone(values)
	}
	return out
}

// stats is what an answer says about itself.
type stats struct {
	RequestUnits float64 `json:"request_units"`
	Documents    int     `json:"documents"`
	Keys         int     `json:"keys"`
	Containers   int     `json:"containers"`
	HeadRows     int     `json:"head_rows"`
}

// everything asks for all times.
const everything = "from=0&strict=true"

// ask requests readings of a tenant and gives them row by row, as the texts or JSON values that they came in. It
// returns when the answer has ended, and fails the test if it is not complete.
func (d *dev) ask(tenant, query string, each func(row, map[string]any)) stats {
	d.t.Helper()
	resp := d.get(tenant, "/api/v1/readings?"+query)
	defer resp.Body.Close()
	params, err := url.ParseQuery(query)
	require.NoError(d.t, err)
	a := &answer{t: d.t, each: each, query: query}
	switch format, layout := params.Get("format"), params.Get("layout"); {
	case format == "ndjson":
		a.ndjson(resp.Body)
	case format == "csv" && layout == "long":
		a.long(resp.Body)
	case format == "csv":
		a.wide(resp.Body)
	default:
		return a.json(resp.Body)
	}
	require.Equal(d.t, []string{"true", "false"}, []string{resp.Trailer.Get("Binnacle-Complete"),
		resp.Trailer.Get("Binnacle-Truncated")}, query)
	var s stats
	require.NoError(d.t, json.Unmarshal([]byte(resp.Trailer.Get("Binnacle-Stats")), &s))
	return s
}

// get makes a request that must be answered with 200.
func (d *dev) get(tenant, path string) *http.Response {
	d.t.Helper()
	req, err := http.NewRequest(http.MethodGet, "http://"+d.api+path, nil)
	require.NoError(d.t, err)
	req.Header.Set("X-Scope-OrgID", tenant)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(d.t, err)
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		require.FailNow(d.t, path, "%s: %s", resp.Status, body)
	}
	return resp
}

// answer is an answer that is being read.
type answer struct {
	t     *testing.T
	query string
	each  func(row, map[string]any)
}

// reading is one as it stands in JSON.
type reading struct {
	Device string            `json:"device"`
	TS     int64             `json:"ts"`
	Labels map[string]string `json:"labels"`
	Values map[string]any    `json:"values"`
}

func (a *answer) give(r reading) { a.each(row{r.Device, r.TS, labelled(r.Labels)}, r.Values) }

func (a *answer) json(body io.Reader) stats {
	var all struct {
		Readings            []reading `json:"readings"`
		Truncated, Complete bool
		Incomplete          []string
		Stats               stats
	}
	d := json.NewDecoder(body)
	d.UseNumber()
	require.NoError(a.t, d.Decode(&all), a.query)
	require.True(a.t, all.Complete && !all.Truncated, "incomplete %q, truncated %v: %s", all.Incomplete, all.Truncated,
		a.query)
	for _, r := range all.Readings {
		a.give(r)
	}
	return all.Stats
}

func (a *answer) ndjson(body io.Reader) {
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		var r reading
		d := json.NewDecoder(strings.NewReader(lines.Text()))
		d.UseNumber()
		require.NoError(a.t, d.Decode(&r), a.query)
		a.give(r)
	}
	require.NoError(a.t, lines.Err(), a.query)
}

// wide reads a line per row. Which columns are labels, the tests know: the format does not tell.
func (a *answer) wide(body io.Reader) {
	lines := csv.NewReader(body)
	header, err := lines.Read()
	require.NoError(a.t, err, a.query)
	require.Equal(a.t, []string{"time", "device"}, header[:2])
	for {
		cells, err := lines.Read()
		if err == io.EOF {
			return
		}
		require.NoError(a.t, err, a.query)
		labels, values := map[string]string{}, map[string]any{}
		for i, cell := range cells[2:] {
			// A metric with the name of a fixed column has a prefix.
			switch name := strings.TrimPrefix(header[i+2], "metric:"); {
			case cell == "":
			case isLabel(name):
				labels[name] = cell
			default:
				values[name] = cell
			}
		}
		a.each(row{cells[1], a.time(cells[0]), labelled(labels)}, values)
	}
}

// isLabel reports whether a column is a label of the tests' readings.
func isLabel(column string) bool {
	return slices.Contains([]string{"axle", "device_version", "region", "datacenter", "rack", "os", "arch", "team",
		"service", "service_version", "service_environment"}, column)
}

// long gathers the lines of a row: they stand together.
func (a *answer) long(body io.Reader) {
	lines := csv.NewReader(body)
	header, err := lines.Read()
	require.NoError(a.t, err, a.query)
	require.Equal(a.t, []string{"time", "device", "labels", "metric", "value"}, header)
	var current row
	values := map[string]any{}
	flush := func() {
		if len(values) > 0 {
			a.each(current, values)
		}
		values = map[string]any{}
	}
	for {
		cells, err := lines.Read()
		if err == io.EOF {
			flush()
			return
		}
		require.NoError(a.t, err, a.query)
		r := row{cells[1], a.time(cells[0]), cells[2]}
		if r != current {
			flush()
			current = r
		}
		if _, twice := values[cells[3]]; twice {
			require.FailNow(a.t, "answered twice", "%s of %v: %s", cells[3], r, a.query)
		}
		values[cells[3]] = cells[4]
	}
}

func (a *answer) time(s string) int64 {
	at, err := time.Parse("2006-01-02T15:04:05.000Z", s)
	if err != nil {
		require.NoError(a.t, err, a.query)
	}
	return at.UnixMilli()
}

// same reports whether a value came as it was published, to the last bit. CSV has the text alone, JSON the type too.
func same(want, got any) bool {
	text, isText := got.(string)
	if n, ok := got.(json.Number); ok {
		text = n.String()
	}
	switch w := want.(type) {
	case float64:
		f, err := strconv.ParseFloat(text, 64)
		return err == nil && (math.Float64bits(f) == math.Float64bits(w) || math.IsNaN(f) && math.IsNaN(w))
	case int64:
		i, err := strconv.ParseInt(text, 10, 64)
		return err == nil && i == w
	case bool:
		return got == any(w) || text == strconv.FormatBool(w)
	case string:
		return isText && text == w
	}
	panic(fmt.Sprintf("no value: %T", want))
}

// answers checks that a query is answered with exactly these readings, in order, nothing twice.
func (d *dev) answers(tenant string, want table, query string) stats {
	d.t.Helper()
	seen := make(map[row]bool, len(want))
	var before row
	descending := strings.Contains(query, "order=desc")
	s := d.ask(tenant, query, func(r row, values map[string]any) {
		order := cmp.Or(cmp.Compare(before.ts, r.ts), cmp.Compare(before.device, r.device))
		if descending {
			order = -order
		}
		switch {
		case seen[r]:
			require.FailNow(d.t, "answered twice", "%v: %s", r, query)
		case len(seen) > 0 && order > 0:
			require.FailNow(d.t, "wrong order", "%v stands before %v: %s", before, r, query)
		case len(values) != len(want[r]):
			require.FailNow(d.t, "wrong values", "%v: %v, want %v: %s", r, values, want[r], query)
		}
		seen[r], before = true, r
		for metric, v := range values {
			if !same(want[r][metric], v) {
				require.FailNow(d.t, "wrong value", "%v %s is %v, want %v: %s", r, metric, v, want[r][metric], query)
			}
		}
	})
	if len(seen) != len(want) {
		for r := range want {
			require.True(d.t, seen[r], "%v is not answered, as %d of %d: %s", r, len(want)-len(seen), len(want), query)
		}
	}
	return s
}

// formats are all ways to ask for everything.
var formats = []string{
	"limit=10000000", "limit=10000000&order=desc", "format=ndjson", "format=ndjson&order=desc",
	"format=csv", "format=csv&order=desc", "format=csv&layout=long", "format=csv&layout=long&order=desc",
}

// answersInAllFormats is answers for everything, in each way to ask.
func (d *dev) answersInAllFormats(tenant string, want table) {
	d.t.Helper()
	for _, f := range formats {
		d.answers(tenant, want, everything+"&"+f)
	}
}

// stored waits until nothing is in memory only: the answer comes from the store alone.
func (d *dev) stored(tenant string) {
	d.t.Helper()
	soon(d.t, time.Minute, func() bool {
		var answer struct{ Stats stats }
		require.NoError(d.t, json.Unmarshal([]byte(d.body(tenant, "/api/v1/readings?from=0&limit=1")), &answer))
		return answer.Stats.HeadRows == 0
	}, "all readings of %s are stored", tenant)
}
