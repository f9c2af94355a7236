package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"binnacle/ingest/worker"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// fetcher reads one partition. It serves one goroutine.
type fetcher struct {
	client    *kafka.Client
	topic     string
	partition int
}

// Sizes of one fetch. The broker answers as soon as there is a byte, so the wait bounds only how long an idle
// partition takes to notice that it was revoked.
const (
	fetchBytes = 1 << 20
	fetchWait  = 250 * time.Millisecond
)

// batch is what one fetch answered: records from an offset on, and the offset after the last one, also where the log
// has offsets without a record.
type batch struct {
	records []worker.Record
	next    int64
	end     int64 // high watermark: the offset after the last record that may be read
}

// fetch answers the records from offset on; there may be none.
func (f *fetcher) fetch(ctx context.Context, offset int64) (batch, error) {
	b, passed, err := f.ask(ctx, offset, fetchBytes)
	if err != nil || !passed {
		return b, err
	}
	// The batch that holds the offset has no record at or above it, as when the log was compacted. That must not stop the
	// partition; but first it is made sure that nothing is left out for its size.
	if b, passed, err = f.ask(ctx, offset, 16*fetchBytes); err == nil && passed {
		b.next++
	}
	return b, err
}

// ask is one request. passed tells that there were records, all of them below the offset.
func (f *fetcher) ask(ctx context.Context, offset int64, bytes int64) (b batch, passed bool, err error) {
	res, err := f.client.Fetch(ctx, &kafka.FetchRequest{
		Topic: f.topic, Partition: f.partition, Offset: offset,
		MinBytes: 1, MaxBytes: bytes, MaxWait: fetchWait,
	})
	if err == nil {
		err = res.Error
	}
	if err != nil {
		return batch{}, false, fmt.Errorf("fetch %s/%d from offset %d: %w", f.topic, f.partition, offset, err)
	}
	b = batch{next: offset, end: res.HighWatermark}
	for {
		r, err := res.Records.ReadRecord()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return batch{}, false, fmt.Errorf("read record after offset %d of %s/%d: %w", b.next, f.topic, f.partition, err)
		}
		rec, err := newRecord(r)
		if err != nil {
			return batch{}, false, fmt.Errorf("read record %d of %s/%d: %w", r.Offset, f.topic, f.partition, err)
		}
		if rec.Offset < offset {
			passed = true // a batch begins before the offset that was asked for
			continue
		}
		b.records = append(b.records, rec)
		b.next = rec.Offset + 1
	}
	if len(b.records) == 0 {
		b.next = max(b.next, afterControl(res.Records))
	}
	return b, passed && b.next == offset, nil
}

// afterControl is the offset after the last batch of transaction markers in an answer that has no records; they take up
// offsets but are never delivered.
func afterControl(r kafka.RecordReader) (next int64) {
	stream, ok := r.(*protocol.RecordStream)
	if !ok {
		return 0
	}
	for _, s := range stream.Records {
		if c, ok := s.(*protocol.ControlBatch); ok {
			next = max(next, c.BaseOffset+1)
			for r, err := c.ReadRecord(); err == nil; r, err = c.ReadRecord() {
				next = max(next, r.Offset+1)
			}
		}
	}
	return next
}

func newRecord(r *kafka.Record) (worker.Record, error) {
	out := worker.Record{Offset: r.Offset, Time: -1}
	if !r.Time.IsZero() && r.Time.UnixMilli() >= 0 {
		out.Time = r.Time.UnixMilli()
	}
	var err error
	if out.Key, err = readAll(r.Key); err != nil {
		return out, err
	}
	if out.Value, err = readAll(r.Value); err != nil {
		return out, err
	}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, worker.Header{Key: h.Key, Value: h.Value})
	}
	return out, nil
}

func readAll(b kafka.Bytes) ([]byte, error) {
	if b == nil {
		return nil, nil
	}
	defer b.Close()
	return protocol.ReadAll(b)
}
