package main_test

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// message is a reading as a device publishes it.
func message(tenant string, r row, values map[string]any) kafka.Message {
	m := map[string]any{"tenant": tenant, "device": r.device, "ts": r.ts}
	if r.labels != "" {
		m["labels"] = json.RawMessage(r.labels)
	}
	wire := map[string]any{}
	for name, v := range values {
		if f, ok := v.(float64); ok {
			v = number(f)
		}
		wire[name] = v
	}
	m["values"] = wire
	body, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return kafka.Message{Key: []byte(tenant + "/" + r.device), Value: body}
}

// number is a float64 as the message format has it: with an exponent, because encoding/json writes large ones as
// integers that no float64 holds.
func number(f float64) json.RawMessage {
	switch {
	case math.IsNaN(f):
		return json.RawMessage(`{"float":"NaN"}`)
	case math.IsInf(f, 1):
		return json.RawMessage(`{"float":"+Inf"}`)
	case math.IsInf(f, -1):
		return json.RawMessage(`{"float":"-Inf"}`)
	}
	return strconv.AppendFloat(nil, f, 'e', -1, 64)
}

// writer publishes to a broker as the message format says. A batch is one request for each partition, so that the
// messages of a device stay in their order.
func writer(addr, topic string) *kafka.Writer {
	return &kafka.Writer{
		Addr: kafka.TCP(addr), Topic: topic, Balancer: kafka.Murmur2Balancer{}, RequiredAcks: kafka.RequireAll,
		BatchTimeout: time.Millisecond, BatchSize: 2_000, BatchBytes: 1 << 24, MaxAttempts: 1, // it allocates whole batches
	}
}

// publish sends messages and returns when all are acknowledged.
func (d *dev) publish(messages ...kafka.Message) {
	d.t.Helper()
	w := writer(d.kafka, "telemetry")
	require.NoError(d.t, w.WriteMessages(context.Background(), messages...))
	require.NoError(d.t, w.Close())
}

// publishTable sends a table of a tenant.
func (d *dev) publishTable(tenant string, all table) {
	d.t.Helper()
	var messages []kafka.Message
	for r, values := range all {
		messages = append(messages, message(tenant, r, values))
	}
	d.publish(messages...)
}

// deadLetters reads all dead letters that are there now.
func (d *dev) deadLetters() []kafka.Message { return d.records("telemetry.dlq") }

// records reads all of a topic that is there now.
func (d *dev) records(topic string) (all []kafka.Message) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, partition := range partitions(d.t, d.kafka, topic) {
		leader, err := kafka.DialLeader(ctx, "tcp", d.kafka, topic, partition)
		require.NoError(d.t, err)
		end, err := leader.ReadLastOffset()
		require.NoError(d.t, err)
		require.NoError(d.t, leader.Close())
		if end == 0 {
			continue
		}
		r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{d.kafka}, Topic: topic, Partition: partition,
			MaxWait: 100 * time.Millisecond})
		for next := int64(0); next < end; {
			m, err := r.ReadMessage(ctx)
			require.NoError(d.t, err)
			all, next = append(all, m), m.Offset+1
		}
		require.NoError(d.t, r.Close())
	}
	return all
}

func partitions(t *testing.T, addr, topic string) (ids []int) {
	conn, err := kafka.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	found, err := conn.ReadPartitions(topic)
	require.NoError(t, err)
	for _, p := range found {
		ids = append(ids, p.ID)
	}
	return ids
}

// header is the value of a message's header, "" without.
func header(m kafka.Message, name string) string {
	for _, h := range m.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}
