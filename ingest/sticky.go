package ingest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	kafkago "github.com/segmentio/kafka-go"
)

// stickyBalancer shares partitions out evenly, those of each topic and all of them, so that as few as can be change hands:
// whoever takes one over has to load its bins. Members say what they have when they join, and from which generation on.
// It does no I/O, and is safe for any number of callers.
//
// As long as a member does not know it, the group takes another way to share out, one that all members know.
type stickyBalancer struct {
	mu     sync.Mutex // guards below
	own    claim
	known  map[string][]int // partitions of topics
	shared map[string][]int // those that it has shared out since it joined last; nil: another member does
}

// claim is what a member says when it joins.
type claim struct {
	Generation int32            `json:"generation"`
	Partitions []int            `json:"partitions"` // of its topic, where it has one alone
	Topics     map[string][]int `json:"topics,omitempty"`
}

// setOwn notes what this process has from now on.
func (s *stickyBalancer) setOwn(generation int32, places []topicPartition) {
	own := claim{Generation: generation, Topics: map[string][]int{}}
	for _, p := range places {
		own.Topics[p.topic] = append(own.Topics[p.topic], p.partition)
	}
	if len(own.Topics) == 1 {
		own.Partitions = own.Topics[places[0].topic]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own = own
}

// setTopics notes which partitions topics have.
func (s *stickyBalancer) setTopics(topics map[string][]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = topics
}

// missed reports whether partitions were not shared out by this process, which was to share them: it joins before it
// knows, and topics may grow meanwhile.
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

// ProtocolName is kafka.GroupBalancer.
func (s *stickyBalancer) ProtocolName() string { return "binnacle-sticky" }

// UserData is kafka.GroupBalancer: what is said to join.
func (s *stickyBalancer) UserData() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shared = nil
	return json.Marshal(s.own)
}

// AssignGroups is kafka.GroupBalancer. No partition is told if one topic of some member is missing, and some are not by
// a broker that is behind: what is known here is shared out too, or nobody would read it.
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
				claims[m.ID] = claimOf(m.UserData, topic, len(m.Topics) == 1)
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

// claimOf is what a member has said of a topic, which may be its only one. Whoever says nothing that is understood has
// nothing.
func claimOf(data []byte, topic string, only bool) (c claim) {
	d := json.NewDecoder(bytes.NewReader(data))
	if d.Decode(&c) != nil {
		return claim{}
	}
	if c.Topics != nil || !only { // without topics it is of a release that has one alone
		c.Partitions = c.Topics[topic]
	}
	return c
}

// deferNoisy gives each member as many partitions of a topic as the others, or one more, and of those that it has as many
// as that allows. Of two that have the same one, the later generation's has it: the other one has been away. Who was
// given less of other topics comes first.
func shareOut(claims map[string]claim, partitions []int, given map[string]int) map[string][]int {
	ids := slices.Sorted(maps.Keys(claims))
	if len(ids) == 0 {
		return nil
	}
	owner := map[int]string{}
	for _, id := range ids {
		for _, p := range claims[id].Partitions {
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
