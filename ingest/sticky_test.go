package ingest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/ingest"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// grouped is a group of members that share out partitions; a member that is new has none.
type grouped struct {
	t          *testing.T
	partitions int
	generation int32
	has        map[string][]int
}

// share gives partitions to these members, checks that it is done evenly and that each partition has one, and returns
// how many have moved from one member to another that are both there.
func (g *grouped) share(ids ...string) (moved int) {
	var members []kafkago.GroupMember
	for _, id := range ids {
		data, err := ingest.NewSticky(g.generation, map[string][]int{topic: g.has[id]}, nil).UserData()
		require.NoError(g.t, err)
		members = append(members, kafkago.GroupMember{ID: id, Topics: []string{topic}, UserData: data})
	}
	return g.assign(members)
}

func (g *grouped) assign(members []kafkago.GroupMember) (moved int) {
	var all []kafkago.Partition
	for p := range g.partitions {
		all = append(all, kafkago.Partition{Topic: topic, ID: p})
	}
	shares := ingest.NewSticky(0, nil, nil).AssignGroups(members, all)
	before := map[int]string{}
	for _, m := range members {
		for _, p := range g.has[m.ID] {
			before[p] = m.ID
		}
	}
	g.has = map[string][]int{}
	given := map[int]bool{}
	for _, m := range members {
		share := shares[m.ID][topic]
		require.True(g.t, len(share) == g.partitions/len(members) || len(share) == (g.partitions-1)/len(members)+1,
			"%d of %d among %d", len(share), g.partitions, len(members))
		require.True(g.t, slices.IsSorted(share))
		for _, p := range share {
			require.False(g.t, given[p], "partition %d is given once", p)
			given[p] = true
			if had, ok := before[p]; ok && had != m.ID {
				moved++
			}
		}
		g.has[m.ID] = share
	}
	require.Len(g.t, given, g.partitions)
	g.generation++
	return moved
}

// What a member has stays with it while others come and go, as far as the shares are even.
func TestStickyKeepsPartitions(t *testing.T) {
	g := &grouped{t: t, partitions: 12}
	g.share("a", "b", "c")
	require.Zero(t, g.share("a", "b", "c"), "nobody came or went")
	require.Zero(t, g.share("c", "a"), "what b had is shared out")
	require.Equal(t, 4, g.share("d", "c", "a"), "a share goes to the new one, and no more")
	require.Zero(t, g.share("d", "a", "c", "e", "f", "g")-6, "and half of all to as many new ones")
	g.partitions = 13
	require.Zero(t, g.share("d", "a", "c", "e", "f", "g"), "a partition was added")
	g.share("a")
	require.Len(t, g.has["a"], 13)
}

// Whatever members say, each partition is given once and evenly, and no more of them move than have to.
func TestStickySharesEvenly(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		g := &grouped{t: t, partitions: 1 + rnd.IntN(30)}
		ids := []string{"a"}
		for n := range 12 {
			if len(ids) > 1 && rnd.IntN(2) == 0 {
				at := rnd.IntN(len(ids))
				ids = slices.Delete(ids, at, at+1)
			} else {
				ids = append(ids, fmt.Sprint(n))
			}
			rnd.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
			// More than its new share nobody keeps, and nothing else moves.
			least, need, extra := g.partitions/len(ids), 0, g.partitions%len(ids)
			for _, id := range ids {
				over := len(g.has[id]) - least
				if over > 0 && extra > 0 {
					over, extra = over-1, extra-1
				}
				need += max(0, over)
			}
			require.Equal(t, need, g.share(ids...))
		}
	}
}

// A member that has been away does not take back what others have by now, and what it says may be nothing anybody
// understands.
func TestStickyWithOldClaims(t *testing.T) {
	said := func(generation int32, partitions ...int) []byte {
		data, err := ingest.NewSticky(generation, map[string][]int{topic: partitions}, nil).UserData()
		require.NoError(t, err)
		return data
	}
	g := &grouped{t: t, partitions: 4}
	g.assign([]kafkago.GroupMember{
		{ID: "a", Topics: []string{topic}, UserData: said(3, 0, 1, 2, 3)},
		{ID: "b", Topics: []string{topic}, UserData: said(7, 1, 2)},
		{ID: "c", Topics: []string{"another"}, UserData: said(9, 0, 1, 2, 3)},
	}[:2])
	require.Equal(t, map[string][]int{"a": {0, 3}, "b": {1, 2}}, g.has)
	g.has = nil
	g.assign([]kafkago.GroupMember{
		{ID: "a", Topics: []string{topic}, UserData: []byte(`{"generation":"often"`)},
		{ID: "b", Topics: []string{topic}, UserData: said(7, 1, 1, -5, 99)},
		{ID: "c", Topics: []string{topic}},
	})
	require.Contains(t, g.has["b"], 1)
}

// A broker that does not know of all partitions yet is no reason why nobody reads the others.
func TestStickyWithStaleMetadata(t *testing.T) {
	s := ingest.NewSticky(0, nil, map[string][]int{topic: {0, 1, 2, 3}, "another": {0}})
	shares := s.AssignGroups([]kafkago.GroupMember{
		{ID: "a", Topics: []string{topic}}, {ID: "b", Topics: []string{topic, "another"}},
	}, []kafkago.Partition{{Topic: topic, ID: 1}, {Topic: topic, ID: 0}, {Topic: topic, ID: 4}})
	var all []int
	for _, share := range shares {
		all = append(all, share[topic]...)
	}
	require.ElementsMatch(t, []int{0, 1, 2, 3, 4}, all)
	require.Equal(t, []int{0}, shares["b"]["another"])
}

// A topic that grows between the sharing out and the begin of what follows from it is shared out again.
func TestStickyWithAGrowingTopic(t *testing.T) {
	r := newRig(t, 1)
	for known, ends := range map[int]bool{1: false, 2: false, 3: true} {
		in := r.ingester(nil)
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				ingest.OwnShared(ctx, in, topic, 2, known)
			}()
			synctest.Wait()
			ended := false
			select {
			case <-done:
				ended = true
			default:
			}
			cancel()
			<-done
			require.Equal(t, ends, ended, "%d partitions, of which 2 are shared out", known)
		})
	}
}

// A process of a release that does not share out this way is in one group with those that do.
func TestStickyWithAnotherBalancer(t *testing.T) {
	r := newRig(t, 4)
	in := r.ingester(longHold)
	r.run(in)
	protocol := func() string {
		groups, err := r.client().DescribeGroups(context.Background(), &kafkago.DescribeGroupsRequest{
			GroupIDs: []string{"binnacle"}})
		if err != nil || len(groups.Groups) != 1 {
			return ""
		}
		return fmt.Sprint(groups.Groups[0].GroupState, len(groups.Groups[0].Members))
	}
	require.Eventually(t, func() bool { return protocol() == "Stable1" }, patience, 5*time.Millisecond)
	old, err := kafkago.NewConsumerGroup(kafkago.ConsumerGroupConfig{
		ID: "binnacle", Brokers: []string{r.broker.Addr()}, Topics: []string{topic}, HeartbeatInterval: 50 * time.Millisecond,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	g, err := old.Next(ctx)
	require.NoError(t, err)
	require.Len(t, g.Assignments[topic], 2, "both know one way to share out")
	require.Eventually(t, func() bool { return protocol() == "Stable2" }, patience, 5*time.Millisecond)
	require.NoError(t, old.Close())
	require.Eventually(t, func() bool { return protocol() == "Stable1" }, patience, 5*time.Millisecond)
	for p := range 4 {
		r.publish(p, r.message("d", past+int64(p), 1))
	}
	reach(t, in, 4)
}

// A member says which topics it reads once they exist; what a member of an older release reads is not known.
func TestTopicsThatMembersRead(t *testing.T) {
	for data, reads := range map[string]bool{
		`{"generation":3,"reads":"telemetry,telemetry.backfill"}`: true,
		`{"generation":3,"reads":"/.*/=acme"}`:                    true,
		`{"generation":3,"reads":"telemetry"}`:                    false,
		`{"generation":3,"erasures":true}`:                        false,
		``:                                                        false,
	} {
		require.Equal(t, reads, ingest.Reads([]byte(data), "telemetry.backfill"), data)
	}
}
