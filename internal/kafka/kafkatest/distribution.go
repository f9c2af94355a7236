package kafkatest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Folder is a folder for Distribution, with the folder of Kafka's jars and the addresses of the server.
type Folder struct{ Path, Jars, Broker, Controller string }

// Distribution fills a folder like Kafka's archive, as far as guides use it: the scripts that start Kafka's classes,
// and the settings of a broker with an address for clients and one for its controller, with the log in the folder.
func Distribution(t testing.TB, d Folder) {
	t.Helper()
	write := func(text string, mode os.FileMode, path ...string) {
		name := filepath.Join(append([]string{d.Path}, path...)...)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, []byte(text), mode))
	}
	for name, class := range map[string]string{
		"kafka-storage":      "kafka.tools.StorageTool",
		"kafka-server-start": "kafka.Kafka",
		"kafka-topics":       "org.apache.kafka.tools.TopicCommand",
	} {
		script := fmt.Sprintf("#!/bin/sh\nexec java %s -cp '%s/*' %s \"$@\"\n", strings.Join(quickJava, " "), d.Jars, class)
		write(script, 0o700, "bin", name+".sh")
	}
	write(strings.Join([]string{
		"process.roles=broker,controller",
		"node.id=1",
		"controller.quorum.bootstrap.servers=" + d.Controller,
		"listeners=PLAINTEXT://" + d.Broker + ",CONTROLLER://" + d.Controller,
		"inter.broker.listener.name=PLAINTEXT",
		"controller.listener.names=CONTROLLER",
		"listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
		"log.dirs=" + filepath.Join(d.Path, "logs"),
		"num.partitions=1",
		"offsets.topic.replication.factor=1",
		"share.coordinator.state.topic.replication.factor=1",
		"transaction.state.log.replication.factor=1",
		"transaction.state.log.min.isr=1",
	}, "\n")+"\n", 0o600, "config", "server.properties")
}
