package planner

// Totals returns the bills of the last month of simulated futures, by the option that the plan has chosen.
func Totals(w Workload, p *Plan, seed uint64, futures int) (out []float64, err error) {
	made, err := newPlanner(w)
	if err != nil {
		return nil, err
	}
	for _, o := range made.simulate(seed, futures) {
		for i, x := range options() {
			if x == p.option {
				out = append(out, o.bills[i][w.Months-1].total())
			}
		}
	}
	return out, nil
}
