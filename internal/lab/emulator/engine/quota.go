package engine

import "binnacle/internal/lab/emulator/refusal"

// quota returns why the account takes no more databases or containers, or nil. The status of the
// service for a full account is not published; 403 is what it gives for its other quotas. a.mu is held.
func (a *Account) quota() error {
	n := len(a.databases)
	for _, db := range a.databases {
		n += len(db.containers)
	}
	if most := a.cfg.Limits.Containers; n >= most {
		return refusal.Forbidden(0, "the account has %d databases and containers, the most it may", n)
	}
	return nil
}

// quotaToShare returns why no more containers may share the throughput of a database. a.mu is held.
func (db *database) quotaToShare(most int) error {
	n := 0
	for _, co := range db.containers {
		if co.record.Offer == nil {
			n++
		}
	}
	if n >= most {
		return refusal.Forbidden(refusal.SubSharedFull,
			"%d containers share the throughput of the database %q, the most that may; another needs throughput of its own",
			n, db.id)
	}
	return nil
}
