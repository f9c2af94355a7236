package broker_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"binnacle/internal/lab/broker"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// victimDir names the environment variable that makes the test binary a process to be killed.
const victimDir = "KAFKAEMU_TEST_VICTIM_DIR"

// victim opens a broker and produces until it is killed. It prints each offset that was acknowledged,
// and commits them to a group every ten records.
func victim(dir string) {
	if err := produceForEver(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func produceForEver(dir string) error {
	b, err := broker.Open(broker.Config{DataDir: dir, Addr: "127.0.0.1:0", Topics: []string{topic}})
	if err != nil {
		return err
	}
	ctx := context.Background()
	c := &kafka.Client{Addr: kafka.TCP(b.Addr())}
	fmt.Println("id", b.ClusterID())
	for i := 1; ; i++ {
		answer, err := c.Produce(ctx, &kafka.ProduceRequest{
			Topic: topic, Partition: 0, RequiredAcks: kafka.RequireAll, Compression: kafka.Lz4,
			Records: kafka.NewRecordReader(kafka.Record{Value: kafka.NewBytes([]byte("v"))}),
		})
		if err != nil || answer.Error != nil {
			return fmt.Errorf("produce: %w, %w", err, answer.Error)
		}
		fmt.Println("offset", answer.BaseOffset)
		if i%10 != 0 {
			continue
		}
		committed, err := c.OffsetCommit(ctx, &kafka.OffsetCommitRequest{GroupID: "g", GenerationID: -1,
			Topics: map[string][]kafka.OffsetCommit{topic: {{Partition: 0, Offset: answer.BaseOffset + 1}}}})
		if err != nil || committed.Topics[topic][0].Error != nil {
			return fmt.Errorf("commit: %w, %w", err, committed.Topics[topic][0].Error)
		}
		fmt.Println("committed", answer.BaseOffset+1)
	}
}

func TestKillLosesNothingAcknowledged(t *testing.T) {
	binary, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	last := map[string]int64{"offset": -1, "committed": -1}
	var id string
	for round := range 5 {
		// A victim that hangs is killed too, and the test then fails for want of its lines.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		process := exec.CommandContext(ctx, binary)
		process.Env = append(os.Environ(), victimDir+"="+dir)
		process.Stderr = os.Stderr
		out, err := process.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, process.Start())
		lines := bufio.NewScanner(out)
		for heard := 0; lines.Scan(); heard++ {
			word, rest, _ := strings.Cut(lines.Text(), " ")
			if word == "id" {
				if round > 0 {
					require.Equal(t, id, rest)
				}
				id = rest
				continue
			}
			n, err := strconv.ParseInt(rest, 10, 64)
			require.NoError(t, err)
			require.Greater(t, n, last[word], "round %d", round)
			last[word] = n
			if heard == 200+37*round {
				require.NoError(t, process.Process.Kill())
			}
		}
		require.ErrorContains(t, process.Wait(), "killed")
		cancel()
	}
	b := open(t, broker.Config{DataDir: dir, Addr: "127.0.0.1:0", Topics: []string{topic}})
	require.Equal(t, id, b.ClusterID())
	c := client(t, b)
	_, end := offsets(t, c, 0)
	require.GreaterOrEqual(t, end, last["offset"]+1)
	require.GreaterOrEqual(t, committed(t, c, "g", 0), last["committed"])
	require.Greater(t, last["offset"], int64(800))
	require.Len(t, values(t, b, 0, 0, int(end)), int(end))
}
