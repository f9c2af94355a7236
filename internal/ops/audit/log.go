package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	"binnacle/ingest/decode"
	"binnacle/ingest/journal"
	"binnacle/internal/erasure"
	"binnacle/internal/kafka"
	"binnacle/internal/stream"
	"binnacle/internal/telemetry"
	"binnacle/internal/text/progress"
)

// logAudit holds the store against the logs of all topics.
type logAudit struct {
	*auditor
	client *kafka.Client
	topics []*topicAudit
}

// topicAudit holds the store against the logs of a topic.
type topicAudit struct {
	*auditor
	topic      *kafka.Topic
	messages   decode.Options
	partitions []partitionLog
	refusals   *refusals
	lost       map[chain]*Finding // open stretches of lost readings
	// setBack is keyed by partition.
	setBack map[int]*lostLog
}

type partitionLog struct {
	id int
	// streams are the streams that its records are stored as: the present one, then older ones.
	streams    []uint32
	first, end int64
	committed  int64 // -1 is nothing
	began      int64 // first, when the audit began
}

// openLog connects to Kafka and reads what is committed.
func (a *auditor) openLog(ctx context.Context) (*logAudit, error) {
	client, err := kafka.New(a.Kafka)
	if err != nil {
		return nil, err
	}
	l := &logAudit{auditor: a, client: client}
	if err := l.open(ctx); err != nil {
		client.Close()
		return nil, err
	}
	return l, nil
}

func (l *logAudit) open(ctx context.Context) error {
	set, err := l.set()
	if err != nil {
		return err
	}
	found, err := l.client.Sources(set).Layout(ctx)
	if err == nil {
		err = errors.Join(found.Faults...)
	}
	if err != nil {
		return err
	}
	for _, name := range found.Names() {
		t := &topicAudit{auditor: l.auditor, topic: l.client.Topic(name), messages: l.Messages.ForTopic(name),
			lost: make(map[chain]*Finding), setBack: make(map[int]*lostLog)}
		t.messages.Bound = found.Tenants[name]
		if err := t.open(ctx, found.Cluster, found.Partitions[name]); err != nil {
			return err
		}
		l.topics = append(l.topics, t)
	}
	return nil
}

func (l *topicAudit) open(ctx context.Context, cluster string, partitions []int) error {
	committed, err := l.topic.Commits(ctx, l.Group)
	if err != nil {
		return err
	}
	lives := stream.Incarnations(l.streams, cluster, l.topic.Name())
	for _, id := range partitions {
		p := partitionLog{id: id, committed: -1}
		if at, ok := committed[id]; ok {
			p.committed = at.Offset
		}
		if p.began, _, err = l.topic.Bounds(ctx, id); err != nil {
			return err
		}
		if p.committed >= 0 && p.committed < p.began { // the group may have gone on since it was asked
			if committed, err = l.topic.Commits(ctx, l.Group); err != nil {
				return err
			}
			p.committed = max(p.committed, committed[id].Offset)
		}
		if len(lives) > 0 {
			now, mark, _, err := stream.NewStreams(l.stores.Documents).OfStreams(ctx, lives, len(partitions), int32(id))
			if err != nil {
				return err
			}
			if mark.Begins || journal.IsOfAnother(committed[id].Metadata, now.Number) { // all below the mark is stored
				p.committed = max(mark.Offset, p.began)
			}
			for _, s := range lives {
				if s.Number <= now.Number {
					p.streams = append(p.streams, s.Number)
				}
			}
		}
		l.partitions = append(l.partitions, p)
	}
	return nil
}

func (l *logAudit) check(ctx context.Context) error {
	total := int64(0)
	for _, t := range l.topics {
		records, err := t.ends(ctx)
		if err != nil {
			return err
		}
		total += records
	}
	if l.sum.Log = l.Log; !l.Log {
		return nil
	}
	all, err := l.readDeadLetters(ctx, l.client)
	if err != nil {
		return err
	}
	bar := progress.New(l.Progress, "records", total)
	defer bar.Clear()
	for _, t := range l.topics {
		t.refusals = all.of(t.topic.Name())
		for _, p := range t.partitions {
			if err := t.records(ctx, p, bar); err != nil {
				return err
			}
		}
	}
	if l.SetBack {
		return l.setBackAll(ctx)
	}
	return nil
}

// ends holds offsets against the ends of the topic's logs, and returns how many records there are to read.
func (l *topicAudit) ends(ctx context.Context) (total int64, err error) {
	for i := range l.partitions {
		p := &l.partitions[i]
		if p.first, p.end, err = l.topic.Bounds(ctx, p.id); err != nil {
			return 0, err
		}
		if err := l.passed(ctx, p); err != nil {
			return 0, err
		}
		if err := l.reportAll(l.offsets(*p)); err != nil {
			return 0, err
		}
		total += max(min(p.committed, p.end)-p.first, 0)
		l.sum.InLog += p.end - p.first
	}
	return total, nil
}

// passed takes care of a log that drops records while the audit runs: what has left it since the audit began, behind
// what was committed then, is only lost if it is not committed now either. The group continues during the audit.
func (l *topicAudit) passed(ctx context.Context, p *partitionLog) error {
	if p.committed < p.began || p.committed >= p.first {
		return nil
	}
	now, err := l.topic.Commits(ctx, l.Group)
	if err != nil {
		return err
	}
	if now[p.id].Offset >= p.first {
		p.committed = p.first
	}
	return nil
}

// offsets holds what is committed and what chunks say against the ends of the log.
func (l *topicAudit) offsets(p partitionLog) (found []Finding) {
	about := func(k Kind, first, through int64, format string, args ...any) {
		f := Finding{Kind: k, Topic: l.topic.Name(), Partition: int32(p.id), Number: -1, First: first, Through: through,
			Detail: fmt.Sprintf(format, args...)}
		if len(p.streams) > 0 {
			f.Stream = p.streams[0]
		}
		found = append(found, f)
	}
	switch {
	case p.committed > p.end:
		about(Beyond, p.end, p.committed-1, "group %s has committed %d, but the log ends at %d", l.Group, p.committed,
			p.end)
	case p.committed >= 0 && p.committed < p.first:
		about(Lost, p.committed, p.first-1, "they left the log before group %s has committed them", l.Group)
	}
	if len(p.streams) == 0 {
		return found
	}
	for c, of := range l.all {
		if c.stream != p.streams[0] || int(c.partition) != p.id {
			continue
		}
		for _, e := range of {
			if e.through >= p.end {
				found = append(found, e.finding(Beyond, "the log ends at %d", p.end))
			}
		}
	}
	return found
}

// records reads a partition up to what is committed: each of its readings must be in a chunk or in the dead letters.
func (l *topicAudit) records(ctx context.Context, p partitionLog, bar progress.Bar) error {
	decoder := decode.New(l.messages)
	span := kafka.Span{Partition: p.id, From: p.first, To: min(p.committed, p.end)}
	err := l.topic.Each(ctx, span, func(r *kafka.Record) error {
		l.sum.Records++
		return l.record(decoder, p, r)
	}, bar.Add)
	if err != nil {
		return err
	}
	if err := l.reportLost(); err != nil {
		return err
	}
	var found []Finding
	for c, of := range l.all {
		if len(p.streams) == 0 || c.stream != p.streams[0] || int(c.partition) != p.id {
			continue
		}
		for _, e := range of {
			if e.readings == 0 && l.isErased(c, e.through, -1) {
				continue
			}
			if !e.unsure && l.sum.Unread == 0 && e.first >= p.first && e.through < p.committed && e.inLog != e.readings {
				found = append(found, e.finding(Count, "it has %d readings, but the log %d", e.readings, e.inLog))
			}
		}
	}
	return l.reportAll(found)
}

func (l *topicAudit) record(decoder *decode.Decoder, p partitionLog, r *kafka.Record) error {
	result := decoder.Decode(decode.RecordOf(r.Value, r.Headers, r.Time))
	if result.Unknown != nil {
		l.sum.Unread++
		return nil
	}
	at := position{p.id, r.Offset}
	for i, reading := range result.Readings {
		l.reading(p, reading, element{at, result.Index[i]}, r.Time)
	}
	return nil
}

// reading holds one reading of the log, published at a time, against chunks and dead letters.
func (l *topicAudit) reading(p partitionLog, r telemetry.Reading, at element, published int64) {
	day := telemetry.DayOf(r.Time)
	if l.Tenant != "" && r.Tenant != l.Tenant || l.Device != "" && r.Device != l.Device {
		return
	}
	if r.Time < 0 || day < l.first || day > l.last {
		l.leaveOut(r, day, at)
		return
	}
	refused := l.refusals.has(at)
	c := chain{tenant: r.Tenant, device: r.Device, day: day, partition: int32(p.id)}
	for i, stream := range p.streams {
		c.stream = stream
		e := l.all.at(c, at.offset)
		if e == nil {
			continue
		}
		e.unsure = e.unsure || l.refusals.whole[at.position]
		if i == 0 && !refused {
			e.inLog++
		}
		return
	}
	tenant, known := l.snapshot.Tenant(r.Tenant)
	if refused || known && tenant.ExpiredOf(r.Device, day, l.Now().UnixMilli()) {
		return
	}
	if len(p.streams) > 0 {
		c.stream = p.streams[0]
	}
	if l.isErased(c, at.offset, published) {
		return
	}
	l.lose(c, at.offset)
	if l.lost[c] == nil {
		made := c.finding(Finding{Kind: Lost, Number: -1, First: at.offset, Through: at.offset,
			Detail: "readings of it are in no chunk and in no dead letter"})
		l.lost[c] = &made
	}
	l.lost[c].Through = at.offset
}

// isErased reports whether an order of erasure covers a record of a chain.
func (l *topicAudit) isErased(c chain, offset, published int64) bool {
	at := erasure.Partition{Stream: c.stream, Partition: c.partition}
	return slices.ContainsFunc(l.snapshot.Erasures(c.tenant).Of(c.device, c.day),
		func(o *erasure.Order) bool { return o.Covers(at, offset, published) })
}

// leaveOut notes a reading of a day that is not audited, unless nothing has to be stored of it.
func (l *topicAudit) leaveOut(r telemetry.Reading, day telemetry.Day, at element) {
	tenant, known := l.snapshot.Tenant(r.Tenant)
	if r.Time >= 0 && !l.refusals.has(at) && !(known && tenant.ExpiredOf(r.Device, day, l.Now().UnixMilli())) {
		l.outside.add(day)
	}
}

// reportLost reports the readings of a partition that were lost, by chain.
func (l *topicAudit) reportLost() error {
	var found []Finding
	for _, f := range l.lost {
		found = append(found, *f)
	}
	clear(l.lost)
	return l.reportAll(found)
}

func (l *topicAudit) reportAll(found []Finding) error {
	slices.SortFunc(found, compare)
	for _, f := range found {
		if err := l.report(f); err != nil {
			return err
		}
	}
	return nil
}

// at returns the chunk of a chain that has a record, nil if none has.
func (c chains) at(of chain, offset int64) *entry {
	all := c[of]
	i := sort.Search(len(all), func(i int) bool { return all[i].through >= offset })
	if i == len(all) || all[i].first > offset {
		return nil
	}
	return all[i]
}
