package replay

import (
	"context"
	"errors"
	"maps"
	"slices"

	"binnacle/internal/kafka"
	"binnacle/internal/stream/deadletter"
)

// publish appends the records of some dead letters to their partitions, and writes down which are published. What fails
// is sent again, so that a record may stand in its partition twice.
func (r *deadLetterReplay) publish(ctx context.Context, batch []repaired) error {
	byPartition := map[int][]repaired{}
	for _, m := range batch {
		byPartition[m.partition] = append(byPartition[m.partition], m)
	}
	var done []deadletter.ID
	var failed error
	for _, p := range slices.Sorted(maps.Keys(byPartition)) {
		sent, err := r.send(ctx, p, byPartition[p])
		done = append(done, sent...)
		if failed = err; failed != nil {
			break
		}
	}
	for _, id := range done {
		r.sum.at(r.log.deadLetters[id].reason).Published++
	}
	return errors.Join(failed, r.recordDone(ctx, done))
}

// send appends records to a partition, in their order, and returns the acknowledged ones. It leaves out records that
// the broker never takes.
func (r *deadLetterReplay) send(ctx context.Context, partition int, all []repaired) (done []deadletter.ID, err error) {
	err = persist(ctx, patience, func(ctx context.Context) error {
		for len(all) > 0 {
			messages := make([]kafka.Message, len(all))
			for i, m := range all {
				messages[i] = m.message
			}
			n, err := r.produce(ctx, r.target, partition, messages)
			for _, m := range all[:n] {
				done = append(done, m.id)
			}
			all = all[n:]
			switch {
			case errors.Is(err, kafka.ErrTooLarge):
				r.sum.skip(r.log.deadLetters[all[0].id].reason, leftLarge)
				all = all[1:]
			case err != nil:
				return err
			}
		}
		return nil
	})
	return done, err
}

// recordDone writes receipts for published dead letters to their topic. A receipt may occur twice.
func (r *deadLetterReplay) recordDone(ctx context.Context, ids []deadletter.ID) error {
	byPartition := map[int]receipt{}
	for _, id := range ids {
		p := r.log.deadLetters[id].partition
		byPartition[p] = receipt{append(byPartition[p].IDs, id.String())}
		r.log.done[id] = true
	}
	for p, c := range byPartition {
		err := persist(ctx, patience, func(ctx context.Context) error {
			_, err := r.produce(ctx, r.dead, p, []kafka.Message{c.record(r.cfg.Topic)})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
