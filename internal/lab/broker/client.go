package broker

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// client sends requests to the broker over a pipe before others can connect. It uses versions of the protocol without
// tagged headers only. It is owned by Open.
type client struct {
	conn net.Conn
	last int32 // correlation id
}

func (c *client) ask(request kmsg.Request) (kmsg.Response, error) {
	name := kmsg.NameForKey(request.Key())
	c.last++
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("binnacle")).AppendRequest(nil, request, c.last)
	if _, err := c.conn.Write(frame); err != nil {
		return nil, fmt.Errorf("ask %s: %w", name, err)
	}
	var head [8]byte // length, correlation id
	if _, err := io.ReadFull(c.conn, head[:]); err != nil {
		return nil, fmt.Errorf("read the answer to %s: %w", name, err)
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:])-4)
	if _, err := io.ReadFull(c.conn, body); err != nil {
		return nil, fmt.Errorf("read the answer to %s: %w", name, err)
	}
	response := request.ResponseKind()
	response.SetVersion(request.GetVersion())
	if err := response.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("parse the answer to %s: %w", name, err)
	}
	return response, nil
}

func (c *client) served() (map[int16]versions, error) {
	response, err := c.ask(&kmsg.ApiVersionsRequest{})
	if err != nil {
		return nil, err
	}
	answer := response.(*kmsg.ApiVersionsResponse)
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		return nil, fmt.Errorf("list the APIs of the broker: %w", err)
	}
	served := make(map[int16]versions, len(answer.ApiKeys))
	for _, k := range answer.ApiKeys {
		served[k.ApiKey] = versions{k.MinVersion, k.MaxVersion}
	}
	return served, nil
}

func (c *client) clusterID() (string, error) {
	response, err := c.ask(&kmsg.MetadataRequest{Version: 4, Topics: []kmsg.MetadataRequestTopic{}})
	if err != nil {
		return "", err
	}
	id := response.(*kmsg.MetadataResponse).ClusterID
	if id == nil || *id == "" {
		return "", fmt.Errorf("the broker has no cluster id")
	}
	return *id, nil
}

func (c *client) grow(topic string, partitions int) error {
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = topic, int32(partitions)
	response, err := c.ask(&kmsg.CreatePartitionsRequest{Version: 1, Topics: []kmsg.CreatePartitionsRequestTopic{t}})
	if err != nil {
		return err
	}
	for _, answer := range response.(*kmsg.CreatePartitionsResponse).Topics {
		if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) configure(topic string, configs map[string]string) error {
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	for name, value := range configs {
		k := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		k.Name, k.Value = name, kmsg.StringPtr(value)
		r.Configs = append(r.Configs, k)
	}
	response, err := c.ask(&kmsg.IncrementalAlterConfigsRequest{
		Resources: []kmsg.IncrementalAlterConfigsRequestResource{r},
	})
	if err != nil {
		return err
	}
	for _, answer := range response.(*kmsg.IncrementalAlterConfigsResponse).Resources {
		if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
			return err
		}
	}
	return nil
}
