package provision

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"binnacle/internal/report"
	"binnacle/internal/ru"
	"binnacle/internal/store"
)

// Print writes steps as a table, by month: what each container has and is to have, what is done, and the
// price of a month of 730 hours before and after. They are list prices of what is provisioned: no modelled charge is in
// them. The price of autoscale is that of its maximum; the last row has it at rest.
func Print(w io.Writer, steps []Step) error {
	steps = slices.Clone(steps)
	slices.SortStableFunc(steps, func(a, b Step) int {
		return cmp.Or(cmp.Compare(firstDay(a.Container), firstDay(b.Container)), cmp.Compare(a.Container, b.Container))
	})
	rows := [][]string{{"CONTAINER", "TIER", "RU/S NOW", "WANTED", "ACTION", "$/MONTH NOW", "AFTER"}}
	var now, after, nowRUs, afterRUs, restNow, restAfter float64
	for _, s := range steps {
		then := s.after()
		now, after = now+dollars(s.Now), after+dollars(then)
		restNow, restAfter = restNow+atRest(s.Now), restAfter+atRest(then)
		nowRUs, afterRUs = nowRUs+float64(s.Now.RUs), afterRUs+float64(then.RUs)
		action := string(s.Action)
		if s.Why != "" {
			action += ": " + s.Why
		}
		if s.Waits != "" {
			action += " waits: " + s.Waits
		}
		rows = append(rows, []string{
			s.Container, string(s.Tier), spell(s.Now), spell(s.Wanted), action, cents(dollars(s.Now)), cents(dollars(then)),
		})
	}
	rows = append(rows, []string{
		"total", "", fmt.Sprintf("%.0f", nowRUs), fmt.Sprintf("%.0f", afterRUs), "", cents(now), cents(after),
	})
	if restNow < now || restAfter < after {
		rows = append(rows, []string{"total, autoscale at rest", "", "", "", "", cents(restNow), cents(restAfter)})
	}
	return report.List(w, rows)
}

// atRest returns the least that throughput is billed with: a tenth of the maximum of autoscale.
func atRest(t store.Throughput) float64 {
	if t.Autoscale {
		return dollars(t) / 10
	}
	return dollars(t)
}

func dollars(t store.Throughput) float64 { return ru.DollarsPerMonth(float64(t.RUs), t.Autoscale) }

func cents(amount float64) string { return fmt.Sprintf("%.2f", amount) }

func spell(t store.Throughput) string {
	switch {
	case t.Shared:
		return "shared"
	case t.RUs == 0:
		return "-"
	case t.Autoscale:
		return fmt.Sprintf("%d auto", t.RUs)
	}
	return fmt.Sprintf("%d", t.RUs)
}
