package prom_test

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fleet is what lines of TSBS say, read without the code under test: of each truck, metric and second the last value.
type fleet map[string]*truck

type truck struct {
	tags   map[string]string
	values map[string]map[int64]float64
}

func newFleet(t *testing.T, lines []string) fleet {
	f := make(fleet)
	for _, line := range lines {
		parts := strings.Split(line, " ")
		require.Len(t, parts, 3, line)
		head := strings.Split(parts[0], ",")
		tags := make(map[string]string)
		for _, tag := range head[1:] {
			name, value, _ := strings.Cut(tag, "=")
			tags[name] = value
		}
		name := tags["name"]
		if name == "" {
			continue
		}
		if f[name] == nil {
			f[name] = &truck{make(map[string]string), make(map[string]map[int64]float64)}
		}
		for tag, value := range tags {
			f[name].tags[tag] = value
		}
		ns, err := strconv.ParseInt(parts[2], 10, 64)
		require.NoError(t, err)
		for _, field := range strings.Split(parts[1], ",") {
			metric, text, _ := strings.Cut(field, "=")
			value, err := strconv.ParseFloat(strings.TrimSuffix(text, "i"), 64)
			require.NoError(t, err)
			metric = head[0] + "_" + metric
			if f[name].values[metric] == nil {
				f[name].values[metric] = make(map[int64]float64)
			}
			f[name].values[metric][ns/1e9] = value
		}
	}
	return f
}

// last is the value of a metric that is newest of those of the 6 hours.
func (tr *truck) last(metric string) (v float64, ok bool) {
	newest := int64(tsbsEnd - 6*3600)
	for at, x := range tr.values[metric] {
		if at > newest {
			newest, v, ok = at, x, true
		}
	}
	return v, ok
}

// mean is of the values of (end - seconds, end].
func (tr *truck) mean(metric string, end, seconds int64) (v float64, ok bool) {
	n := 0
	for at := end - seconds + 1; at <= end; at++ {
		if x, there := tr.values[metric][at]; there {
			v, n = v+x, n+1
		}
	}
	return v / float64(n), n > 0
}

// buckets are the means of the last so many ten minutes, in order, NaN where there is none.
func (tr *truck) buckets(metric string, n int) (out []float64) {
	for i := range n {
		v, ok := tr.mean(metric, int64(tsbsEnd-600*(n-1-i)), 600)
		if !ok {
			v = math.NaN()
		}
		out = append(out, v)
	}
	return out
}

func count(all []float64, is func(float64) bool) (n float64) {
	for _, x := range all {
		if is(x) {
			n++
		}
	}
	return n
}

// each answers by truck, of a fleet if one is named.
func each(fleetName string, answer func(*truck) (float64, bool)) func(fleet) map[string]float64 {
	return func(f fleet) map[string]float64 {
		out := make(map[string]float64)
		for name, tr := range f {
			if fleetName != "" && tr.tags["fleet"] != fleetName {
				continue
			}
			if v, ok := answer(tr); ok {
				out[name] = v
			}
		}
		return out
	}
}

// ratio answers a sum through another one by some tags.
func ratio(tags []string, of func(*truck) (sum, by float64)) func(fleet) map[string]float64 {
	return func(f fleet) map[string]float64 {
		sums, bys := make(map[string]float64), make(map[string]float64)
		for _, tr := range f {
			var name []string
			for _, tag := range tags {
				name = append(name, tr.tags[tag])
			}
			sum, by := of(tr)
			if by > 0 {
				sums[strings.Join(name, " ")] += sum
				bys[strings.Join(name, " ")] += by
			}
		}
		for name := range sums {
			sums[name] /= bys[name]
		}
		return sums
	}
}

func drove(x float64) bool { return x > 1 }

// driving counts the ten minutes of driving, and answers if there are more than a number.
func driving(buckets int, more float64) func(*truck) (float64, bool) {
	return func(tr *truck) (float64, bool) {
		n := count(tr.buckets("readings_velocity", buckets), drove)
		return n, n > more
	}
}

// consumption is the mean of a metric of all trucks of a fleet at instants at which they drove.
func consumption(metric string) func(fleet) map[string]float64 {
	return ratio([]string{"fleet"}, func(tr *truck) (sum, n float64) {
		for at, v := range tr.values[metric] {
			if at > tsbsEnd-6*3600 && tr.values["readings_velocity"][at] > 1 {
				sum, n = sum+v, n+1
			}
		}
		return sum, n
	})
}

var tsbsAnswers = map[string]func(fleet) map[string]float64{
	"single-last-loc": func(f fleet) map[string]float64 {
		out := make(map[string]float64)
		for _, name := range []string{"truck_0", "truck_1"} {
			for _, metric := range []string{"readings_latitude", "readings_longitude"} {
				out[name+" "+metric], _ = f[name].last(metric)
			}
		}
		return out
	},
	"last-loc": func(f fleet) map[string]float64 {
		out := make(map[string]float64)
		for _, metric := range []string{"readings_latitude", "readings_longitude"} {
			for name, v := range each("South", func(tr *truck) (float64, bool) { return tr.last(metric) })(f) {
				out[name+" "+metric] = v
			}
		}
		return out
	},
	"low-fuel": func(f fleet) map[string]float64 {
		out := make(map[string]float64)
		for name, v := range each("South", func(tr *truck) (float64, bool) {
			v, ok := tr.last("diagnostics_fuel_state")
			return v, ok && v < 0.1
		})(f) {
			out[name+" diagnostics_fuel_state"] = v
		}
		return out
	},
	"high-load": each("South", func(tr *truck) (float64, bool) {
		load, ok := tr.last("diagnostics_current_load")
		capacity, there := tr.last("diagnostics_load_capacity")
		return load / capacity, ok && there && load/capacity > 0.9
	}),
	"stationary-trucks": each("West", func(tr *truck) (float64, bool) {
		v, ok := tr.mean("readings_velocity", tsbsEnd, 600)
		return v, ok && v < 1
	}),
	"long-driving-sessions": each("West", driving(24, 22)),
	"long-daily-sessions":   each("West", driving(36, 15)),
	"avg-vs-projected-fuel-consumption": func(f fleet) map[string]float64 {
		out, nominal := consumption("readings_fuel_consumption")(f), consumption("readings_nominal_fuel_consumption")(f)
		for name := range out {
			out[name] /= nominal[name]
		}
		return out
	},
	"avg-daily-driving-duration": each("", func(tr *truck) (float64, bool) {
		n, _ := driving(36, 0)(tr)
		return n / 6, n > 0
	}),
	"avg-daily-driving-session": each("", func(tr *truck) (float64, bool) {
		stretches, drove := 0.0, 0.0
		before := false
		for _, v := range tr.buckets("readings_velocity", 36) {
			if math.IsNaN(v) {
				continue
			}
			if v > 5 {
				drove++
				if !before {
					stretches++
				}
			}
			before = v > 5
		}
		return 10 * drove / stretches, true
	}),
	"avg-load": ratio([]string{"fleet", "model"}, func(tr *truck) (float64, float64) {
		load, _ := tr.mean("diagnostics_current_load", tsbsEnd, 6*3600)
		capacity, ok := tr.last("diagnostics_load_capacity")
		if !ok {
			return 0, 0
		}
		return load / capacity, 1
	}),
	"daily-activity": ratio([]string{"fleet", "model"}, func(tr *truck) (float64, float64) {
		all := tr.buckets("diagnostics_status", 36)
		return count(all, func(x float64) bool { return x < 1 }), count(all, func(x float64) bool { return !math.IsNaN(x) })
	}),
	"breakdown-frequency": func(f fleet) map[string]float64 {
		out := make(map[string]float64)
		for _, tr := range f {
			before, first := false, true
			out[tr.tags["model"]] += 0
			for i := range 36 {
				zero, n := 0.0, 0.0
				end := int64(tsbsEnd - 600*(35-i))
				for at := end - 599; at <= end; at++ {
					if v, there := tr.values["diagnostics_status"][at]; there {
						n++
						if v == 0 {
							zero++
						}
					}
				}
				if n == 0 {
					continue
				}
				broken := zero/n >= 0.5
				if broken && !before && !first {
					out[tr.tags["model"]]++
				}
				before, first = broken, false
			}
		}
		return out
	},
}
