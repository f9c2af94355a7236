package prom_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/query/querytest"

	"github.com/prometheus/prometheus/model/value"
)

// chance makes random readings and queries about them.
type chance struct {
	*rand.Rand
}

func pick[T any](c chance, from ...T) T { return from[c.IntN(len(from))] }

// between is a random duration, in whole milliseconds.
func (c chance) between(least, most time.Duration) time.Duration {
	return least + time.Duration(c.Int64N((most-least).Milliseconds()+1))*time.Millisecond
}

// metrics are what the devices report, each with what its values are like.
var metrics = map[string]func(c chance, i int, before float64) telemetry.Value{
	"km_total": func(c chance, _ int, before float64) telemetry.Value {
		if c.IntN(40) == 0 {
			return telemetry.FloatValue(float64(c.IntN(3)))
		}
		return telemetry.FloatValue(before + float64(c.IntN(30))/10)
	},
	"starts": func(c chance, _ int, before float64) telemetry.Value { // falls often, and is no counter by its name
		if c.IntN(5) == 0 {
			return telemetry.IntValue(int64(c.IntN(3)))
		}
		return telemetry.IntValue(int64(before) + int64(c.IntN(9)))
	},
	"velocity": func(c chance, _ int, _ float64) telemetry.Value {
		return telemetry.FloatValue(float64(c.IntN(1200)-100) / 10)
	},
	"wide": func(c chance, _ int, _ float64) telemetry.Value {
		return telemetry.FloatValue(math.Float64frombits(c.Uint64()))
	},
	"huge": func(c chance, _ int, _ float64) telemetry.Value {
		return telemetry.FloatValue((c.Float64() - 0.3) * math.MaxFloat64)
	},
	"odd": func(c chance, _ int, _ float64) telemetry.Value {
		return telemetry.FloatValue(pick(c, math.NaN(), math.Float64frombits(value.StaleNaN),
			math.Float64frombits(0x7ff8_0000_0000_1234), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 0, 1, -1, 0.1))
	},
	"zeros": func(c chance, _ int, _ float64) telemetry.Value {
		return telemetry.FloatValue(pick(c, math.Copysign(0, -1), 0, math.Copysign(0, -1), 0, math.NaN()))
	},
	"far": func(c chance, _ int, _ float64) telemetry.Value { return telemetry.IntValue(int64(c.Uint64())) },
	"mixed": func(c chance, i int, before float64) telemetry.Value {
		switch i / 7 % 4 {
		case 0:
			return telemetry.IntValue(int64(c.IntN(100)))
		case 1:
			return telemetry.TextValue("off")
		case 2:
			return telemetry.BoolValue(c.IntN(2) == 0)
		}
		return telemetry.FloatValue(before)
	},
}

// readings fills a world with some hours of some devices up to an end, a part of it in heads, some of it twice.
func (c chance) readings(t testing.TB, s server, end time.Time) {
	var open []querytest.Record
	position := int64(1)
	for d := range 4 {
		device := fmt.Sprintf("m%d", d)
		tags := map[string]string{"site": pick(c, "hall", "yard"), "fleet": fmt.Sprint(d % 2)}
		if d == 3 {
			tags = map[string]string{"axis": "y", "__unit__": "km"}
		}
		s.world.Catalog.AddPage("acme", storetest.Entry(device, tags))
		records := c.device(device, &position, end)
		var stored []querytest.Record
		for _, r := range records {
			switch c.IntN(20) {
			case 0:
				stored, open = append(stored, r), append(open, r)
			default:
				if r.Time < end.Add(-time.Duration(20+d*20)*time.Minute).UnixMilli() {
					stored = append(stored, r)
				} else {
					open = append(open, r)
				}
			}
		}
		for len(stored) > 0 {
			n, most := 1, 1+c.IntN(80)
			for n < min(len(stored), most) && telemetry.DayOf(stored[n].Time) == telemetry.DayOf(stored[0].Time) {
				n++
			}
			s.world.Chunk(stored[:n]...)
			stored = stored[n:]
		}
	}
	slices.SortStableFunc(open, func(a, b querytest.Record) int {
		return cmp.Compare(a.Position.Offset, b.Position.Offset)
	})
	s.world.Heads.Set(store.PartitionHead{Stream: 1, Position: position}, open...)
	s.world.Log.Set(position)
}

// device is what one device reports: regularly, or nearly, or not at all for a while.
func (c chance) device(device string, position *int64, end time.Time) (records []querytest.Record) {
	of := slices.Sorted(maps.Keys(metrics))
	last := make(map[string]float64)
	interval := pick(c, 10*time.Second, 15*time.Second, time.Minute, 73*time.Second, 10*time.Minute)
	jitter := pick(c, 0, 0*time.Second, time.Millisecond, interval/2)
	at := end.Add(-3 * time.Hour).Add(c.between(0, time.Hour))
	if c.IntN(2) == 0 {
		at = at.Truncate(interval)
	}
	clean, units := c.IntN(2) == 0, c.IntN(8) == 0
	for i := 0; at.Before(end) && i < 500; i++ {
		var fields []telemetry.Field
		for _, m := range of {
			if !clean && c.IntN(12) == 0 {
				continue
			}
			v := metrics[m](c, i, last[m])
			if !clean && c.IntN(60) == 0 {
				v = telemetry.FloatValue(math.Float64frombits(value.StaleNaN))
			}
			if v.Kind() == telemetry.Float {
				last[m] = v.Float()
			} else if v.Kind() == telemetry.Int {
				last[m] = float64(v.Int())
			}
			fields = append(fields, telemetry.Field{Metric: m, Value: v})
		}
		var labels telemetry.Labels
		switch n := c.IntN(4); {
		case units:
			labels = telemetry.Labels{{Name: "__unit__", Value: pick(c, "km", "mi")}}
		case n == 0 && !clean:
			labels = telemetry.Labels{{Name: "axis", Value: "x"}}
		case n == 1 && !clean:
			labels = telemetry.Labels{{Name: "axis", Value: "x"}, {Name: "none", Value: ""}}
		}
		records = append(records, record(*position, device, at, labels, fields...))
		*position++
		at = at.Add(interval + c.between(-jitter/2, jitter/2))
		if c.IntN(50) == 0 {
			at = at.Add(c.between(0, 30*time.Minute))
		}
	}
	return records
}

// instant is an expression of series, up to a depth.
func (c chance) instant(depth int) string {
	if depth < 0 {
		return c.selector() + c.moved()
	}
	n := 13
	if depth == 0 {
		n = 5
	}
	switch c.IntN(n) {
	case 0:
		return c.selector() + c.moved()
	case 1, 2, 3, 4:
		return fmt.Sprintf("%s(%s[%s]%s)", pick(c, "rate", "rate", "increase", "delta", "irate", "idelta", "avg_over_time",
			"avg_over_time", "avg_over_time", "sum_over_time", "sum_over_time", "min_over_time", "max_over_time",
			"count_over_time", "present_over_time",
			"first_over_time", "last_over_time", "changes", "resets", "stddev_over_time", "deriv", "absent_over_time"),
			c.selector(), c.span(), c.moved())
	case 5:
		return c.aggregate(depth)
	case 7:
		return c.binary(depth)
	case 8, 11:
		inner := c.column(depth)
		if c.IntN(4) == 0 {
			inner = c.instant(depth - 1)
		}
		return c.overSubquery(inner)
	case 9:
		return pick(c, "-%s", "(%s)", "abs(%s)", "clamp(%s, -1, 20)", "round(%s, 0.5)", "sort(%s)", "timestamp(%s)",
			"absent(%s)", `label_replace(%s, "to", "$1-", "device", "(.*)")`, "vector(scalar(%s))",
			"histogram_quantile(0.5, %s)",
			"ceil(%s)", "hour(%s)", "timestamp("+c.selector()+")", "timestamp("+c.selector()+")",
			`absent(rate(velocity{device="none"}[5m]))`, `absent(velocity{device="none"})`)
	case 10:
		return fmt.Sprintf("quantile_over_time(scalar(%s), %s[%s])", c.selector(), c.selector(), c.span())
	}
	return fmt.Sprintf("predict_linear(%s[%s]%s, 60)", c.selector(), c.span(), c.moved())
}

// overSubquery is a function of a subquery, or two, of an expression.
func (c chance) overSubquery(inner string) string {
	one := func() string {
		return fmt.Sprintf("%s((%s)[%s:%s]%s)", pick(c, "rate", "increase", "delta", "idelta", "avg_over_time",
			"avg_over_time", "sum_over_time", "sum_over_time", "min_over_time", "max_over_time", "count_over_time",
			"present_over_time",
			"first_over_time", "last_over_time", "changes", "resets", "deriv", "stddev_over_time", "absent_over_time"), inner,
			c.span(), pick(c, "", "", "1m", "97s", "10s", "5m", "0.0004"), c.moved())
	}
	switch c.IntN(12) {
	case 0, 1:
		return one() + pick(c, " / ", " - ", " or ") + one()
	case 2:
		return fmt.Sprintf("predict_linear((%s)[%s:]%s, 60)", inner, c.span(), c.moved())
	}
	return one()
}

// column is an expression of those that are computed for all steps of a subquery at once.
func (c chance) column(depth int) string {
	n := 9
	if depth <= 0 {
		n = 3
	}
	switch c.IntN(n) {
	case 0, 1:
		return c.selector() + pick(c, "", "", "", c.moved())
	case 2:
		return fmt.Sprintf("%s(%s[%s]%s)", pick(c, "rate", "delta", "avg_over_time", "sum_over_time", "max_over_time",
			"count_over_time", "last_over_time", "resets"), c.selector(), c.span(), c.moved())
	case 3:
		return "-(" + c.column(depth-1) + ")"
	case 4, 5:
		return fmt.Sprintf("(%s) %s %s", c.column(depth-1), c.operator(), c.number())
	case 6:
		return fmt.Sprintf("%s %s (%s)", c.number(), c.operator(), c.column(depth-1))
	case 7:
		return c.overSubquery(c.column(depth - 1))
	}
	return fmt.Sprintf("(%s) %s %s (%s)", c.column(depth-1), pick(c, "and", "and", "or", "unless"),
		pick(c, "", "on (device)", "on (device, axis)", "on (fleet)", "ignoring (axis)", "ignoring (device)"),
		c.column(depth-1))
}

func (c chance) operator() string {
	return pick(c, "+", "-", "*", "/", "%", "^", "atan2", "> bool", "< bool", "== bool", "!= bool", ">= bool", ">", "<",
		"==", "!=", ">=", "<=")
}

func (c chance) number() string { return pick(c, "0", "1", "2.5", "-3", "(7)", "Inf", "NaN", "1e300") }

func (c chance) aggregate(depth int) string {
	by := pick(c, "", "", " by (fleet)", " by (device, site)", " without (device)", " without (axis, fleet)")
	of := c.expr(depth - 1)
	switch op := pick(c, "sum", "avg", "min", "max", "count", "stddev", "stdvar", "group", "topk", "bottomk", "quantile",
		"count_values"); op {
	case "topk", "bottomk":
		return fmt.Sprintf("%s%s (%s, %s)", op, by, pick(c, "1", "2", "scalar(count(velocity))"), of)
	case "quantile":
		return fmt.Sprintf("quantile%s (%s, %s)", by, pick(c, "0.5", "0.99"), of)
	case "count_values":
		return fmt.Sprintf(`count_values%s ("v", %s)`, by, of)
	default:
		return fmt.Sprintf("%s%s (%s)", op, by, of)
	}
}

func (c chance) binary(depth int) string {
	left, right := c.expr(depth-1), c.expr(depth-1)
	switch c.IntN(6) {
	case 0:
		return fmt.Sprintf("%s %s %s", left, pick(c, "and", "or", "unless"), right)
	case 1:
		return fmt.Sprintf("%s %s %s", left, pick(c, "+", "*", "> bool", "<", "%"), pick(c, "2", "0.1", "time()", "-1"))
	case 2:
		return fmt.Sprintf("(%s) %s on (device, axis) (%s)", left, pick(c, "+", "/", ">=", "-"), right)
	case 3, 4: // of the same readings, or nearly
		of, span := c.selector(), c.span()
		one := func() string {
			return fmt.Sprintf("%s(%s[%s]%s)", pick(c, "rate", "rate", "max_over_time", "min_over_time", "avg_over_time",
				"sum_over_time", "changes"), of, span, pick(c, "", "", "", " offset 2m"))
		}
		return fmt.Sprintf("%s %s %s", one(), pick(c, "-", "/", "> bool"), one())
	}
	return fmt.Sprintf("sum by (fleet, device) (%s) %s on (fleet) group_left () max by (fleet) (%s)", left,
		pick(c, "+", "/", "=="), right)
}

// expr is an instant that may stand wherever one may.
func (c chance) expr(depth int) string {
	e := c.instant(depth)
	for strings.Contains(e, "%s") {
		e = strings.Replace(e, "%s", c.instant(depth-1), 1)
	}
	return e
}

func (c chance) selector() string {
	names := append(slices.Sorted(maps.Keys(metrics)), "huge", "zeros")
	name := names[c.IntN(len(names))]
	switch c.IntN(14) {
	case 0:
		return fmt.Sprintf(`{__name__=~"%s|velocity"}`, name)
	case 1:
		return `{fleet="1",device!="m0"}`
	case 2:
		return name + `{device="m1"}`
	case 3:
		return name + `{device=~"m1|m3",axis!="x"}`
	case 4:
		return name + `{site="hall"}`
	case 5:
		return name + `{axis=~".+"}`
	}
	return name
}

func (c chance) span() string {
	return pick(c, "5m", "5m", "1m", "10m", "1h", "97s", "2m30s1ms", "1ms", "3m", "90.0005", "0.0004")
}

func (c chance) moved() string {
	return pick(c, "", "", "", "", "", "", "", "", "", " offset 7m3s", " offset -4m", " @ end()",
		" @ start()", " @ 1795170000.5",
		" offset 1.0007")
}
