package cosmosemu

import (
	"net/http"
	"strconv"
	"time"

	"binnacle/internal/cosmosemu/budget"
	"binnacle/internal/cosmosemu/refusal"
	"binnacle/internal/ru"
)

// owned is an offer with what it belongs to: a container, or a database.
type owned struct {
	offer     *offer
	database  *database
	container *container // nil for the offer of a database
}

// offers lists all offers. mu is held.
func (c *catalog) offers() []owned {
	var out []owned
	for _, db := range c.databases {
		if db.record.Offer != nil {
			out = append(out, owned{db.record.Offer, db, nil})
		}
		for _, co := range db.containers {
			if co.record.Offer != nil {
				out = append(out, owned{co.record.Offer, db, co})
			}
		}
	}
	return out
}

func (c *catalog) offer(id string) (owned, error) {
	for _, o := range c.offers() {
		if o.offer.ID == id {
			return o, nil
		}
	}
	return owned{}, refusal.NotFound("the offer %q does not exist", id)
}

func (x *exchange) queryOffers() (reply, error) {
	x.catalog.mu.RLock()
	var docs [][]byte
	for _, o := range x.catalog.offers() {
		docs = append(docs, o.offer.document())
	}
	x.catalog.mu.RUnlock()
	return x.queryMetadata("Offers", docs)
}

func (x *exchange) readOffer() (reply, error) {
	x.catalog.mu.RLock()
	defer x.catalog.mu.RUnlock()
	o, err := x.catalog.offer(x.route.id)
	if err != nil {
		return reply{}, err
	}
	return x.offerReply(o), nil
}

func (x *exchange) offerReply(o owned) reply {
	rep := x.metadata(o.offer.document(), o.offer.ETag)
	rep.header = http.Header{
		"X-Ms-Cosmos-Min-Throughput": {strconv.FormatFloat(o.floor(), 'f', -1, 64)},
		"X-Ms-Offer-Replace-Pending": {strconv.FormatBool(o.offer.Pending != nil)},
	}
	return rep
}

func (x *exchange) replaceOffer() (reply, error) {
	var in struct {
		Content contentJSON `json:"content"`
	}
	if err := x.decodeBody(&in); err != nil {
		return reply{}, err
	}
	var t throughput
	switch {
	case in.Content.Autopilot != nil:
		t = throughput{in.Content.Autopilot.Max, true}
	case in.Content.Manual != nil:
		t = throughput{rus: *in.Content.Manual}
	default:
		return reply{}, refusal.BadRequest("the offer has neither offerThroughput nor offerAutopilotSettings")
	}
	if ok, retry := x.offerPace.Take(x.now); !ok && !x.cfg.Unlimited {
		return reply{}, refusal.TooMany(retry, 0, "the throughput of the account's databases and containers has been replaced too often in the last 5 minutes")
	}
	o, err := x.catalog.replaceOffer(x.route.id, t, x.request.Header.Get("If-Match"), x.now)
	if err != nil {
		return reply{}, err
	}
	rep := x.offerReply(o)
	rep.charge = x.cfg.Model.Write(0, 0)
	return rep, nil
}

// replaceOffer sets a throughput and divides it over the physical partitions: at once, or when there
// are enough of them.
func (c *catalog) replaceOffer(id string, t throughput, match string, now time.Time) (owned, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, err := c.offer(id)
	if err != nil {
		return owned{}, err
	}
	if match != "" && match != o.offer.ETag {
		return owned{}, refusal.PreconditionFailed()
	}
	next, err := o.offer.replaced(t, len(o.budgets()), o.gigabytes(), now, now.Add(c.cfg.SplitTakes))
	if err != nil {
		return owned{}, err
	}
	if err := c.putOffer(o, next); err != nil {
		return owned{}, err
	}
	o.offer = next
	if next.Pending != nil {
		c.schedule(next.Pending.Due)
	}
	o.divide()
	return o, nil
}

func (c *catalog) putOffer(o owned, next *offer) error {
	b := c.store.db.NewBatch()
	if o.container == nil {
		r := o.database.record
		r.Offer = next
		if err := c.put(b, databaseKey(r.ID), r); err != nil {
			return err
		}
		o.database.record = r
		return nil
	}
	r := o.container.record
	r.Offer = next
	if err := c.put(b, containerKey(o.database.id, r.Definition.ID), r); err != nil {
		return err
	}
	o.container.record = r
	return nil
}

func (o owned) budgets() []*budget.Budget {
	if o.container == nil {
		return o.database.budgets
	}
	parts := o.container.parts()
	out := make([]*budget.Budget, len(parts))
	for i, p := range parts {
		out[i] = p.budget
	}
	return out
}

// floor is the lowest throughput that the offer may be set to.
func (o owned) floor() float64 {
	return ru.Floor(o.gigabytes(), o.offer.Highest, o.offer.Autoscale)
}

func (o owned) gigabytes() float64 {
	if o.container != nil {
		return o.container.gigabytes()
	}
	total := 0.0
	for _, co := range o.database.containers {
		if co.record.Offer == nil {
			total += co.gigabytes()
		}
	}
	return total
}
