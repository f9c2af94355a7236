package budget

// Priority is how urgent a request is.
type Priority int

// Requests are of High priority unless they say otherwise.
const (
	High Priority = iota
	Low
)

// demand forecasts the spending of high-priority requests in a second. Low-priority requests may spend only the
// rest, so that they are refused first. The forecast of a second is the demand of the second before; it is the
// whole budget after a second that refused a request of high priority. The service publishes no more than the
// order.
type demand struct {
	// spent is the spending of high priority in this second.
	spent   float64
	refused bool // there was not enough for high priority in this second
	// before is the demand of high priority in the second before.
	before float64
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

// reserved returns the part of the second's rest that is kept for high priority.
func (d *demand) reserved(limit float64) float64 {
	if d.refused {
		return limit
	}
	return max(0, d.before-d.spent)
}
