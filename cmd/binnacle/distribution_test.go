package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// kafkaFolder is a folder for Kafka's archive, with the folder of its jars and the addresses of the server.
type kafkaFolder struct{ path, jars, broker, controller string }

// fill makes the folder like Kafka's archive, as far as guides use it: the scripts that start Kafka's classes, and the
// settings of a broker with an address for clients and one for its controller, with the log in the folder.
func (d kafkaFolder) fill(t testing.TB) {
	t.Helper()
	write := func(text string, mode os.FileMode, path ...string) {
		name := filepath.Join(append([]string{d.path}, path...)...)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, []byte(text), mode))
	}
	for name, class := range map[string]string{
		"kafka-storage":      "kafka.tools.StorageTool",
		"kafka-server-start": "kafka.Kafka",
		"kafka-topics":       "org.apache.kafka.tools.TopicCommand",
	} {
		script := fmt.Sprintf("#!/bin/sh\nexec java -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp '%s/*' %s \"$@\"\n",
			d.jars, class)
		write(script, 0o700, "bin", name+".sh")
	}
	write(strings.Join([]string{
		"process.roles=broker,controller",
		"node.id=1",
		"controller.quorum.bootstrap.servers=" + d.controller,
		"listeners=PLAINTEXT://" + d.broker + ",CONTROLLER://" + d.controller,
		"inter.broker.listener.name=PLAINTEXT",
		"controller.listener.names=CONTROLLER",
		"listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
		"log.dirs=" + filepath.Join(d.path, "logs"),
		"num.partitions=1",
		"offsets.topic.replication.factor=1",
		"share.coordinator.state.topic.replication.factor=1",
		"transaction.state.log.replication.factor=1",
		"transaction.state.log.min.isr=1",
	}, "\n")+"\n", 0o600, "config", "server.properties")
}
