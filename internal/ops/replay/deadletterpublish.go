package replay

import (
	"context"
	"errors"
	"maps"
	"slices"

	"binnacle/internal/kafka"
	"binnacle/internal/stream/deadletter"
)

// publish publishes dead letters of one partition of their topic. What an attempt has published is looked for before
// the next one begins.
func (r *deadLetterReplay) publish(ctx context.Context, partition int, batch []repaired) error {
	begin := map[int]int64{}
	for attempt := 1; ; attempt++ {
		rest, err := r.attempt(ctx, partition, batch, begin)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if permanent(err) || attempt == attempts {
			return err
		}
		if err := r.pause(ctx, inFlightMax); err != nil {
			return err
		}
		ids := idsOf(rest)
		var found map[deadletter.ID]bool
		looked := persist(ctx, patience, func(ctx context.Context) (err error) {
			found, err = copies(ctx, r.target, begin, func(id deadletter.ID, mac string) bool {
				return slices.Contains(ids, id) && copyKey{r.secret, r.cfg.Topic}.proves(id, mac)
			})
			return err
		})
		if looked != nil {
			return errors.Join(err, looked)
		}
		if err := r.published(ctx, slices.Collect(maps.Keys(found))); err != nil {
			return err
		}
		batch = slices.DeleteFunc(rest, func(m repaired) bool { return found[m.id] })
	}
}

// attempt claims dead letters and publishes those that nobody else has claimed. It notes where the topic ended before,
// where that is not noted yet. Of the rest it is not known whether they are published.
func (r *deadLetterReplay) attempt(ctx context.Context, partition int, batch []repaired, begin map[int]int64) (
	rest []repaired, err error) {
	if len(batch) == 0 {
		return nil, nil
	}
	within, cancel := context.WithTimeout(ctx, r.claimTimeout())
	defer cancel()
	ends, err := r.target.LogEnds(within)
	if err != nil {
		return batch, err
	}
	now := map[int]int64{}
	for _, e := range ends {
		if slices.ContainsFunc(batch, func(m repaired) bool { return m.partition == int(e.Partition) }) {
			now[int(e.Partition)] = e.End
		}
	}
	for p, end := range now {
		if _, known := begin[p]; !known {
			begin[p] = end
		}
	}
	claim := r.receipt(idsOf(batch))
	claim.Ends, claim.Secret = now, r.secret
	record := claim.record(claimKind, r.cfg.Topic)
	if _, err := r.produce(within, r.dead, partition, []kafka.Message{record}); err != nil {
		return batch, err
	}
	taken, err := r.claimedByOthers(within, partition, batch)
	if err != nil {
		return batch, err
	}
	mine := slices.DeleteFunc(slices.Clone(batch), func(m repaired) bool { return taken[m.id] })
	for _, m := range batch {
		if taken[m.id] {
			r.sum.skip(r.log.deadLetters[m.id].reason, leftTaken)
		}
	}
	done, large, err := r.send(within, mine)
	if signed := r.published(ctx, done); signed != nil {
		return mine, errors.Join(err, signed)
	}
	if len(large) > 0 {
		if err := r.appendReceipt(ctx, partition, releaseKind, large); err != nil {
			return mine, err
		}
		for _, id := range large {
			r.sum.skip(r.log.deadLetters[id].reason, leftLarge)
		}
	}
	return slices.DeleteFunc(mine, func(m repaired) bool {
		return slices.Contains(done, m.id) || slices.Contains(large, m.id)
	}), err
}

// claimedByOthers reads the log up to the claim that was just written, and returns which dead letters are not this
// replay's: of several claims of a dead letter the first one counts.
func (r *deadLetterReplay) claimedByOthers(ctx context.Context, partition int, batch []repaired) (
	taken map[deadletter.ID]bool, err error) {
	taken = map[deadletter.ID]bool{}
	ids, own := map[string]deadletter.ID{}, false
	for _, m := range batch {
		ids[m.id.String()] = m.id
		taken[m.id] = r.log.done[m.id] || r.log.others(m.id, r.run)
	}
	err = r.catchUp(ctx, []int{partition}, func(kind string, c receipt) error {
		if c.Run == r.run {
			own = own || kind == claimKind
			return nil
		}
		for _, text := range c.IDs {
			if id, mine := ids[text]; mine && !own && kind != releaseKind {
				taken[id] = true
			}
		}
		return nil
	})
	return taken, err
}

// send appends records to their partitions, in their order. large are those that the broker never takes.
func (r *deadLetterReplay) send(ctx context.Context, all []repaired) (done, large []deadletter.ID, err error) {
	byPartition := map[int][]repaired{}
	for _, m := range all {
		byPartition[m.partition] = append(byPartition[m.partition], m)
	}
	for _, p := range slices.Sorted(maps.Keys(byPartition)) {
		of := byPartition[p]
		for len(of) > 0 {
			messages := make([]kafka.Message, len(of))
			for i, m := range of {
				messages[i] = m.message
			}
			n, err := r.produce(ctx, r.target, p, messages)
			done = append(done, idsOf(of[:n])...)
			of = of[n:]
			if errors.Is(err, kafka.ErrTooLarge) {
				large = append(large, of[0].id)
				of = of[1:]
			} else if err != nil {
				return done, large, err
			}
		}
	}
	return done, large, nil
}

// published counts dead letters and writes down that they are published.
func (r *deadLetterReplay) published(ctx context.Context, ids []deadletter.ID) error {
	for _, id := range ids {
		if !r.log.done[id] {
			r.sum.at(r.log.deadLetters[id].reason).Published++
		}
	}
	return r.recordDone(ctx, ids)
}

func idsOf(all []repaired) []deadletter.ID {
	out := make([]deadletter.ID, len(all))
	for i, m := range all {
		out[i] = m.id
	}
	return out
}
