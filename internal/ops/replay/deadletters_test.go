package replay_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/ingest/write"
	"binnacle/internal/control"
	"binnacle/internal/kafka"
	"binnacle/internal/lab/broker"
	"binnacle/internal/ops/replay"
	"binnacle/internal/stream/deadletter"

	"github.com/stretchr/testify/require"
)

// deadLetterRig is a broker with a topic and its dead letters, two partitions each.
type deadLetterRig struct {
	t      *testing.T
	client *kafka.Client
	cfg    replay.Config
}

func newDeadLetterRig(t *testing.T) *deadLetterRig {
	t.Helper()
	b, err := broker.Open(broker.Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0", Partitions: 2,
		Topics: []string{"telemetry", "telemetry.dlq"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	at := kafka.Config{Brokers: []string{b.Addr()}}
	client, err := kafka.New(at)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return &deadLetterRig{t, client, replay.Config{Kafka: at, Topic: "telemetry",
		DeadLetters: replay.DeadLetters{FromDLQ: true}}}
}

// publishDeadLetters writes dead letters as an ingester does.
func (o *deadLetterRig) publishDeadLetters(letters ...write.DeadLetter) {
	o.t.Helper()
	for i := range letters {
		if letters[i].Topic == "" {
			letters[i].Topic = "telemetry"
		}
	}
	require.NoError(o.t, ingest.NewTopicDeadLetterWriter(o.client.Topic("telemetry.dlq")).Publish(o.t.Context(), letters))
}

// publishRecord appends a record to a partition of the topic, and returns it as a worker has it.
func (o *deadLetterRig) publishRecord(partition int, m kafka.Message) admit.Record {
	o.t.Helper()
	topic := o.client.Topic("telemetry")
	_, err := topic.Produce(o.t.Context(), partition, []kafka.Message{m})
	require.NoError(o.t, err)
	all := o.records("telemetry", partition)
	last := all[len(all)-1]
	r := admit.Record{Offset: last.Offset, Time: last.Time, Key: last.Key, Value: last.Value}
	for _, h := range last.Headers {
		r.Headers = append(r.Headers, admit.Header(h))
	}
	return r
}

func (o *deadLetterRig) records(topic string, partition int) (all []kafka.Record) {
	o.t.Helper()
	of := o.client.Topic(topic)
	first, end, err := of.Bounds(o.t.Context(), partition)
	require.NoError(o.t, err)
	span := kafka.Span{Partition: partition, From: first, To: end}
	require.NoError(o.t, of.Each(o.t.Context(), span, func(r *kafka.Record) error {
		all = append(all, *r)
		return nil
	}, nil))
	return all
}

// copies are the records that were published for dead letters, by the dead letter.
func (o *deadLetterRig) copies() map[string][]kafka.Record {
	all := map[string][]kafka.Record{}
	for p := range 2 {
		for _, r := range o.records("telemetry", p) {
			for _, h := range r.Headers {
				if h.Key == deadletter.HeaderReplayOf {
					id, _, _ := strings.Cut(string(h.Value), " ")
					all[id] = append(all[id], r)
				}
			}
		}
	}
	return all
}

// at is a record that was refused in partition 1.
func at(offset int64, value string, headers ...admit.Header) admit.Record {
	return admit.Record{Offset: offset, Time: 1795183200000 + offset, Key: []byte("acme/m1"), Value: []byte(value),
		Headers: headers}
}

func bad(index int, reason decode.Reason) decode.Bad { return decode.Bad{Index: index, Reason: reason} }

const whole = decode.Whole

// Each dead letter is published, as it was where that is what was refused, else what of it was refused; the others
// stay, and it is said why. Another replay has nothing left to do.
func TestDeadLettersAreRepublished(t *testing.T) {
	o := newDeadLetterRig(t)
	one := `{"tenant":"acme","device":"m1","ts":1,"values":{"v":1}}`
	two := `{"tenant":"acme","device":"m2","ts":2,"values":{"v":2}}`
	array := "[" + one + "," + two + "]"
	kept := admit.Header{Key: "content-type", Value: []byte("application/json; charset=utf-8")}
	there := o.publishRecord(1, kafka.Message{Key: []byte("acme/m1"), Value: []byte(array)})
	timeless := admit.Header{Key: "content-type", Value: []byte("text/plain; format=influx")}
	nowhen := at(30, "m,device=m1 v=3", timeless)
	nowhen.Time = -1
	bare := write.DeadLetter{Partition: 1, Record: there, Bad: bad(1, decode.Past), Bare: true}
	gone := write.DeadLetter{Partition: 1, Record: at(900, "x"), Bad: bad(0, decode.Past), Bare: true}
	stretch := write.DeadLetter{Partition: 1, Record: admit.Record{Offset: 50, Time: -1},
		Bad: bad(whole, decode.Unreadable), Bare: true, Unreadable: &admit.Unreadable{First: 50, Through: 60}}
	entire := write.DeadLetter{Partition: 1, Record: at(10, one, kept), Bad: bad(0, decode.UnknownTenant)}
	unstored := func(value string) write.DeadLetter {
		r := admit.Record{Offset: 70, Time: -1, Key: []byte("acme/m1"), Value: []byte("[" + value + "]")}
		return write.DeadLetter{Record: r, Bad: bad(whole, decode.Unstorable)}
	}
	o.publishDeadLetters(entire, entire,
		write.DeadLetter{Partition: 1, Record: at(11, array, kept), Bad: bad(1, decode.Future)},
		write.DeadLetter{Partition: 0, Record: at(12, "{", kept), Bad: bad(whole, decode.Undecodable)},
		write.DeadLetter{Partition: 1, Record: at(13, "m,device=m1 v=3", timeless), Bad: bad(0, decode.Limit)},
		write.DeadLetter{Partition: 1, Record: nowhen, Bad: bad(0, decode.Limit)},
		write.DeadLetter{Partition: 1, Record: at(31, array), Bad: bad(0, decode.Limit)},
		write.DeadLetter{Partition: 0, Record: at(32, one), Bad: bad(0, decode.Limit)}, // another worker's, between
		write.DeadLetter{Partition: 1, Record: at(31, array), Bad: bad(whole, decode.Limit)},
		bare, gone, stretch, unstored(one), unstored(two),
		write.DeadLetter{Topic: "other", Record: at(14, one), Bad: bad(0, decode.Past)},
	)
	o.cfg.Messages.DeviceTag, o.cfg.Messages.Tenant = "device", "acme"
	dry := o.cfg
	dry.DeadLetters.DryRun = true
	planned, err := replay.RunDeadLetters(t.Context(), dry)
	require.NoError(t, err)
	require.Empty(t, o.copies())

	s, err := replay.RunDeadLetters(t.Context(), o.cfg)
	require.EqualError(t, err, "5 of 13 dead letters are not published")
	require.Equal(t, planned.ByReason, s.ByReason)
	require.Equal(t, 13, s.Selected)
	require.Equal(t, 1, s.Repeats)
	require.Equal(t, map[string]int{
		"they stand for stretches of the log that can't be read":                        1,
		"they stand for elements that they don't name":                                  1,
		"their payload is not all there, and the log does not have the record any more": 1,
		"their time is their record's, which neither they nor the log tell any more":    1,
		"they would be refused again: undecodable":                                      1,
	}, s.Skipped)
	copies := o.copies()
	require.Len(t, copies, 8)
	published := func(id, value string, headers ...admit.Header) {
		t.Helper()
		require.Len(t, copies[id], 1, id)
		r := copies[id][0]
		require.Equal(t, value, string(r.Value), id)
		require.Len(t, r.Headers, len(headers)+1)
		for i, h := range headers {
			require.Equal(t, kafka.Header(h), r.Headers[i])
		}
	}
	made := admit.Header{Key: "content-type", Value: []byte("application/json")}
	published("1/10/0@1795183200010", one, kept)
	published("1/11/1@1795183200011", two, made)
	published("1/13/0@1795183200013", `{"tenant":"acme","device":"m1","ts":1795183200013,"values":{"m_v":3}}`, made)
	published("1/31/0@1795183200031", one, made)
	published(fmt.Sprintf("1/%d/1@%d", there.Offset, there.Time), two, made)
	require.Equal(t, []byte("acme/m1"), copies["1/10/0@1795183200010"][0].Key)
	require.Len(t, o.records("telemetry", 1), 6, "where they stood")
	require.Len(t, o.records("telemetry", 0), 3, "those of no device's partition")

	var text strings.Builder
	require.NoError(t, s.Print(&text))
	require.Contains(t, text.String(), "telemetry.dlq to telemetry: dead letters 13, repeats 1\n")
	require.Regexp(t, `(?m)^  reason +before  published  left$`, text.String())
	require.Regexp(t, `(?m)^  limit +0 +3 +2$`, text.String())
	require.Regexp(t, `(?m)^  all +0 +8 +5$`, text.String())

	s, err = replay.RunDeadLetters(t.Context(), o.cfg)
	require.EqualError(t, err, "5 of 13 dead letters are not published")
	require.Equal(t, &replay.DeadLetterCounts{Before: 3, Skipped: 2}, s.ByReason[decode.Limit])
	require.Equal(t, copies, o.copies())
}

// What a record's own headers say of dead letters does not count: a producer can't have those of others left
// out, nor its own taken for something that is never published, nor stop the replay.
func TestDeadLetterWithReceiptHeaders(t *testing.T) {
	for name, forged := range map[string]string{
		"of another letter": `{"run":"x","letters":["1/10/0@1795183200010"]}`, "none": "x",
	} {
		for _, kind := range []string{"done", "claim", "release"} {
			o := newDeadLetterRig(t)
			o.publishDeadLetters(
				write.DeadLetter{Partition: 1, Bad: bad(0, decode.UnknownTenant),
					Record: at(10, `{"tenant":"acme","device":"m1","ts":1,"values":{"v":1}}`)},
				write.DeadLetter{Partition: 1, Record: at(11, forged,
					admit.Header{Key: "binnacle-receipt", Value: []byte(kind)}), Bad: bad(whole, decode.Undecodable)},
				write.DeadLetter{Partition: 1, Record: at(12, `{"tenant":"acme","device":"m1","ts":2,"values":{"v":1}}`,
					admit.Header{Key: "binnacle-through", Value: []byte("999")}), Bad: bad(0, decode.UnknownTenant)},
			)
			s, err := replay.RunDeadLetters(t.Context(), o.cfg)
			require.EqualError(t, err, "1 of 3 dead letters are not published", "%s, %s", name, kind)
			require.Equal(t, &replay.DeadLetterCounts{Published: 2}, s.ByReason[decode.UnknownTenant], "%s, %s", name, kind)
			require.Len(t, o.copies(), 2)
		}
	}
}

// A copy that is refused again is a dead letter of its own, and may be published again.
func TestCopyRefusedAgain(t *testing.T) {
	o := newDeadLetterRig(t)
	o.publishDeadLetters(write.DeadLetter{Partition: 1, Record: at(10, `{"tenant":"acme","device":"m1","ts":1,"values":{"v":1}}`),
		Bad: bad(0, decode.UnknownTenant)})
	_, err := replay.RunDeadLetters(t.Context(), o.cfg)
	require.NoError(t, err)
	again := o.records("telemetry", 1)[0]
	r := admit.Record{Offset: again.Offset, Time: again.Time, Key: again.Key, Value: again.Value}
	for _, h := range again.Headers {
		r.Headers = append(r.Headers, admit.Header(h))
	}
	o.publishDeadLetters(write.DeadLetter{Partition: 1, Record: r, Bad: bad(0, decode.UnknownTenant)})
	s, err := replay.RunDeadLetters(t.Context(), o.cfg)
	require.NoError(t, err)
	require.Equal(t, &replay.DeadLetterCounts{Before: 1, Published: 1}, s.ByReason[decode.UnknownTenant])
	require.Len(t, o.copies(), 2)
	require.Len(t, o.records("telemetry", 1)[1].Headers, 1, "only whose copy it is")
}

// What is set counts whatever a dead letter names, and its key follows. A backfill's grant covers what is published.
func TestDeadLettersAreRepaired(t *testing.T) {
	o := newDeadLetterRig(t)
	refused := func(offset int64, value string, index int, reason decode.Reason) {
		o.publishDeadLetters(write.DeadLetter{Partition: 1, Record: at(offset, value), Bad: bad(index, reason)})
	}
	refused(10, `{"tenant":"ACME!","device":"m1","ts":1763640001000,"values":{"v":1}}`, 0, decode.Tenant)
	refused(11, `[{"device":"m2","ts":1763640003000,"values":{"v":1}},{"device":"m3","ts":1763640002000,"values":{"v":1}}]`, 1, decode.Tenant)
	refused(12, `{"device":"m1","ts":1,"values":{}}`, 0, decode.Tenant)
	refused(13, `{"tenant":"b","device":"m1","ts":1,"values":{"v":1}}`, 0, decode.Past)
	o.cfg.DeadLetters.Set, o.cfg.DeadLetters.Reasons = []string{"tenant=globex"}, []string{"tenant"}
	var granted []string
	o.cfg.Grant = func(_ context.Context, w control.BackfillWork) (string, error) {
		tenant, r := w.Tenant, w.Range
		granted = append(granted, fmt.Sprintf("%s %d to %d", tenant, r.From, r.To))
		return "leave", nil
	}
	s, err := replay.RunDeadLetters(t.Context(), o.cfg)
	require.EqualError(t, err, "1 of 3 dead letters are not published")
	require.Equal(t, map[string]int{"they would be refused again: empty": 1}, s.Skipped)
	require.Equal(t, []string{"globex 1763640001000 to 1763640002001"}, granted)
	copies := o.copies()
	require.Len(t, copies, 2)
	first, second := copies["1/10/0@1795183200010"][0], copies["1/11/1@1795183200011"][0]
	require.Equal(t, `{"tenant":"globex","device":"m1","ts":1763640001000,"values":{"v":1}}`, string(first.Value))
	require.Equal(t, "globex/m1", string(first.Key))
	require.Equal(t, `{"tenant":"globex","device":"m3","ts":1763640002000,"values":{"v":1}}`, string(second.Value))
	require.Equal(t, "binnacle-backfill", second.Headers[1].Key)
	for p := range 2 {
		for _, r := range o.records("telemetry", p) {
			require.Equal(t, kafka.PartitionOf(r.Key, []int{0, 1}), p)
		}
	}
}

func TestDeadLetterSelection(t *testing.T) {
	o := newDeadLetterRig(t)
	o.publishDeadLetters(write.DeadLetter{Record: at(1, `{"tenant":"acme","device":"m1","ts":1,"values":{"v":1}}`),
		Bad: bad(0, decode.Past)})
	refused := time.UnixMilli(o.records("telemetry.dlq", kafka.PartitionOf([]byte("acme/m1"), []int{0, 1}))[0].Time)
	for since, n := range map[string]int{
		refused.Add(time.Second).UTC().Format(time.RFC3339): 0, refused.UTC().Format(time.RFC3339): 1, "1h": 1, "0s": 0,
	} {
		cfg := o.cfg
		cfg.DeadLetters.DryRun, cfg.DeadLetters.Since = true, since
		cfg.Now = func() time.Time { return refused.Add(time.Minute) }
		s, err := replay.RunDeadLetters(t.Context(), cfg)
		require.NoError(t, err)
		require.Equal(t, n, s.Selected, since)
	}
	for _, c := range []struct {
		change func(c *replay.Config)
		want   string
	}{
		{func(c *replay.Config) { c.File = "x.csv" }, "--from-dlq reads no file"},
		{func(c *replay.Config) { c.DeadLetters.Reasons = []string{"sloth"} }, "--reason \"sloth\""},
		{func(c *replay.Config) { c.DeadLetters.Since = "yesterday" }, "--since \"yesterday\""},
		{func(c *replay.Config) { c.DeadLetters.Set = []string{"tenant=A"} }, "--set tenant=A"},
		{func(c *replay.Config) { c.DeadLetters.Set = []string{"colour=red"} }, "can be set"},
		{func(c *replay.Config) { c.DeadLetters.DeadLetters = "nowhere" }, "nowhere"},
		{func(c *replay.Config) { c.Topic = "" }, "--topic"},
	} {
		cfg := o.cfg
		c.change(&cfg)
		_, err := replay.RunDeadLetters(t.Context(), cfg)
		require.ErrorContains(t, err, c.want)
	}
	_, err := replay.Run(t.Context(), replay.Config{File: "x.csv", Tenant: "acme", Topic: "t", Kafka: o.cfg.Kafka,
		DeadLetters: replay.DeadLetters{DryRun: true}})
	require.ErrorContains(t, err, "need --from-dlq")
}

// many buries dead letters of several devices, in both partitions.
func (o *deadLetterRig) many(n int) {
	var letters []write.DeadLetter
	for i := range n {
		r := at(int64(i), fmt.Sprintf(`{"tenant":"acme","device":"m%d","ts":%d,"values":{"v":1}}`, i%5, i))
		r.Key = fmt.Appendf(nil, "acme/m%d", i%5)
		letters = append(letters, write.DeadLetter{Partition: int32(i % 2), Record: r,
			Bad: bad(0, decode.UnknownTenant)})
	}
	o.publishDeadLetters(letters...)
}

var errFault = errors.New("the connection broke")

// Each request fails in turn, applied or not, and the replay goes on, or dies there and another one begins: each dead
// letter is published, and once it is written down that it is, no replay publishes it again.
func TestDeadLetterReplayFailsAtEveryStep(t *testing.T) {
	const n = 12
	for _, applied := range []bool{false, true} {
		for _, dies := range []bool{false, true} {
			for at, reached := 1, true; reached; at++ {
				o := newDeadLetterRig(t)
				o.many(n)
				ctx, cancel := context.WithCancel(t.Context())
				calls := 0
				_, err := replay.RunLettersWith(ctx, o.cfg, func(ctx context.Context, topic *kafka.Topic, p int,
					m []kafka.Message) (int, error) {
					if calls++; calls != at {
						return topic.Produce(ctx, p, m)
					}
					if applied {
						_, err := o.client.Topic(topic.Name()).Produce(t.Context(), p, m)
						require.NoError(t, err)
					}
					if dies {
						cancel()
					}
					return 0, errFault
				})
				cancel()
				what := fmt.Sprintf("request %d, applied %v, dies %v", at, applied, dies)
				if reached = calls >= at; dies && reached {
					require.Error(t, err, what)
					_, err = replay.RunDeadLetters(t.Context(), o.cfg)
				}
				require.NoError(t, err, what)
				copies := o.copies()
				require.Len(t, copies, n, what)
				for id, all := range copies {
					require.LessOrEqual(t, len(all), 2, "%s: %s", what, id)
				}
				s, err := replay.RunDeadLetters(t.Context(), o.cfg)
				require.NoError(t, err)
				require.Equal(t, &replay.DeadLetterCounts{Before: n}, s.ByReason[decode.UnknownTenant])
				require.Equal(t, copies, o.copies(), what)
			}
		}
	}
}

// What an earlier release has recorded counts: done is done, and what was only claimed is published.
func TestReceiptsOfAnEarlierRelease(t *testing.T) {
	o := newDeadLetterRig(t)
	o.many(4)
	for kind, letters := range map[string]string{"claim": `"1/1/0@1795183200001"`, "done": `"0/2/0@1795183200002"`} {
		_, err := o.client.Topic("telemetry.dlq").Produce(t.Context(), 0, []kafka.Message{{
			Value: []byte(`{"run":"x","letters":[` + letters + `],"ends":{"0":0},"secret":"s"}`),
			Headers: []kafka.Header{{Key: "binnacle-receipt", Value: []byte(kind)},
				{Key: deadletter.HeaderTopic, Value: []byte("telemetry")}}}})
		require.NoError(t, err)
	}
	s, err := replay.RunDeadLetters(t.Context(), o.cfg)
	require.NoError(t, err)
	require.Equal(t, &replay.DeadLetterCounts{Before: 1, Published: 3}, s.ByReason[decode.UnknownTenant])
}
