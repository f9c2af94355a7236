package provision

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"binnacle/internal/charges/ru"
	"binnacle/internal/store"
	"binnacle/internal/text/report"
)

// sorted returns steps by month and name.
func sorted(steps []Step) []Step {
	steps, first := slices.Clone(steps), firstDays(steps)
	slices.SortStableFunc(steps, func(a, b Step) int {
		return cmp.Or(cmp.Compare(first[a.Container], first[b.Container]), cmp.Compare(a.Container, b.Container))
	})
	return steps
}

// totals returns the price of all containers of steps, before and after.
func totals(steps []Step) (now, after ru.Bill) {
	for _, s := range steps {
		now, after = now.Plus(s.bill(s.Now)), after.Plus(s.bill(s.after()))
	}
	return now, after
}

// Print writes steps as a table, by month: what each container has and is to have, what is done, and the price of a
// month of 730 hours before and after. They are list prices of throughput and storage: no modelled charge is in them.
// Autoscale has two: at rest and with its maximum.
func Print(w io.Writer, steps []Step) error {
	rows := [][]string{{"CONTAINER", "TIER", "RU/S NOW", "WANTED", "ACTION", "$/MONTH NOW", "AFTER"}}
	var nowRUs, afterRUs int
	for _, s := range sorted(steps) {
		then := s.after()
		nowRUs, afterRUs = nowRUs+s.Now.RUs, afterRUs+then.RUs
		action := string(s.Action)
		if s.Why != "" {
			action += ": " + s.Why
		}
		if s.Waits != "" {
			action += " waits: " + s.Waits
		}
		rows = append(rows, []string{s.Container, string(s.Tier), spell(s.Now), spell(s.Wanted), action,
			spellBill(s.bill(s.Now)), spellBill(s.bill(then))})
	}
	now, after := totals(steps)
	rows = append(rows, []string{"total", "", fmt.Sprint(nowRUs), fmt.Sprint(afterRUs), "", spellBill(now),
		spellBill(after)})
	if err := report.List(w, rows); err != nil || isServerless(steps) {
		return err
	}
	_, err := fmt.Fprintf(w, "\non an account of the free tier (%d RU/s and %d GB): $%s a month\n",
		ru.FreeRUs, ru.FreeGB, spellBill(withFreeTier(steps)))
	return err
}

// isServerless reports whether steps are of a serverless account, which has no free tier.
func isServerless(steps []Step) bool {
	return slices.ContainsFunc(steps, func(s Step) bool { return s.Wanted.Serverless })
}

// withFreeTier returns the price of all containers after the steps on an account of the free tier. What autoscale bills
// counts as manual throughput of the same price.
func withFreeTier(steps []Step) ru.Bill {
	_, after := totals(steps)
	gb := 0.0
	for _, s := range steps {
		if s.after() != (store.Throughput{}) && s.Container != store.Database {
			gb += max(ru.LeastGB, s.GB)
		}
	}
	free := min(ru.FreeGB, gb) * ru.StoragePerGB
	rus := ru.Price(ru.Priced{RUs: ru.FreeRUs}).Most
	least := after.Least - free - min(rus, after.Least-gb*ru.StoragePerGB)
	return ru.Bill{Least: max(0, least), Most: max(0, least, after.Most-free-rus)}
}

// spellBill returns the price of a month, or from the least to the most.
func spellBill(b ru.Bill) string {
	least, most := fmt.Sprintf("%.2f", b.Least), fmt.Sprintf("%.2f", b.Most)
	if least == most {
		return most
	}
	return least + "-" + most
}

func spell(t store.Throughput) string {
	switch {
	case t.Shared:
		return "shared"
	case t.Serverless:
		return "serverless"
	case t.RUs == 0:
		return "-"
	case t.Autoscale:
		return fmt.Sprintf("%d auto", t.RUs)
	}
	return fmt.Sprintf("%d", t.RUs)
}
