package broker

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Run trims the log until ctx ends; its error is always nil. The broker also serves without it.
func (b *Broker) Run(ctx context.Context) error {
	ticker := time.NewTicker(b.cfg.TrimEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			b.trim()
		}
	}
}

// trim applies the retention: ours to the broker's own topics, and the requested one to topics that clients have
// created, since kfake forgets it on a restart.
func (b *Broker) trim() {
	b.closing.RLock()
	defer b.closing.RUnlock()
	if b.isClosed {
		return
	}
	b.cluster.ApplyRetention()
	if b.cfg.RetentionBytes == 0 {
		return
	}
	for _, topic := range b.cfg.Topics {
		to := b.retained(topic)
		for _, p := range b.cluster.PartitionInfos(topic) {
			to := to(p)
			if to <= p.LogStartOffset {
				continue
			}
			if err := b.cluster.DeleteRecords(topic, p.Partition, to); err != nil {
				b.log.Warn("log not trimmed", "topic", topic, "partition", p.Partition, "offset", to, "error", err)
			}
		}
	}
}

// retained returns the first offset to keep in a topic's partitions.
func (b *Broker) retained(topic string) func(p *kfake.PartitionInfo) int64 {
	source, ok := b.cfg.Journals[topic]
	if !ok {
		committed := b.committed(topic)
		return func(p *kfake.PartitionInfo) int64 { return trimTo(p, b.cfg.RetentionBytes, committed[p.Partition]) }
	}
	needed := b.needed(source)
	return func(p *kfake.PartitionInfo) int64 {
		if from, ok := needed[p.Partition]; ok {
			return min(from, p.HighWatermark-1)
		}
		return trimTo(p, b.cfg.RetentionBytes, p.HighWatermark)
	}
}

// needed returns, by partition of a source, the first offset of its journal to keep; none where no commit needs it.
func (b *Broker) needed(source string) map[int32]int64 {
	all := map[int32]int64{}
	for _, name := range b.cfg.Groups {
		group := b.cluster.GroupInfo(name)
		if group == nil {
			continue
		}
		for partition, commit := range group.Commits[source] {
			from, ok := b.cfg.Needed(commit.Metadata)
			if before, known := all[partition]; ok && known {
				from = min(from, before)
			}
			if ok {
				all[partition] = from
			}
		}
	}
	return all
}

// committed returns, by partition, the offset below which every group has read; none where one has not.
func (b *Broker) committed(topic string) map[int32]int64 {
	var lowest map[int32]int64
	for _, name := range b.cfg.Groups {
		offsets := map[int32]int64{}
		if group := b.cluster.GroupInfo(name); group != nil {
			for partition, commit := range group.Commits[topic] {
				if before, ok := lowest[partition]; ok || lowest == nil {
					offsets[partition] = commit.Offset
					if ok {
						offsets[partition] = min(before, commit.Offset)
					}
				}
			}
		}
		lowest = offsets
	}
	return lowest
}

// trimTo returns the offset at which a partition's log should begin. It assumes records of one size, so one round may
// trim too little or a little too much. It stays below what is committed and keeps the last record: kfake gives an
// empty partition offset 0 after a restart.
func trimTo(p *kfake.PartitionInfo, bound, committed int64) int64 {
	records := p.HighWatermark - p.LogStartOffset
	if p.NumBytes <= bound || records <= 0 {
		return p.LogStartOffset
	}
	drop := int64(float64(records) * float64(p.NumBytes-bound) / float64(p.NumBytes))
	return min(p.LogStartOffset+drop, committed, p.HighWatermark-1)
}
