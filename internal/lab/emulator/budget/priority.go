package budget

// Priority is how urgent a request is.
type Priority int

// Requests are of High priority unless they say otherwise.
const (
	High Priority = iota
	Low
)

// demand is what requests of high priority want of a second. Low ones may spend what is left beyond it, so that
// they are refused first. As much is expected of a second as was wanted in the one before it; all of it when a
// request of high priority was refused there. The service publishes no more than the order.
type demand struct {
	spent   float64 // by high priority in this second
	refused bool    // there was not enough for high priority in this second
	before  float64 // what high priority wanted in the second before
}

// advance begins the second that is gap seconds later.
func (d *demand) advance(gap, limit float64) {
	wanted := d.spent
	if d.refused {
		wanted = max(wanted, limit)
	}
	*d = demand{}
	if gap == 1 {
		d.before = wanted
	}
}

// reserved returns how much of what is left of the second is kept for high priority.
func (d *demand) reserved(limit float64) float64 {
	if d.refused {
		return limit
	}
	return max(0, d.before-d.spent)
}
