// Package measured makes the workload of a plan from a sample of a Kafka topic. It bounds
// its reads and writes nothing. docs/start/plan.md is its manual.
package measured

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/kafka"
	"binnacle/internal/lab/planner"
	"binnacle/internal/telemetry"
	"binnacle/internal/text/duration"
)

// Topic names a topic to read a sample from.
type Topic struct {
	Kafka    kafka.Config
	Name     string
	Messages decode.Options
	// Records bounds the records that are read from all partitions together.
	Records int
}

// Bounds of the readings that are encoded for bytes per value.
const (
	encodedDevices  = 50
	encodedReadings = 10_000
)

// lateAfter is the time from the end of a day on after which its chunks may be stored: later readings of it are late.
const lateAfter = time.Hour

// topicSample collects what Topic.Read reads.
type topicSample struct {
	devices map[string]*device
	// kept has copies of the readings that are encoded.
	kept          map[string][]telemetry.Reading
	records       int
	refused       int
	readings      int
	oldest, newer int64
}

// Read measures every partition's newest records, without a consumer group.
func (t Topic) Read(ctx context.Context) (Result, error) {
	client, err := kafka.New(t.Kafka)
	if err != nil {
		return Result{}, err
	}
	defer client.Close()
	topic := client.Topic(t.Name)
	partitions, err := topic.Partitions(ctx)
	if kafka.IsUnknownTopic(err) {
		return Result{}, fmt.Errorf("no such topic: %s at %s", t.Name, client.Address())
	} else if err != nil {
		return Result{}, err
	}
	s := topicSample{devices: map[string]*device{}, kept: map[string][]telemetry.Reading{}}
	decoder := decode.New(t.Messages.ForTopic(t.Name))
	for _, p := range partitions {
		first, end, err := topic.Bounds(ctx, p)
		if err != nil {
			return Result{}, err
		}
		span := kafka.Span{Partition: p, From: max(first, end-int64(max(1, t.Records/len(partitions)))), To: end}
		if err := topic.Each(ctx, span, func(r *kafka.Record) error { s.record(decoder, r); return nil }, nil); err != nil {
			return Result{}, fmt.Errorf("read partition %d of %s: %w", p, t.Name, err)
		}
	}
	if s.readings == 0 {
		return Result{}, fmt.Errorf("topic %s: %d records were read, and no reading is in them", t.Name, s.records)
	}
	return s.result(t.Name), nil
}

func (s *topicSample) record(decoder *decode.Decoder, r *kafka.Record) {
	s.records++
	result := decoder.Decode(decode.RecordOf(r.Value, r.Headers, r.Time))
	if len(result.Readings) == 0 {
		s.refused++
	}
	if r.Time > 0 && (s.oldest == 0 || r.Time < s.oldest) {
		s.oldest = r.Time
	}
	s.newer = max(s.newer, r.Time)
	for _, reading := range result.Readings {
		s.readings++
		s.reading(reading, r.Time)
	}
}

// reading counts a reading of a record that was written at a time.
func (s *topicSample) reading(r telemetry.Reading, at int64) {
	name := r.Tenant + "/" + r.Device
	d := s.devices[name]
	if d == nil {
		d = &device{tenant: strings.Clone(r.Tenant)}
		s.devices[name] = d
		if len(s.kept) < encodedDevices {
			s.kept[name] = []telemetry.Reading{}
		}
	}
	for _, f := range r.Fields {
		d.see(f.Metric, f.Value)
	}
	if at > 0 && at >= telemetry.DayOf(r.Time).End()+lateAfter.Milliseconds() {
		d.late++
		d.history = append(d.history, r.Time)
	} else {
		d.times = append(d.times, r.Time)
	}
	if kept := s.kept[name]; kept != nil && len(kept) < encodedReadings {
		r.Fields = slices.Clone(r.Fields)
		s.kept[name] = append(kept, r)
	}
}

func (s *topicSample) result(topic string) Result {
	var devices []*device
	for _, name := range slices.Sorted(maps.Keys(s.devices)) {
		d := s.devices[name]
		kept := s.kept[name]
		slices.SortStableFunc(kept, func(a, b telemetry.Reading) int { return int(a.Time - b.Time) })
		d.bytes, d.values = planner.BytesPerValue(kept)
		devices = append(devices, d)
	}
	span := time.Duration(s.newer-s.oldest) * time.Millisecond
	of := fmt.Sprintf("%d records", s.records)
	var r Result
	r.Workload = planner.Workload{Name: topic, Tenants: tenants(devices, of),
		Fleets: fleets(devices, basis{of, span})}
	r.note("Measured of %d records of topic %s with %d readings, written within %s.", s.records, topic, s.readings,
		duration.String(span.Round(time.Second)))
	r.note("Devices that report less often than that may be missing.")
	if s.refused > 0 {
		r.note("%d records hold no reading that can be decoded; see the flags for messages.", s.refused)
	}
	return r
}

// Result is a measured workload.
type Result struct {
	Workload planner.Workload
	// Notes are sentences about the sample.
	Notes []string
}

// YAML returns the workload with the notes as comments, as planner.Parse reads it.
func (r *Result) YAML() ([]byte, error) {
	var out bytes.Buffer
	for _, note := range r.Notes {
		fmt.Fprintf(&out, "# %s\n", note)
	}
	text, err := r.Workload.YAML()
	return append(out.Bytes(), text...), err
}

func (r *Result) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}
