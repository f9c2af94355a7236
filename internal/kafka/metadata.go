package kafka

import (
	"context"
	"fmt"
	"io"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// freshMetadata asks a broker for the partitions of topics; nil asks for all topics. Cached metadata may be as old as
// Config.MetadataAge and lack a partition that was added since.
func (c *Client) freshMetadata(ctx context.Context, names []string) ([]kafkago.Topic, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	defer cancel()
	answer, err := c.api.Transport.RoundTrip(ctx, c.api.Addr, &metadataRequest{client: c.cfg.ClientID, topics: names})
	if err != nil {
		return nil, fmt.Errorf("read the partitions of topics: %w", err)
	}
	return answer.(*metadataAnswer).topics(), nil
}

// metadataRequest is a request for metadata that the transport does not answer from its cache.
type metadataRequest struct {
	client  string
	topics  []string // nil is all
	version int16    // set by Required
}

// ApiKey implements protocol.Message.
func (*metadataRequest) ApiKey() protocol.ApiKey { return protocol.Metadata }

// Required implements protocol.RawExchanger.
func (m *metadataRequest) Required(versions map[protocol.ApiKey]int16) bool {
	m.version = versions[protocol.Metadata]
	return true
}

// RawExchange implements protocol.RawExchanger.
func (m *metadataRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	const correlation = 1 // a connection carries one request at a time
	got, err := protocol.RoundTrip(rw, m.version, correlation, m.client, &metadata.Request{TopicNames: m.topics})
	if err != nil {
		return nil, err
	}
	return &metadataAnswer{got.(*metadata.Response)}, nil
}

// metadataAnswer is an answer that the transport does not keep.
type metadataAnswer struct{ response *metadata.Response }

// ApiKey implements protocol.Message.
func (*metadataAnswer) ApiKey() protocol.ApiKey { return protocol.Metadata }

func (m *metadataAnswer) topics() (all []kafkago.Topic) {
	for _, t := range m.response.Topics {
		about := kafkago.Topic{Name: t.Name}
		if t.ErrorCode != 0 {
			about.Error = kafkago.Error(t.ErrorCode)
		}
		for _, p := range t.Partitions {
			about.Partitions = append(about.Partitions, kafkago.Partition{Topic: t.Name, ID: int(p.PartitionIndex)})
		}
		all = append(all, about)
	}
	return all
}
