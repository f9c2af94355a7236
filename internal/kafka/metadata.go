package kafka

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
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
	return answer.(*metadataAnswer).topics, nil
}

// metadataRequest is a request for metadata that the transport does not answer from its cache.
type metadataRequest struct {
	client  string
	topics  []string // nil is all
	version int16    // set by Required
}

// ApiKey implements protocol.Message.
func (*metadataRequest) ApiKey() protocol.ApiKey { return protocol.Metadata }

// maxMetadataVersion is the last version without tagged fields.
const maxMetadataVersion = 8

// Required implements protocol.RawExchanger.
func (m *metadataRequest) Required(versions map[protocol.ApiKey]int16) bool {
	m.version = min(versions[protocol.Metadata], maxMetadataVersion)
	return true
}

// RawExchange implements protocol.RawExchanger.
func (m *metadataRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	r := kmsg.NewPtrMetadataRequest()
	r.Version = m.version
	if m.topics != nil {
		r.Topics = []kmsg.MetadataRequestTopic{}
	}
	for _, name := range m.topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		r.Topics = append(r.Topics, t)
	}
	body, err := exchange(rw, m.client, r)
	if err != nil {
		return nil, err
	}
	res := kmsg.NewPtrMetadataResponse()
	res.Version = m.version
	if err := res.ReadFrom(body); err != nil {
		return nil, err
	}
	out := &metadataAnswer{}
	for _, t := range res.Topics {
		about := kafkago.Topic{}
		if t.Topic != nil {
			about.Name = *t.Topic
		}
		if t.ErrorCode != 0 {
			about.Error = kafkago.Error(t.ErrorCode)
		}
		for _, p := range t.Partitions {
			about.Partitions = append(about.Partitions, kafkago.Partition{Topic: about.Name, ID: int(p.Partition)})
		}
		slices.SortFunc(about.Partitions, func(a, b kafkago.Partition) int { return a.ID - b.ID })
		out.topics = append(out.topics, about)
	}
	return out, nil
}

type metadataAnswer struct{ topics []kafkago.Topic }

// ApiKey implements protocol.Message.
func (*metadataAnswer) ApiKey() protocol.ApiKey { return protocol.Metadata }

// exchange sends a request over a connection of the transport, which carries one request at a time, and returns the
// body of the answer.
func exchange(rw io.ReadWriter, client string, r kmsg.Request) ([]byte, error) {
	const correlation = 1
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID(client)).AppendRequest(nil, r, correlation)
	if _, err := rw.Write(frame); err != nil {
		return nil, err
	}
	var head [8]byte // length, correlation id
	if _, err := io.ReadFull(rw, head[:]); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[:4])
	if length < 4 || length > maxAnswer || binary.BigEndian.Uint32(head[4:]) != correlation {
		return nil, fmt.Errorf("an answer of %d bytes: %w", length, io.ErrUnexpectedEOF)
	}
	body := make([]byte, length-4)
	_, err := io.ReadFull(rw, body)
	return body, err
}
