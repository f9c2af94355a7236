package planner

// Device is what a device of the first fleet comes to, a day.
type Device struct{ Chunks, Bytes, RUs, Readings, Values float64 }

// DeviceOf returns what a device of a workload comes to.
func DeviceOf(w Workload) (Device, error) {
	p, err := newPlanner(w)
	if err != nil {
		return Device{}, err
	}
	e := p.surfaces[0].at(0, 0)
	return Device{e.chunks, e.bytes, e.rus, e.readings, e.values}, nil
}

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
