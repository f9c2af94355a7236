package ingest_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/write"
	"binnacle/internal/kafka"
	"binnacle/internal/store"
	"binnacle/internal/stream/topics"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// several has a process read some topics, and not wait long before one is taken for deleted.
func several(topics ...string) func(c *ingest.Config, s *ingest.Stores) {
	return func(c *ingest.Config, _ *ingest.Stores) { c.Topics, c.GoneAfter = topics, 200*time.Millisecond }
}

// make makes a topic and its journal.
func (r *rig) make(name string, partitions int) {
	r.t.Helper()
	for _, topic := range []string{kafka.JournalOf(name), name} {
		made, err := r.client().CreateTopics(context.Background(), &kafkago.CreateTopicsRequest{
			Topics: []kafkago.TopicConfig{{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}}})
		require.NoError(r.t, err)
		require.NoError(r.t, made.Errors[topic])
	}
}

func (r *rig) delete(name string) {
	gone, err := r.client().DeleteTopics(context.Background(), &kafkago.DeleteTopicsRequest{Topics: []string{name}})
	require.NoError(r.t, err)
	require.NoError(r.t, gone.Errors[name])
}

// publishTo puts messages into a partition of a topic.
func (r *rig) publishTo(topic string, partition int, messages ...kafkago.Message) {
	r.t.Helper()
	own := make([]kafka.Message, len(messages))
	for i, m := range messages {
		own[i] = kafka.Message{Time: m.Time, Key: m.Key, Value: m.Value}
	}
	require.Eventually(r.t, func() bool { // the client may not know the topic yet
		done, err := r.cluster.Topic(topic).Produce(context.Background(), partition, own)
		own = own[done:]
		return err == nil
	}, patience, 10*time.Millisecond)
}

// stored waits until the store has what was published.
func (r *rig) stored() {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return maps.Equal(r.want, r.Stored()) }, patience, 50*time.Millisecond)
	r.whole()
}

// places is which partitions a process has, as topic/partition.
func places(in *ingest.Ingester) (all []string) {
	heads, err := in.Heads(context.Background(), store.HeadRequest{Tenant: "acme"})
	if err != nil {
		return nil
	}
	for _, h := range heads {
		all = append(all, fmt.Sprintf("%s/%d", h.Topic, h.Partition))
	}
	slices.Sort(all)
	return all
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	require.Eventually(t, is, patience, 5*time.Millisecond, what)
}

// Each way to share out reads several topics, in one group: those that fit a pattern are found while it runs, those
// that are deleted are written at once, topics grow, and no other topic's readings are lost or doubled.
func TestTopicsAreAddedAndDeleted(t *testing.T) {
	for name, assign := range map[string]string{"group": "", "assigned": "0/1"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 2)
			r.make("line-a", 1)
			var later atomic.Int64
			in := r.ingester(func(c *ingest.Config, s *ingest.Stores) {
				several(topic, "/line-.*/")(c, s)
				c.Assign, c.Hold = assign, time.Hour
				c.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
			})
			r.run(in)
			eventually(t, "all that there are", func() bool {
				return slices.Equal([]string{"line-a/0", "telemetry/0", "telemetry/1"}, places(in)) && in.CaughtUp()
			})
			r.make("line-b", 2)
			eventually(t, "one that is made is found, and its journal is none", func() bool {
				return slices.Equal([]string{"line-a/0", "line-b/0", "line-b/1", "telemetry/0", "telemetry/1"}, places(in))
			})
			grown, err := r.client().CreatePartitions(t.Context(), &kafkago.CreatePartitionsRequest{
				Topics: []kafkago.TopicPartitionsConfig{{Name: "line-a", Count: 2}}})
			require.NoError(t, err)
			require.NoError(t, grown.Errors["line-a"])
			eventually(t, "one that grows", func() bool { return slices.Contains(places(in), "line-a/1") })
			for i := range 40 {
				r.publishTo(topic, i%2, r.message(fmt.Sprint("t", i%4), past+int64(i), float64(i)))
				r.publishTo("line-a", i%2, r.message(fmt.Sprint("a", i%4), past+int64(i), float64(i)))
				r.publishTo("line-b", i%2, r.message(fmt.Sprint("b", i%4), past+int64(i), float64(i)))
			}
			eventually(t, "all are read", func() bool {
				_, reached := held(t, in)
				return reached == 120
			})
			r.delete("line-a")
			eventually(t, "what was read of a topic that is deleted is written", func() bool {
				stored := r.Stored()
				for series := range r.want {
					if _, ok := stored[series]; strings.HasPrefix(series.Device, "a") && !ok {
						return false
					}
				}
				return slices.Equal([]string{"line-b/0", "line-b/1", "telemetry/0", "telemetry/1"}, places(in))
			})
			later.Store(int64(2 * time.Hour))
			r.stored()
		})
	}
}

// Of processes in one group each has its share of each topic and of all, and none is lost or doubled while processes
// and topics come and go.
func TestSeveralProcessesAndTopics(t *testing.T) {
	r := newRig(t, 3)
	r.make("line-a", 2)
	r.make("line-b", 1)
	var all []*ingest.Ingester
	var stops []func()
	begin := func() {
		in := r.ingester(several(topic, "/line-.*/"))
		all, stops = append(all, in), append(stops, r.run(in))
	}
	shared := func(want int) {
		t.Helper()
		eventually(t, "all are shared out", func() bool {
			given := map[string]bool{}
			for _, in := range all {
				own := places(in)
				if len(own) < want/len(all) || len(own) > (want-1)/len(all)+1 {
					return false
				}
				for _, p := range own {
					given[p] = true
				}
			}
			return len(given) == want
		})
	}
	n := int64(0)
	flow := func(topics ...string) {
		for range 20 {
			for _, topic := range topics {
				n++
				r.publishTo(topic, 0, r.message(topic+"-d", past+n, float64(n)))
			}
		}
	}
	begin()
	flow(topic, "line-a", "line-b")
	begin()
	shared(6)
	flow(topic, "line-a", "line-b")
	begin()
	shared(6)
	r.make("line-c", 3)
	shared(9)
	flow(topic, "line-a", "line-b", "line-c")
	stops[0]()
	all, stops = all[1:], stops[1:]
	shared(9)
	flow(topic, "line-a", "line-b", "line-c")
	r.stored()
	r.delete("line-b")
	shared(8)
	flow(topic, "line-a", "line-c")
	r.stored()
}

// A topic that is named and is not there holds up no other, and is read when it is made; a pattern that nothing fits is
// no reason to end.
func TestMissingTopicDoesNotStopOthers(t *testing.T) {
	r := newRig(t, 1)
	in := r.ingester(several(topic, "late", "/none.*/"))
	r.run(in)
	r.publish(0, r.message("d", past, 1))
	r.stored()
	r.make("late", 1)
	r.publishTo("late", 0, r.message("e", past, 2))
	r.stored()
}

// A topic that is bound to a tenant: its records are the tenant's, whether they say so or not, and those that name
// another go to the dead letters.
func TestTopicBoundToATenant(t *testing.T) {
	r := newRig(t, 1)
	r.make("line-acme", 1)
	letters := make(chan write.DeadLetter, 10)
	in := r.ingester(func(c *ingest.Config, s *ingest.Stores) {
		several(topic, "/line-(.+)/=$1")(c, s)
		s.DeadLetters = buried(letters)
	})
	r.run(in)
	named := r.message("d", past, 1)
	nameless := r.message("d", past+1, 2)
	nameless.Value = fmt.Appendf(nil, `{"device":"d","ts":%d,"values":{"a":2}}`, past+1)
	others := kafkago.Message{Time: time.UnixMilli(past),
		Value: fmt.Appendf(nil, `{"tenant":"globex","device":"d","ts":%d,"values":{"a":3}}`, past+2)}
	r.publishTo("line-acme", 0, named, nameless, others)
	r.publishTo(topic, 0, r.message("e", past, 1), kafkago.Message{Time: time.UnixMilli(past),
		Value: fmt.Appendf(nil, `{"device":"e","ts":%d,"values":{"a":4}}`, past+3)})
	r.stored()
	got := map[string]string{}
	for range 2 {
		l := <-letters
		got[l.Topic] = fmt.Sprint(l.Record.Offset, " ", l.Bad.Reason, " ", l.Bad.Detail)
	}
	require.Equal(t, map[string]string{
		"line-acme": `2 other-tenant the message names the tenant "globex", but the topic belongs to "acme"`,
		topic:       "1 tenant the message has no tenant",
	}, got)
}

// buried is an ingest.DeadLetterWriter that keeps the dead letters.
type buried chan write.DeadLetter

// Publish is ingest.DeadLetterWriter.
func (b buried) Publish(_ context.Context, letters []write.DeadLetter) error {
	for _, l := range letters {
		b <- l
	}
	return nil
}

// Of several topics each member has as many partitions of each as others, and of all, or one more; nothing moves while
// nobody comes or goes, and whatever they say, each partition is given once.
func TestStickyWithSeveralTopics(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		topics := map[string][]int{}
		var all []kafkago.Partition
		for i := range 1 + rnd.IntN(6) {
			name := fmt.Sprint("topic-", i)
			for p := range 1 + rnd.IntN(7) {
				topics[name] = append(topics[name], p)
				all = append(all, kafkago.Partition{Topic: name, ID: p})
			}
		}
		names := slices.Sorted(maps.Keys(topics))
		has := map[string]map[string][]int{}
		share := func(generation int32, ids []string, told []kafkago.Partition) {
			var members []kafkago.GroupMember
			for _, id := range ids {
				data, err := ingest.NewSticky(generation, has[id], nil).UserData()
				require.NoError(t, err)
				members = append(members, kafkago.GroupMember{ID: id, Topics: names, UserData: data})
			}
			given, counts := map[string]bool{}, map[string]int{}
			has = ingest.NewSticky(0, nil, topics).AssignGroups(members, told)
			for _, topic := range names {
				for _, id := range ids {
					n := len(has[id][topic])
					counts[id] += n
					require.True(t, n == len(topics[topic])/len(ids) || n == len(topics[topic])/len(ids)+1, "of one topic")
					for _, p := range has[id][topic] {
						require.False(t, given[fmt.Sprint(topic, p)])
						given[fmt.Sprint(topic, p)] = true
					}
				}
			}
			for _, id := range ids {
				require.True(t, counts[id] == len(all)/len(ids) || counts[id] == (len(all)-1)/len(ids)+1,
					"%d of %d among %d", counts[id], len(all), len(ids))
			}
			require.Len(t, given, len(all))
		}
		ids := []string{"a", "b", "c", "d", "e"}[:1+rnd.IntN(5)]
		share(1, ids, all)
		before := maps.Clone(has)
		rnd.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		share(2, ids, all)
		require.Equal(t, before, map[string]map[string][]int(has), "nobody came or went")
		share(3, ids, nil) // a topic is missing, and so the broker lists none
		require.Equal(t, before, map[string]map[string][]int(has))
		share(4, append(ids, "new"), all)
		share(5, ids, all)
	}
}

// Of several topics each begins at an ordinal of its own: together they give each partition to one process, and topics
// of one partition do not all lie with the first.
func TestAssignmentOfSeveralTopics(t *testing.T) {
	topics, want := map[string][]int{}, 0
	for i := range 60 {
		name := fmt.Sprint("line-", i)
		for p := range 1 + i%3 {
			topics[name] = append(topics[name], p)
			want++
		}
	}
	total := 0
	for ordinal := range 4 {
		own, err := ingest.AssignedOf(fmt.Sprintf("%d/4", ordinal), "any", topics, false)
		require.NoError(t, err)
		n := 0
		for topic, partitions := range own {
			n += len(partitions)
			require.LessOrEqual(t, len(partitions), (len(topics[topic])-1)/4+1)
		}
		require.InDelta(t, float64(want)/4, n, float64(want)/12)
		total += n
	}
	require.Equal(t, want, total, "each once")
}

// A backfill for which the store has no room fills its share of memory and waits; devices' readings are read and stored
// meanwhile. The topic of backfills is read as soon as it exists, and is no fault before.
func TestBackfillDelaysNoDevice(t *testing.T) {
	r := newRig(t, 1)
	const backfills = topic + topics.BackfillSuffix
	in := r.ingester(func(c *ingest.Config, s *ingest.Stores) {
		several(topic, backfills)(c, s)
		c.MemoryBytes = 256 << 10
	})
	r.run(in)
	r.publish(0, r.message("live", past, 0))
	r.stored()
	r.make(backfills, 1)
	const archived, live = 4000, 2000
	const september = past - 40*24*int64(time.Hour/time.Millisecond)
	var batch []kafkago.Message
	for i := range int64(archived) {
		batch = append(batch, r.message(fmt.Sprint("a", i%400), september+i, float64(i)))
	}
	for some := range slices.Chunk(batch, 100) {
		r.publishTo(backfills, 0, some...)
	}
	bins := func() ingest.Bins {
		b, err := in.Bins(t.Context(), ingest.BinsRequest{})
		require.NoError(t, err)
		return b
	}
	eventually(t, "the backfill has its share of memory, in bins that have no container", func() bool {
		return bins().Memory.Held > 64<<10
	})
	for i := range int64(live) {
		r.publish(0, r.message(fmt.Sprint("d", i%10), past+1+i, float64(i)))
	}
	require.Eventually(t, func() bool {
		n := 0
		for series := range r.Stored() {
			if series.Time >= past {
				n++
			}
		}
		return n == live+1
	}, patience, 200*time.Millisecond, "all that devices send is stored") // each look decodes all chunks
	reached := int64(0)
	for _, p := range bins().Partitions {
		if p.Topic == backfills {
			reached = p.Position
		}
	}
	require.Less(t, reached, int64(archived), "the backfill waits")
	require.Less(t, bins().Memory.Held, int64(160<<10))
	r.Chunks.CreateContainer("chunks-2024-09")
	r.stored()
}
