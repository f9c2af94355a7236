package read

import (
	"context"
	"fmt"

	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// maxReread bounds the devices and days that one query reads again. With more missing something else is wrong, and
// reading would make it worse.
const maxReread = 64

// checkChains holds the rows of r, which were read up to its ends, against rule R4: where chunks may be missing, the
// device's day is read again. late takes the pieces that are found now; nil means that it is too late for them.
func (q *Query) checkChains(ctx context.Context, w *chainCheck, r telemetry.Range, late func(*Piece) error) error {
	for _, s := range w.suspects(r) {
		if q.expired(s.device, s.day) {
			continue
		}
		if q.cost.reread == maxReread {
			q.miss("the store returns only some chunks of many devices")
			return nil
		}
		q.cost.reread++
		found := 0
		for _, key := range q.plan.tenant.Placement.Keys(s.device, s.day) {
			day := telemetry.Range{From: s.day.Start(), To: s.day.End()}
			err := q.scan(ctx, target{Visit: sharding.Visit{Key: key, Range: day}}, day, func(p *Piece) error {
				isNew := w.add(p.Device, p.Chunk.Header.ID)
				if !isNew || p.From >= r.To || p.To < r.From {
					p.Release()
					return nil
				}
				found++
				if late == nil {
					p.Release()
					return nil
				}
				return late(p)
			})
			if err != nil {
				return err
			}
		}
		lacking := w.lacking(s)
		q.missing = append(q.missing, lacking...)
		for _, detail := range lacking {
			q.missingChunks = append(q.missingChunks, MissingChunks{s.device, s.day, detail})
		}
		if found > 0 && late == nil && lacking == nil {
			q.miss("the store returned %s too late: repeat the query", chunks(found, s))
		}
	}
	return nil
}

func chunks(n int, s suspect) string {
	if n == 1 {
		return fmt.Sprintf("a chunk of device %s, day %s,", s.device, s.day)
	}
	return fmt.Sprintf("a part of the chunks of device %s, day %s,", s.device, s.day)
}
