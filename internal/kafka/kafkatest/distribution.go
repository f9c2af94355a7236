package kafkatest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Distribution fills a folder as Kafka's archive does, as far as guides use it: the scripts that start Kafka's classes,
// and the settings of a broker on two addresses, the second its controller's, whose log is below the folder too.
func Distribution(t testing.TB, folder, jars, broker, controller string) {
	t.Helper()
	for name, class := range map[string]string{
		"kafka-storage":      "kafka.tools.StorageTool",
		"kafka-server-start": "kafka.Kafka",
		"kafka-topics":       "org.apache.kafka.tools.TopicCommand",
	} {
		script := fmt.Sprintf("#!/bin/sh\nexec java %s -cp '%s/*' %s \"$@\"\n", strings.Join(quickJava, " "), jars, class)
		writeFile(t, filepath.Join(folder, "bin", name+".sh"), script, 0o700)
	}
	writeFile(t, filepath.Join(folder, "config", "server.properties"), strings.Join([]string{
		"process.roles=broker,controller",
		"node.id=1",
		"controller.quorum.bootstrap.servers=" + controller,
		"listeners=PLAINTEXT://" + broker + ",CONTROLLER://" + controller,
		"inter.broker.listener.name=PLAINTEXT",
		"controller.listener.names=CONTROLLER",
		"listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
		"log.dirs=" + filepath.Join(folder, "logs"),
		"num.partitions=1",
		"offsets.topic.replication.factor=1",
		"share.coordinator.state.topic.replication.factor=1",
		"transaction.state.log.replication.factor=1",
		"transaction.state.log.min.isr=1",
	}, "\n")+"\n", 0o600)
}

func writeFile(t testing.TB, path, text string, mode os.FileMode) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), mode))
}
