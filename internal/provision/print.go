package provision

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"binnacle/internal/ru"
	"binnacle/internal/store"
)

// Print writes steps as a table, by month: what each container has and is to have, what is done, and the
// price of a month of 730 hours before and after. The price of autoscale is that of its maximum.
func Print(w io.Writer, steps []Step) error {
	steps = slices.Clone(steps)
	slices.SortStableFunc(steps, func(a, b Step) int {
		return cmp.Or(cmp.Compare(monthOf(a.Container), monthOf(b.Container)), cmp.Compare(a.Container, b.Container))
	})
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "CONTAINER\tTIER\tRU/S NOW\tWANTED\tACTION\t$/MONTH NOW\tAFTER\t")
	var now, after, nowRUs, afterRUs float64
	for _, s := range steps {
		then := s.after()
		now, after = now+dollars(s.Now), after+dollars(then)
		nowRUs, afterRUs = nowRUs+float64(s.Now.RUs), afterRUs+float64(then.RUs)
		action := string(s.Action)
		if s.Waits != "" {
			action += " waits: " + s.Waits
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%.2f\t%.2f\t\n", s.Container, s.Tier, spell(s.Now), spell(s.Wanted), action, dollars(s.Now), dollars(then))
	}
	fmt.Fprintf(tw, "total\t\t%.0f\t%.0f\t\t%.2f\t%.2f\t\n", nowRUs, afterRUs, now, after)
	return tw.Flush() // which also has the errors of the lines
}

func dollars(t store.Throughput) float64 { return ru.DollarsPerMonth(float64(t.RUs), t.Autoscale) }

func spell(t store.Throughput) string {
	switch {
	case t.RUs == 0:
		return "-"
	case t.Autoscale:
		return fmt.Sprintf("%d auto", t.RUs)
	}
	return fmt.Sprintf("%d", t.RUs)
}
