package loadtest

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"

	"binnacle/internal/charges/ru"
	"binnacle/internal/cosmos"
	"binnacle/internal/provision"
	"binnacle/internal/store"
	"binnacle/internal/text/report"
)

// conclusions draws the conclusions from one scenario's figures, for each layout.
func conclusions(o Outcome) (out []string) {
	for _, x := range o.Results {
		more := ""
		if len(x.Days) > 0 {
			more += " " + x.byDay()
		}
		switch x.Layout {
		case Binnacle:
			out = append(out, x.binnacle(o)+more)
		case Balanced:
			out = append(out, x.balanced()+more)
		default:
			out = append(out, x.hot()+more)
		}
	}
	return out
}

// hot describes the effect of the hottest partition on a layout.
func (r Result) hot() string {
	text := fmt.Sprintf("%s: %s of the RU go to one physical partition, which has %s of what is bought; ",
		"A document per "+r.Layout.about(), percent(slices.Max(r.Spread)), percent(1/float64(len(r.Spread))))
	if r.lost() < hardlyAny {
		return text + "all readings are accepted all the same."
	}
	text += percent(r.lost()) + " of the readings are not accepted. "
	if r.Enough == nil {
		return text + fmt.Sprintf("No throughput helps: that partition would have to serve %s RU/s (modelled), and none "+
			"serves more than %s.", number(r.enough(r.Offered)/float64(len(r.Spread))), number(ru.PartitionRUs))
	}
	text += fmt.Sprintf("With %s RU/s (modelled), $%s a month, ", number(r.Enough.RUs), report.Dollars(r.Enough.Dollars))
	if missing := r.Enough.missing(r); missing < hardlyAny {
		text += "all are accepted"
	} else {
		text += percent(missing) + " are not yet accepted in the time that is measured"
	}
	if r.idles() {
		text += "; most of it is for partitions that idle"
	}
	return text + "."
}

// idles reports whether more than half of what is enough is not used.
func (r Result) idles() bool { return utilisation*r.Needed*r.Offered/r.foreseen() < r.Enough.RUs/2 }

// missing returns the share of a result's readings that is not accepted even so.
func (e Enough) missing(r Result) float64 { return 1 - e.Accepted/r.Offered }

// hardlyAny is the share of readings below which all count as accepted: some wait when the time is over.
const hardlyAny = 0.005

// lost returns the share of the readings that is not accepted.
func (r Result) lost() float64 { return max(0, 1-r.Accepted/r.Offered) }

func (r Result) binnacle(o Outcome) string {
	text := fmt.Sprintf("Binnacle: the hottest physical partition has %.2f times the mean, and %s.", r.Hottest,
		r.accepted())
	var others []float64
	binned := 0.0
	for _, x := range o.Results {
		if x.Layout == Hundred {
			binned = x.PerMillion
		}
		if x.Layout.sampled() {
			others = append(others, x.PerMillion)
		}
	}
	if len(others) > 0 {
		text += fmt.Sprintf(" A value takes 1/%s of the RU (modelled) that it takes in a document per reading.",
			number(slices.Min(others)/r.PerMillion))
	}
	if binned > 0 {
		text += fmt.Sprintf(" In a document of %d readings as JSON it takes %s times as much.", hundred,
			number(binned/r.PerMillion))
	}
	return text + r.spare()
}

// accepted returns what becomes of Binnacle's readings, in words: a run fails unless each is stored. In the window it
// can be fewer than came, since bins hold them.
func (r Result) accepted() string {
	if r.Throttled < 0.005 {
		return "all readings are accepted"
	}
	return "all readings are stored, though " + percent(r.Throttled) + " of the requests were answered 429 first"
}

// spare returns what else the throughput would do for, in words.
func (r Result) spare() string {
	if r.Needed >= r.Bought {
		return ""
	}
	return fmt.Sprintf(" The %s RU/s bought would do for about %s such readings/s.", number(r.Bought),
		number(digits(r.bears(r.Bought), 2)))
}

// balanced describes the balancer's changes and their gain.
func (r Result) balanced() string {
	if r.Trace != nil && len(r.Trace.Epochs) > 0 {
		return fmt.Sprintf("Binnacle, balanced: each evening the balancer places tenants for the next day by "+
			"what the day has written, %s in all. Over all days the hottest physical partition has %.2f times the mean, "+
			"and %s.", plural(r.Epochs, "epoch"), r.Hottest, r.accepted()) + r.spare()
	}
	if r.Keys == nil {
		return "Binnacle, balanced: the load is even enough that the balancer changes nothing."
	}
	many := fmt.Sprintf("%d instead of %d", r.Keys.After, r.Keys.Before)
	if r.Keys.After == r.Keys.Before {
		many = "as many as before"
	}
	text := fmt.Sprintf("Binnacle, balanced: after a day of this load the balancer gives %s other keys, %s with %s of "+
		"the RU %s. ", plural(r.Epochs, "tenant"), r.Keys.Tenant, percent(r.Keys.Share), many)
	if r.Keys.Spread > 0 {
		text += fmt.Sprintf("It spreads %s over several keys. ", plural(r.Keys.Spread, "device"))
	}
	return text + fmt.Sprintf("From the next day on the hottest physical partition has %.2f times the mean, and %s.",
		r.Hottest, r.accepted()) + r.spare()
}

func digits(f float64, n int) float64 {
	if f <= 0 {
		return f
	}
	scale := math.Pow10(int(math.Floor(math.Log10(f))) + 1 - n)
	return math.Round(f/scale) * scale
}

// footnotes writes what the table leaves out.
func footnotes(b *bytes.Buffer, r Report) {
	b.WriteByte('\n')
	if len(r.Outcomes) > 0 {
		report.Paragraph(b, "", fmt.Sprintf("needed: the load's average over %.1f. bought: what the service sells for that, "+
			"%s RU/s at least, in steps of %s.",
			utilisation, number(ru.Sold(0, false)), number(ru.Step(false))))
	}
	grainy := false
	for _, o := range r.Outcomes {
		grainy = grainy || slices.ContainsFunc(o.Results, Result.Grainy)
	}
	if grainy {
		report.Paragraph(b, "", fmt.Sprintf("grainy: a second of one physical partition holds fewer than %d of the "+
			"layout's writes, so a share of 429s says little.", grainyBelow))
	}
	report.Paragraph(b, "", baseCost(cosmos.Base()))
}

// baseCost describes the cost of the base containers, which comes on top of the cost of the fleet's readings.
// Autoscale is billed by every hour's highest throughput, a tenth of the maximum at least.
func baseCost(base []store.ContainerState) string {
	var containers []string
	var price ru.Bill
	for _, c := range base {
		rus := float64(c.Throughput.RUs)
		price = price.Plus(ru.Price(provision.Priced(c)))
		text := fmt.Sprintf("%s (%s RU/s)", c.Name, number(rus))
		if c.Throughput.Autoscale {
			text = fmt.Sprintf("%s (autoscale, %s to %s RU/s)", c.Name, number(rus/10), number(rus))
		}
		containers = append(containers, text)
	}
	return fmt.Sprintf("Binnacle also keeps the containers %s, whatever the fleet: $%s a month at rest, $%s at most, "+
		"the least storage included. "+
		"Rollups are extra: binnacle provision --dry-run lists all containers with their prices.",
		strings.Join(containers, ", "), report.Dollars(price.Least), report.Dollars(price.Most))
}
