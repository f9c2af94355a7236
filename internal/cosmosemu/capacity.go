package cosmosemu

import "binnacle/internal/cosmosemu/refusal"

// room tells why the account takes no more databases or containers, or gives nil. The status of the
// service for a full account is not published; 403 is what it gives for its other quotas. c.mu is held.
func (c *catalog) room() error {
	n := len(c.databases)
	for _, db := range c.databases {
		n += len(db.containers)
	}
	if most := c.cfg.Limits.Containers; n >= most {
		return refusal.Forbidden(0, "the account has %d databases and containers, the most it may", n)
	}
	return nil
}

// roomToShare tells why no more containers may share the throughput of a database. c.mu is held.
func (db *database) roomToShare(most int) error {
	n := 0
	for _, co := range db.containers {
		if co.record.Offer == nil {
			n++
		}
	}
	if n >= most {
		return refusal.Forbidden(refusal.SubSharedFull, "%d containers share the throughput of the database %q, the most that may; another needs throughput of its own", n, db.id)
	}
	return nil
}
