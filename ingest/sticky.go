package ingest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"binnacle/internal/stream/topics"

	kafkago "github.com/segmentio/kafka-go"
)

// stickyBalancer assigns partitions evenly, per topic and in all, so that as few as possible change hands: a takeover
// has to load bins. Members send what they have, and since which generation, when they join. It does no I/O, and is
// safe for any number of callers. While a member does not know it, the group takes another balancer that all know.
type stickyBalancer struct {
	reads string // the topics of the process

	mu     sync.Mutex // guards below
	own    claim
	known  map[string][]int // partitions of topics
	shared map[string][]int // partitions that it has shared out since it joined last; nil: another member does
}

// claim is what a member says when it joins.
type claim struct {
	Generation int32            `json:"generation"`
	Topics     map[string][]int `json:"topics,omitempty"` // partitions by topic
	Erasures   bool             `json:"erasures"`         // it knows orders of erasure: older releases send nothing
	Reads      string           `json:"reads,omitempty"`  // its topics, as topics.Parse has them
	partitions []int            // partitions of the topic that is being shared out
}

func (s *stickyBalancer) setOwn(generation int32, places []topicPartition) {
	own := claim{Generation: generation, Topics: map[string][]int{}}
	for _, p := range places {
		own.Topics[p.topic] = append(own.Topics[p.topic], p.partition)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own = own
}

func (s *stickyBalancer) setTopics(topics map[string][]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = topics
}

// missed reports whether this process, as the leader, has left partitions unassigned: it joins before it knows that
// it leads, and topics may grow in between.
func (s *stickyBalancer) missed(topics map[string][]int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared == nil {
		return false
	}
	for topic, partitions := range topics {
		for _, p := range partitions {
			if _, ok := slices.BinarySearch(s.shared[topic], p); !ok {
				return true
			}
		}
	}
	return false
}

// ProtocolName implements kafka.GroupBalancer.
func (s *stickyBalancer) ProtocolName() string { return "binnacle-sticky" }

// UserData implements kafka.GroupBalancer: it returns what this member has.
func (s *stickyBalancer) UserData() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shared = nil
	own := s.own
	own.Erasures, own.Reads = true, s.reads
	return json.Marshal(own)
}

// AssignGroups implements kafka.GroupBalancer. A broker lists no partitions if one topic of some member is missing,
// and a broker that is behind lists too few: partitions known here are assigned too, or stay unread.
func (s *stickyBalancer) AssignGroups(members []kafkago.GroupMember,
	partitions []kafkago.Partition) kafkago.GroupMemberAssignments {
	topics := map[string][]int{}
	for _, p := range partitions {
		topics[p.Topic] = append(topics[p.Topic], p.ID)
	}
	s.mu.Lock()
	for topic, known := range s.known {
		topics[topic] = append(topics[topic], known...)
	}
	for topic, all := range topics {
		slices.Sort(all)
		topics[topic] = slices.Compact(all)
	}
	s.shared = topics
	s.mu.Unlock()
	out, has := kafkago.GroupMemberAssignments{}, map[string]int{}
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		claims := map[string]claim{}
		for _, m := range members {
			if slices.Contains(m.Topics, topic) {
				claims[m.ID] = claimOf(m.UserData, topic)
			}
		}
		for id, share := range shareOut(claims, topics[topic], has) {
			if out[id] == nil {
				out[id] = map[string][]int{}
			}
			out[id][topic] = share
			has[id] += len(share)
		}
	}
	return out
}

// KnowsErasures reports whether a member of the group keeps the rules of erasure, from what it joined with.
func KnowsErasures(data []byte) bool { return claimOf(data, "").Erasures }

// Reads reports whether a member of the group reads a topic once it exists, from what it joined with.
func Reads(data []byte, topic string) bool {
	set, err := topics.Parse([]string{claimOf(data, "").Reads}, "")
	if err != nil {
		return false // the member is of an older release
	}
	_, ok, err := set.Of(topic)
	return ok && err == nil
}

// claimOf returns what a member has sent of a topic. Data that is not understood claims nothing.
func claimOf(data []byte, topic string) (c claim) {
	if json.NewDecoder(bytes.NewReader(data)).Decode(&c) != nil {
		return claim{}
	}
	c.partitions = c.Topics[topic]
	return c
}

// shareOut returns each member as many partitions of a topic as the others, or one more, and as many of the member's
// own as that allows. If two claim the same one, the later generation has it: the other member has been away. Members
// with fewer partitions of other topics come first.
func shareOut(claims map[string]claim, partitions []int, given map[string]int) map[string][]int {
	ids := slices.Sorted(maps.Keys(claims))
	if len(ids) == 0 {
		return nil
	}
	owner := map[int]string{}
	for _, id := range ids {
		for _, p := range claims[id].partitions {
			if had, ok := owner[p]; !ok || claims[had].Generation < claims[id].Generation {
				owner[p] = id
			}
		}
	}
	left := slices.Sorted(slices.Values(partitions))
	has := map[string][]int{}
	for _, p := range left {
		if id, ok := owner[p]; ok {
			has[id] = append(has[id], p)
		}
	}
	// Those that were given the least may have one more, and of those the ones that have the most keep one more.
	slices.SortStableFunc(ids, func(a, b string) int {
		return cmp.Or(given[a]-given[b], len(has[b])-len(has[a]))
	})
	out, taken := map[string][]int{}, map[int]bool{}
	least, more := len(partitions)/len(ids), len(partitions)%len(ids)
	room := func(i int) int {
		if i < more {
			return least + 1
		}
		return least
	}
	for i, id := range ids {
		out[id] = slices.Clone(has[id][:min(len(has[id]), room(i))])
		for _, p := range out[id] {
			taken[p] = true
		}
	}
	left = slices.DeleteFunc(left, func(p int) bool { return taken[p] })
	for i, id := range ids {
		n := room(i) - len(out[id])
		out[id] = slices.Sorted(slices.Values(append(out[id], left[:n]...)))
		left = left[n:]
	}
	return out
}
