package engine

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator/kv"
	"binnacle/internal/lab/emulator/refusal"
)

// The capacity modes of an account. A serverless account sells no throughput: a container may use what the account
// gives it, and the account pays for each request unit. Inside the emulator such a container has an offer, which no
// client sees.
const (
	Provisioned = "provisioned"
	Serverless  = "serverless"
)

// capacityKey is the key of the record of an account that is serverless, or was.
var capacityKey = []byte{spaceMeta, 'a'}

// Capacity is the capacity mode of an account. It is safe for concurrent use.
type Capacity struct {
	account *Account
	// serverless is set under the account's mu.
	serverless atomic.Bool
}

// Mode returns Provisioned or Serverless.
func (c *Capacity) Mode() string {
	if c.serverless.Load() {
		return Serverless
	}
	return Provisioned
}

// load reads the mode. An account without databases and record gets the mode of the configuration.
func (c *Capacity) load() error {
	a, mode := c.account, ""
	err := a.each(capacityKey, func(v []byte) error {
		mode = string(v)
		return nil
	})
	if mode == "" && a.cfg.Serverless && len(a.databases) == 0 {
		mode = Serverless
		b := new(kv.Batch)
		b.Set(capacityKey, []byte(mode))
		a.store.Commit(b)
	}
	c.serverless.Store(mode == Serverless)
	return err
}

// BecomeProvisioned changes a serverless account in place, at once and for good: each container has manual throughput
// of 5,000 RU/s for each of its physical partitions from now on (Azure Cosmos DB docs, how-to-change-capacity-mode).
func (c *Capacity) BecomeProvisioned(now time.Time) error {
	a := c.account
	a.mu.Lock()
	defer a.mu.Unlock()
	if !c.serverless.Load() {
		return nil
	}
	b, next := new(kv.Batch), map[*Container]containerRecord{}
	for _, o := range a.offers() {
		r := o.container.record
		t := Throughput{RUs: ru.GrownPerPartition * float64(len(r.Partitions))}
		r.Offer = newOffer(t, r.Definition.RID, r.Definition.Self, now.Unix())
		v, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("encode a record of the catalog: %w", err)
		}
		b.Set(containerKey(o.database.id, r.Definition.ID), v)
		next[o.container] = r
	}
	b.Set(capacityKey, []byte(Provisioned))
	a.store.Commit(b)
	for co, r := range next {
		co.record = r
		owned{r.Offer, co.database, co}.divide()
	}
	c.serverless.Store(false)
	return nil
}

// served returns the offer of a container with a number of physical partitions: of a serverless account it grows with
// them.
func (c *Capacity) served(o *offer, partitions int) *offer {
	if o == nil || !c.serverless.Load() {
		return o
	}
	next := *o
	next.RUs = ru.ServerlessRUs(partitions)
	return &next
}

// offersRefused refuses every look at an offer of a serverless account, in the words of the service.
func (c *Capacity) offersRefused() error {
	if c.serverless.Load() {
		return refusal.BadRequest("Reading or replacing offers is not supported for serverless accounts.")
	}
	return nil
}

// throughputRefused refuses throughput for something that is made in a serverless account, in the words of the service.
func (c *Capacity) throughputRefused(t *Throughput, what string) error {
	if t != nil && c.serverless.Load() {
		return refusal.BadRequest("%s is not supported for serverless accounts.", what)
	}
	return nil
}
