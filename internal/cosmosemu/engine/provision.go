package engine

import "time"

// Provision is the throughput that a container has, alone or shared. Scaled is what autoscale was at in
// the last whole second, ScaledHour the most in the current hour of the clock.
type provision struct {
	RUs        float64
	Autoscale  bool
	Shared     bool
	Pending    bool
	Minimum    float64
	Scaled     float64
	ScaledHour float64
}

// Provision returns the throughput that the container has.
func (c *Container) Provision(now time.Time) provision {
	c.account.mu.RLock()
	defer c.account.mu.RUnlock()
	o := owned{c.record.Offer, c.database, c}
	shared := o.offer == nil
	if shared {
		o = owned{c.database.record.Offer, c.database, nil}
	}
	p := provision{
		RUs: o.offer.RUs, Autoscale: o.offer.Autoscale, Shared: shared, Pending: o.offer.Pending != nil,
		Minimum: o.floor(), Scaled: o.offer.RUs, ScaledHour: o.offer.RUs,
	}
	if !p.Autoscale {
		return p
	}
	p.Scaled, p.ScaledHour = 0, 0
	for _, b := range o.budgets() {
		second, hour := b.Scale(now)
		p.Scaled += second
		p.ScaledHour += hour
	}
	return p
}
