package engine

import "time"

// Provision is the throughput that a container has, or its whole database when shared. Scaled is what autoscale was at
// in the last whole second, ScaledHour the most in the current hour of the clock: the sum over physical partitions, as
// in accounts with dynamic scaling. With manual throughput they are all the same.
type Provision struct {
	RUs        float64 `json:"rus"` // manual RU/s, or the autoscale maximum
	Autoscale  bool    `json:"autoscale"`
	Shared     bool    `json:"shared"`
	Serverless bool    `json:"serverless"` // RUs is what the container may use, and nothing is bought
	Pending    bool    `json:"pending"`    // waits for splits
	Minimum    float64 `json:"minimumRUs"`
	Scaled     float64 `json:"scaledRUs"`
	ScaledHour float64 `json:"scaledHourRUs"`
}

// Provision returns the throughput that the container has.
func (c *Container) Provision(now time.Time) Provision {
	c.account.mu.RLock()
	defer c.account.mu.RUnlock()
	o := owned{c.record.Offer, c.database, c}
	shared := o.offer == nil
	if shared {
		o = owned{c.database.record.Offer, c.database, nil}
	}
	p := Provision{
		RUs: o.offer.RUs, Autoscale: o.offer.Autoscale, Shared: shared, Pending: o.offer.Pending != nil,
		Serverless: c.account.Capacity.serverless.Load(), Minimum: o.floor(), Scaled: o.offer.RUs, ScaledHour: o.offer.RUs,
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
