package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"binnacle/internal/store"
	"binnacle/internal/stream/topics"

	kafkago "github.com/segmentio/kafka-go"
)

// Sources asks a cluster about all topics of a set. It is safe for any number of callers.
type Sources struct {
	client *Client
	set    topics.Set
}

// Sources returns the topics of a set, which need not exist.
func (c *Client) Sources(set topics.Set) *Sources { return &Sources{c, set} }

// Layout is the topics of a set in a cluster at one time.
type Layout struct {
	Cluster    string            // its id
	Partitions map[string][]int  // ascending, by topic that exists
	Tenants    map[string]string // tenants of bound topics
	Faults     []error           // topics that are missing or can't be read, patterns that nothing fits
	Unclear    []string          // topics that the cluster does not report at the moment, whether they exist or not
}

// Names returns the names of the topics that exist, sorted.
func (l Layout) Names() []string { return slices.Sorted(maps.Keys(l.Partitions)) }

// Layout returns the topics of the set that exist. The result may be as old as Config.MetadataAge. It fails only if the
// cluster does not answer.
func (s *Sources) Layout(ctx context.Context) (Layout, error) {
	res, err := s.client.api.Metadata(ctx, &kafkago.MetadataRequest{Topics: s.names()})
	if err != nil {
		return Layout{}, fmt.Errorf("read metadata of topics %s: %w", s.set, err)
	}
	l := s.layoutOf(res.Topics)
	l.Cluster, err = s.client.clusterID(res.ClusterID)
	return l, err
}

// names returns the topics to ask for; nil asks for all.
func (s *Sources) names() []string {
	if s.set.HasPatterns() {
		return nil
	}
	return s.set.Named()
}

func (s *Sources) layoutOf(reported []kafkago.Topic) Layout {
	l := Layout{Partitions: map[string][]int{}, Tenants: map[string]string{}}
	all := map[string]kafkago.Topic{}
	var names []string
	for _, t := range reported {
		if !IsUnknownTopic(t.Error) {
			all[t.Name], names = t, append(names, t.Name)
		}
	}
	found, faults := s.set.Match(names)
	l.Faults = faults
	for _, t := range found {
		about := all[t.Name]
		partitions, err := partitionsOf(about)
		if about.Error != nil {
			err = fmt.Errorf("read metadata of topic %s: %w", t.Name, about.Error)
		}
		if err != nil {
			l.Faults, l.Unclear = append(l.Faults, err), append(l.Unclear, t.Name)
			continue
		}
		l.Partitions[t.Name] = partitions
		if t.Tenant != "" {
			l.Tenants[t.Name] = t.Tenant
		}
	}
	return l
}

// LogEnds implements store.Log for all topics of the set, with fresh metadata. A missing topic that the set names is
// an error, since its end is unknown. Topics that match a pattern, and those of backfills, may come and go.
func (s *Sources) LogEnds(ctx context.Context) ([]store.LogEnd, error) {
	reported, err := s.client.freshMetadata(ctx, s.names())
	if err != nil {
		return nil, err
	}
	l := s.layoutOf(reported)
	for _, name := range s.set.Required() {
		if l.Partitions[name] == nil {
			return nil, errors.Join(l.Faults...)
		}
	}
	if len(l.Partitions) == 0 || len(l.Unclear) > 0 {
		return nil, errors.Join(l.Faults...)
	}
	return s.client.logEnds(ctx, l.Partitions)
}
