package cosmos

import (
	"fmt"
	"math"
	"slices"

	"binnacle/internal/charges/ru"
)

// Settled is what an examination has shown of an assumption of the model.
type Settled struct {
	Assumption string `json:"assumption"`
	Shown      string `json:"shown"` // the charges; "" where nothing was measured
	Finding    string `json:"finding"`
}

// Verdict is how an account charges sizes between two rows of the table of sizes.
type Verdict struct {
	Sizes     string  `json:"sizes"` // step, slope, or neither
	Writes    string  `json:"writes"`
	Reads     string  `json:"reads"`
	Tolerance float64 `json:"tolerance"` // share of a charge
}

// tolerance is how far a charge may be from a model's to count as its: a unit of a create is less than half of it.
const tolerance = 0.03

// Neither is the verdict on charges that fit neither model.
const Neither = "neither"

// VerdictOf compares creates and reads near the rows of 32 and 64 KB with both models. Charges are taken as multiples
// of that at 31 KB, on which both agree, so that an account that charges everything double has a verdict too.
func VerdictOf(all []Measurement) (v Verdict, ok bool) {
	v = Verdict{Tolerance: tolerance}
	f := findings(all)
	if v.Writes, ok = f.model("create", func(m ru.Model, bytes int) float64 { return m.Write(bytes, index) }); !ok {
		return v, false
	}
	v.Reads, ok = f.model("read", ru.Model.Read)
	if v.Sizes = Neither; v.Writes == v.Reads {
		v.Sizes = v.Writes
	}
	return v, ok
}

// findings are measurements that the service has answered.
type findings []Measurement

func (f findings) charged(operation string) (rus float64, ok bool) {
	i := slices.IndexFunc(f, func(m Measurement) bool { return m.Operation == operation && m.Problem == "" })
	if i < 0 {
		return 0, false
	}
	return f[i].Charged, true
}

// model returns the model by which operations are charged that are named after their size.
func (f findings) model(operation string, charge func(ru.Model, int) float64) (name string, ok bool) {
	base, ok := f.charged(fmt.Sprintf("%s, %d KB", operation, between[0]>>10))
	if !ok || base == 0 {
		return "", false
	}
	fits := []ru.Model{ru.Stepped, ru.Sloped}
	for _, bytes := range between[1:] {
		rus, ok := f.charged(fmt.Sprintf("%s, %d KB", operation, bytes>>10))
		if !ok {
			return "", false
		}
		fits = slices.DeleteFunc(fits, func(m ru.Model) bool {
			want := base * charge(m, bytes) / charge(m, between[0])
			return math.Abs(rus/want-1) > tolerance
		})
	}
	if len(fits) == 0 {
		return Neither, true
	}
	return fits[0].String(), true
}

// Settle compares each assumption of the model with the findings of an examination.
func Settle(all []Measurement) []Settled {
	f := findings(all)
	shown := map[string]func() (float64, bool){
		ru.ScatteredHit: func() (float64, bool) {
			return f.per(scattered-3, "query of a key, ten scattered chunks of 1 KB", "", ru.Stepped.Query(ru.QueryWork{
				Seeks: 3, Docs: scattered}))
		},
		ru.LoadedKB: func() (float64, bool) {
			return f.per(31, "query of a key, a chunk of 32 KB", "query of a key, a chunk of 1 KB", 0)
		},
		ru.FurtherSeek: func() (float64, bool) {
			return f.per(3, "query of a key, nothing", "query of all, nothing", 0)
		},
		ru.FeedPage: func() (float64, bool) { return f.per(1, "change feed, nothing new", "", 0) },
		ru.KeyLevel: func() (float64, bool) {
			return f.per(2*ru.Unit, "create, 1 KB", "", ru.Stepped.Write(small1, index-2*ru.Scalar))
		},
	}
	var out []Settled
	for _, a := range ru.Assumptions() {
		s := Settled{Assumption: a.Name, Finding: "not measured"}
		switch n, ok := 0.0, false; {
		case a.Name == ru.BetweenRows:
			if v, ok := VerdictOf(all); ok {
				s.Shown, s.Finding = v.Sizes, f.sizes(v)
			}
		case a.Name == ru.ItemBytes:
			s.Shown, s.Finding = f.itemBytes()
		case a.Name == ru.CountedRows:
			s.Shown, s.Finding = f.counted()
		case shown[a.Name] != nil:
			if n, ok = shown[a.Name](); ok {
				s.Shown, s.Finding = fmt.Sprintf("%.3f %s", n, a.Unit), a.Weigh(n)
			}
		}
		out = append(out, s)
	}
	return out
}

// per returns the charge for one of n parts of an operation, beyond another operation and a known charge.
func (f findings) per(n float64, operation, beyond string, known float64) (rus float64, ok bool) {
	whole, ok := f.charged(operation)
	if ok && beyond != "" {
		known, ok = f.charged(beyond)
	}
	return (whole - known) / n, ok
}

func (f findings) sizes(v Verdict) string {
	return fmt.Sprintf("writes: %s, reads: %s, within %.0f %%", v.Writes, v.Reads, 100*v.Tolerance)
}

// counted compares a count with a query of the same chunk and with one that finds nothing.
func (f findings) counted() (shown, finding string) {
	count, ok := f.charged("query of a key, a chunk of 32 KB counted")
	loaded, okLoaded := f.charged("query of a key, a chunk of 32 KB")
	nothing, okNothing := f.charged("query of a key, nothing")
	if !ok || !okLoaded || !okNothing {
		return "", "not measured"
	}
	shown = fmt.Sprintf("%.2f RU, %.2f where it is loaded", count, loaded)
	if count < (nothing+loaded)/2 {
		return shown, "as taken"
	}
	return shown, "counted items are loaded"
}

// itemBytes compares a create of 32 KB with one of 31: only the smaller has room below the row for system
// properties. Where these count it is charged at least a unit more.
func (f findings) itemBytes() (shown, finding string) {
	below, ok := f.charged("create, 31 KB")
	at, okAt := f.charged("create, 32 KB")
	if !ok || !okAt || below == 0 {
		return "", "not measured"
	}
	shown = fmt.Sprintf("%.2f and %.2f RU", below, at)
	if at <= below*(1+0.5*ru.Unit/below) {
		return shown, "as taken"
	}
	return shown, "system properties count"
}
