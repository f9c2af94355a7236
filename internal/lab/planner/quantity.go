// Package planner makes a plan of a workload: what it needs of Cosmos DB and what that costs, before there is an
// account. It encodes a sample of the workload with the product's own encoder, charges it by internal/charges/ru, and
// prices months of simulated futures by ru.Price. docs/start/plan.md describes the workload file and the plan.
//
// It has no network: files are all that it reads; measured, below it, reads what exists. It must not know flags.
package planner

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"binnacle/internal/text/duration"

	"go.yaml.in/yaml/v3"
)

// Basis is where a figure comes from.
type Basis string

// The bases of figures.
const (
	Given Basis = "given" // the workload file names it
	// Measured marks a figure from an encoded sample or a topic.
	Measured Basis = "measured"
	Assumed  Basis = "assumed" // the planner's own
)

// unit is what a Quantity counts.
type unit string

const (
	number unit = "number"
	share  unit = "share"    // 0 to 1; may be written as a percentage
	period unit = "duration" // seconds
)

// Quantity is an input: a value, or an interval in which the value lies with a probability of 90 %.
type Quantity struct {
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	Basis Basis   `json:"basis"`
	// Of names the sample of a measured quantity, such as 2000 records.
	Of   string `json:"of,omitempty"`
	unit unit
}

func assumed(v float64, of unit) Quantity { return Quantity{Low: v, High: v, Basis: Assumed, unit: of} }

// Number returns a number that was measured of something, such as 2000 records.
func Number(v float64, of string) Quantity { return Quantity{v, v, Measured, of, number} }

// Share returns a share, 0 to 1, that was measured of something.
func Share(v float64, of string) Quantity { return Quantity{v, v, Measured, of, share} }

// Period returns a duration that was measured of something.
func Period(d time.Duration, of string) Quantity {
	return Quantity{d.Seconds(), d.Seconds(), Measured, of, period}
}

// MarshalYAML writes the quantity as UnmarshalYAML reads it, with its basis as a comment unless it was given.
func (q Quantity) MarshalYAML() (any, error) {
	node := &yaml.Node{Kind: yaml.ScalarNode, Value: q.plain(q.High)}
	if q.Low != q.High {
		node.Value = q.plain(q.Low) + ".." + node.Value
	}
	if q.Basis != Given {
		node.LineComment = strings.TrimSuffix(q.Basis.comment(node.Value)+q.Of, ofText)
	}
	return node, nil
}

const ofText = ", of "

// comment returns the line comment that follows a figure of the basis, up to the figure's source.
func (b Basis) comment(value string) string { return "# " + string(b) + ": " + value + ofText }

// IsZero reports whether the quantity is missing.
func (q Quantity) IsZero() bool { return q.Basis == "" }

func (q Quantity) plain(v float64) string {
	switch q.unit {
	case share:
		return strconv.FormatFloat(100*v, 'g', 6, 64) + "%"
	case period:
		return duration.String(time.Duration(v * float64(time.Second)).Round(time.Millisecond))
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

// UnmarshalYAML reads a value, or an interval as low..high.
func (q *Quantity) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: a number, a percentage, a duration or an interval as low..high is wanted", node.Line)
	}
	low, high, interval := strings.Cut(node.Value, "..")
	if !interval {
		high = low
	}
	from, of, err := parseQuantity(low)
	if err != nil {
		return fmt.Errorf("line %d: %w", node.Line, err)
	}
	to, other, err := parseQuantity(high)
	switch {
	case err != nil:
		return fmt.Errorf("line %d: %w", node.Line, err)
	case of != other && from != 0:
		return fmt.Errorf("line %d: the interval %s is from a %s to a %s", node.Line, node.Value, of, other)
	case from > to:
		return fmt.Errorf("line %d: the interval %s does not ascend", node.Line, node.Value)
	}
	*q = Quantity{Low: from, High: to, Basis: Given, unit: other}
	for _, b := range []Basis{Measured, Assumed} { // MarshalYAML wrote the comment, if the value is unchanged
		of, marked := strings.CutPrefix(node.LineComment+ofText, b.comment(node.Value))
		if marked {
			q.Basis, q.Of = b, strings.TrimSuffix(of, ofText)
		}
	}
	return nil
}

func parseQuantity(text string) (v float64, of unit, err error) {
	text = strings.TrimSpace(text)
	if v, err = strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
		return v, number, nil
	}
	if part, ok := strings.CutSuffix(text, "%"); ok {
		if v, err = strconv.ParseFloat(strings.TrimSpace(part), 64); err == nil {
			return v / 100, share, nil
		}
	}
	d, err := duration.Parse(text)
	if err != nil {
		return 0, "", fmt.Errorf("%q is no number, percentage or duration such as 10s, 12h or 400d", text)
	}
	return d.Seconds(), period, nil
}

// fault returns what is wrong with the quantity, "" for nothing. It makes a number a share where one is wanted.
func (q *Quantity) fault(of unit, least, most float64) string {
	switch {
	case q.Basis == "":
		return "it is missing"
	case q.unit == number && (of == share || q.High == 0):
		q.unit = of
	}
	if q.unit != of {
		return fmt.Sprintf("it is a %s, and a %s is wanted", q.unit, of)
	}
	if q.Low < least || q.High > most {
		return fmt.Sprintf("%s to %s are allowed", q.text(least), q.text(most))
	}
	return ""
}

// z90 is how many standard deviations an interval of 90 % reaches to either side.
const z90 = 1.6449

// mid returns the value that is as likely too high as too low.
func (q Quantity) mid() float64 { return q.at(0) }

// at returns the value at a place: Low at -1, High at 1. Where Low is above 0, equal steps are equal factors.
func (q Quantity) at(place float64) float64 {
	v := (q.Low+q.High)/2 + place*(q.High-q.Low)/2
	if q.Low > 0 {
		v = math.Sqrt(q.Low*q.High) * math.Pow(q.High/q.Low, place/2)
	}
	if q.unit == share {
		v = min(v, 1)
	}
	return max(0, v)
}

// place draws where a value may turn out to be.
func place(r *rand.Rand) float64 { return r.NormFloat64() / z90 }

// String returns the quantity as a person writes it.
func (q Quantity) String() string {
	if q.Low == q.High {
		return q.text(q.High)
	}
	return q.text(q.Low) + " to " + q.text(q.High)
}

func (q Quantity) text(v float64) string {
	switch q.unit {
	case share:
		return figure(100*v) + " %"
	case period:
		return duration.String(time.Duration(v * float64(time.Second)))
	}
	return figure(v)
}

// figure returns a number with three digits, or all that are before the point.
func figure(v float64) string {
	if math.Abs(v) < 1e-9 {
		return "0"
	}
	if math.Abs(v) >= 1000 {
		text := strconv.FormatFloat(v, 'f', 0, 64)
		for i := len(text) - 3; i > 0; i -= 3 {
			text = text[:i] + "," + text[i:]
		}
		return text
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
