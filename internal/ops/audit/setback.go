package audit

import (
	"context"
	"fmt"

	"binnacle/internal/kafka"
	"binnacle/internal/settings"
	"binnacle/internal/telemetry"
)

// SetBack says how far the group was set back in a partition, so that ingesters read again what is lost.
type SetBack struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	// From is the committed offset.
	From int64 `json:"from"`
	To   int64 `json:"to"` // the first record with a lost reading
}

// lostLog is what a partition has lost, as far as the group can be set back for it.
type lostLog struct {
	first  int64 // offset of the first record with a lost reading; -1 for none
	buried int64 // lost readings below a chunk of their chain: writers drop them as stored (rule W4)
}

// unaudited is the days of readings in the log that the audit leaves out.
type unaudited struct {
	readings    int64
	first, last telemetry.Day
}

func (u *unaudited) add(day telemetry.Day) {
	if u.readings == 0 {
		u.first, u.last = day, day
	}
	u.readings++
	u.first, u.last = min(u.first, day), max(u.last, day)
}

func (l *topicAudit) lose(c chain, offset int64) {
	of := l.setBack[int(c.partition)]
	if of == nil {
		of = &lostLog{first: -1}
		l.setBack[int(c.partition)] = of
	}
	if of.first < 0 {
		of.first = offset
	}
	if chunks := l.all[c]; len(chunks) > 0 && chunks[len(chunks)-1].through >= offset {
		of.buried++
	}
}

// setBackAll commits, for each partition with lost readings, the first record of them. Ingesters then store these
// readings at their own positions, in the chunks that are missing, and drop what is stored already (rule W4). Nothing
// is committed where that can't be right.
func (l *logAudit) setBackAll(ctx context.Context) error {
	var faults settings.Faults
	faults.Check(l.sum.Unread == 0, "records with a schema in a registry (%d) were not read", l.sum.Unread)
	u := l.outside
	faults.Check(u.readings == 0, "readings in the log (%d) are of days that were not audited: --from %s --to %s covers "+
		"all", u.readings, dayText(min(u.first, l.first)), dayText(max(u.last, l.last)))
	for _, t := range l.topics {
		for _, p := range t.partitions {
			if of := t.setBack[p.id]; of != nil {
				faults.Check(of.buried == 0, "lost readings of %s/%d (%d) lie below chunks that were written later: "+
					"ingesters would drop them", t.topic.Name(), p.id, of.buried)
			}
		}
	}
	if err := faults.Err(); err != nil {
		return fmt.Errorf("the group was not set back: %w", err)
	}
	for _, t := range l.topics {
		for _, p := range t.partitions {
			of := t.setBack[p.id]
			if of == nil || of.first < 0 || of.first >= p.committed {
				continue
			}
			err := t.topic.Commit(ctx, kafka.Commit{Group: l.Group, Generation: kafka.NoGeneration, Partition: p.id,
				Offset: of.first})
			if err != nil {
				return fmt.Errorf("set the group back (ingesters must be stopped): %w", err)
			}
			l.sum.SetBack = append(l.sum.SetBack, SetBack{t.topic.Name(), p.id, p.committed, of.first})
		}
	}
	return nil
}
