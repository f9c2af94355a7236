package main_test

import (
	"time"

	"binnacle/internal/kafka/kafkatest"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// startApache runs Apache Kafka with the topics that nobody makes by himself, and returns its address.
func (c *chaos) startApache(libs string) string {
	server, err := kafkatest.New(libs)
	require.NoError(c.t, err)
	c.t.Cleanup(func() {
		if c.starting != nil {
			<-c.starting
		}
		server.Close()
	})
	require.NoError(c.t, server.Start())
	c.kafka = server
	conn, err := kafka.Dial("tcp", server.Addr())
	require.NoError(c.t, err)
	defer conn.Close()
	soon(c.t, time.Minute, func() bool {
		err = conn.CreateTopics(kafka.TopicConfig{Topic: "telemetry", NumPartitions: 4, ReplicationFactor: 1},
			kafka.TopicConfig{Topic: "telemetry.dlq", NumPartitions: 4, ReplicationFactor: 1})
		return err == nil
	}, "topics are made: %v", err)
	return server.Addr()
}

// killApache ends Apache Kafka by kill -9 and starts it again; tend sees when it is back.
func (c *chaos) killApache() {
	back := make(chan error, 1)
	c.starting = back
	go func() {
		c.kafka.Kill()
		back <- c.kafka.Start()
	}()
}
