package chunk

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"binnacle/internal/telemetry"
)

// Print writes the chunk for people: the header, each column with how it is kept and its statistics, and the first rows
// of all groups in the order of time, as a table. A damaged chunk gives ErrCorrupt after the header.
func (c *Chunk) Print(w io.Writer, rows int) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	c.printHeader(t)
	kept := make([]string, len(c.columns))
	f, err := c.decode(wantedOf(nil), func(i int, k string) { kept[i] = k })
	if err == nil {
		c.printColumns(t, kept)
		printRows(t, f, rows)
	}
	if ferr := t.Flush(); ferr != nil {
		return fmt.Errorf("print chunk %s: %w", c.Header.ID, ferr)
	}
	if err != nil {
		return fmt.Errorf("print chunk %s: %w", c.Header.ID, err)
	}
	return nil
}

func (c *Chunk) printHeader(w io.Writer) {
	h := &c.Header
	ttl, before := "never expires", "none before"
	if h.TTL > 0 {
		ttl = fmt.Sprintf("expires %s after the write", time.Duration(h.TTL)*time.Second)
	}
	if h.After >= 0 {
		before = fmt.Sprintf("the chunk before ends at %d", h.After)
	}
	form := fmt.Sprintf("a string per column, instants in %d bytes", decodedLen(c.data))
	switch c.layout {
	case small:
		form = fmt.Sprintf("one string of %d bytes", decodedLen(c.data))
	case packed:
		form = fmt.Sprintf("%d packs, instants in %d bytes", len(c.shared), decodedLen(c.data))
	}
	fmt.Fprintf(w, "chunk\t%s\n", h.ID)
	fmt.Fprintf(w, "device\t%s of %s\n", printable(h.Device), printable(h.TenantShard))
	fmt.Fprintf(w, "time\t%s to %s\n", instant(h.From), instant(h.To))
	fmt.Fprintf(w, "rows\t%d of %d readings, instants unique: %t\n", h.Rows, h.Readings, h.Unique)
	fmt.Fprintf(w, "offsets\t%d to %d, %s\n", h.First, h.Through, before)
	fmt.Fprintf(w, "cut\t%s\n", instant(h.Cut))
	fmt.Fprintf(w, "layout\tversion %d, %s, %s\n", Version, form, ttl)
}

func (c *Chunk) printColumns(w io.Writer, kept []string) {
	fmt.Fprint(w, "\nMETRIC\tLABELS\tTYPE\tKEPT AS\tBYTES\tVALUES\tMIN\tMAX\tSUM\tFIRST\tLAST\tNAN,+INF,-INF\n")
	for i := range c.columns {
		s := &c.columns[i]
		bytes := "-"
		if c.layout == listed {
			bytes = fmt.Sprint(decodedLen(s.data))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d", printable(s.name), labelText(c.labels[s.group]), s.kind, kept[i], bytes,
			s.stats.Values())
		for _, v := range []telemetry.Value{s.stats.Min, s.stats.Max, s.stats.Sum, s.stats.First, s.stats.Last} {
			fmt.Fprintf(w, "\t%s", valueText(v))
		}
		fmt.Fprintf(w, "\t%d,%d,%d\n", s.stats.NaN, s.stats.PosInf, s.stats.NegInf)
	}
}

// printRows writes the first n rows of f, a column for each metric whatever its kinds.
func printRows(w io.Writer, f Frame, n int) {
	if n <= 0 {
		return
	}
	metrics := f.metrics()
	fmt.Fprint(w, "\nTIME\tLABELS")
	for _, m := range metrics {
		fmt.Fprintf(w, "\t%s", printable(m))
	}
	fmt.Fprintln(w)
	type row struct {
		time  int64
		group int
		cells []string
	}
	var rows []row
	for i := range f.Groups {
		g := &f.Groups[i]
		first := make([]row, min(n, len(g.Times)))
		for k := range first {
			first[k] = row{g.Times[k], i, make([]string, len(metrics))}
		}
		for j := range g.Columns {
			c := &g.Columns[j]
			at, _ := slices.BinarySearch(metrics, c.Metric)
			v := 0
			for k := range first {
				if c.Present.Has(k) {
					first[k].cells[at] = valueText(c.Value(v))
					v++
				}
			}
		}
		rows = append(rows, first...)
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.time, b.time) })
	for _, r := range rows[:min(n, len(rows))] {
		fmt.Fprintf(w, "%s\t%s\t%s\n", instant(r.time), labelText(f.Groups[r.group].Labels), strings.Join(r.cells, "\t"))
	}
}

// metrics lists the names of all columns, sorted, each once.
func (f Frame) metrics() []string {
	var names []string
	for i := range f.Groups {
		for j := range f.Groups[i].Columns {
			names = append(names, f.Groups[i].Columns[j].Metric)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// describe names the codec and the form of the column that is about to be read.
func (d *decoder) describe(c codec) string {
	if len(d.s.plain) == 0 {
		return c.String()
	}
	form := d.s.plain[0] & valueFormMask
	names := [...]string{"ints", "decimals", "doubles", "dictionary", "bools", "texts", "text dictionary"}
	if int(form) >= len(names) {
		return c.String()
	}
	name := names[form]
	if form == formDecimals && len(d.s.plain) > 1 {
		name = fmt.Sprintf("%s e%d", name, d.s.plain[1]&scaleExpMask)
		if d.s.plain[1]&scaleSingle != 0 {
			name += " float32"
		}
		if d.s.plain[1]&scaleCorrection != 0 {
			name += " corrected"
		}
	}
	return name + ", " + c.String()
}

func instant(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

func decodedLen(base64Text []byte) int {
	n := base64.StdEncoding.DecodedLen(len(base64Text))
	for k := len(base64Text) - 1; k >= 0 && base64Text[k] == '='; k-- {
		n--
	}
	return n
}

func labelText(l telemetry.Labels) string {
	if len(l) == 0 {
		return "-"
	}
	parts := make([]string, len(l))
	for i, x := range l {
		parts[i] = printable(x.Name) + "=" + printable(x.Value)
	}
	return strings.Join(parts, ",")
}

func valueText(v telemetry.Value) string {
	switch v.Kind() {
	case 0:
		return "-"
	case telemetry.Text:
		return printable(v.Text())
	}
	return v.String()
}

// printable returns s as it is when a terminal can show it and a table cell can hold it, else quoted.
func printable(s string) string {
	q := fmt.Sprintf("%q", s)
	if s == "" || q != `"`+s+`"` {
		return q
	}
	return s
}
