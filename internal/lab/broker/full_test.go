package broker_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"binnacle/internal/lab/broker"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Environment variables that make the test binary a broker that is filled: its directory, and with what.
const (
	fillerDir = "KAFKAEMU_TEST_FILLER_DIR"
	fillerOf  = "KAFKAEMU_TEST_FILLER_OF"
	fillerAt  = "KAFKAEMU_TEST_FILLER_AT" // its first number
)

// full is the exit code of a filler with a broker that cannot write.
const full = 3

// fill opens a broker and fills it until that ends the process. It prints whatever was acknowledged.
func fill(dir, with string) {
	err := fillForEver(dir, with)
	fmt.Fprintln(os.Stderr, "refused:", err)
	os.Exit(1)
}

func fillForEver(dir, with string) error {
	b, err := broker.Open(broker.Config{DataDir: dir, Addr: "127.0.0.1:0", Topics: []string{topic},
		Fatal: func(err error) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(full)
		}})
	if err != nil {
		return err
	}
	ctx := context.Background()
	c := &kafka.Client{Addr: kafka.TCP(b.Addr())}
	first, err := strconv.Atoi(os.Getenv(fillerAt))
	if err != nil {
		return err
	}
	for i := first; ; i++ {
		switch with {
		case "records":
			answer, err := c.Produce(ctx, &kafka.ProduceRequest{Topic: topic, Partition: i % 2, RequiredAcks: kafka.RequireAll,
				Records: kafka.NewRecordReader(kafka.Record{Value: kafka.NewBytes(bytes.Repeat([]byte{'v'}, i%900))})})
			if err != nil || answer.Error != nil {
				return errors.Join(err, answer.Error)
			}
			fmt.Println("offset", i%2, answer.BaseOffset)
		case "commits":
			answer, err := c.OffsetCommit(ctx, &kafka.OffsetCommitRequest{GroupID: "g", GenerationID: -1,
				Topics: map[string][]kafka.OffsetCommit{topic: {{Offset: int64(i), Metadata: strings.Repeat("m", i%900)}}}})
			if err != nil || answer.Topics[topic][0].Error != nil {
				return errors.Join(err, answer.Topics[topic][0].Error)
			}
			fmt.Println("committed 0", i)
		case "topics":
			name := fmt.Sprintf("another-%d", i)
			answer, err := c.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{
				{Topic: name, NumPartitions: 1, ReplicationFactor: 1}}})
			if err != nil || answer.Errors[name] != nil {
				return errors.Join(err, answer.Errors[name])
			}
			fmt.Println("topics 0", i)
		}
	}
}

// A broker fills its disk, with what, by a limit of the size of files. It ends its process and says why. Afterwards
// all that was acknowledged is there, and all goes on from there, over a kill too.
func TestDiskFull(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for _, with := range []string{"records", "commits", "topics"} {
		for range 2 {
			blocks := 20 + rnd.IntN(40) // of 512 bytes or of 1024
			if with == "topics" {
				blocks = 12 + rnd.IntN(8) // each is forced to disk
			}
			t.Run(fmt.Sprintf("%s/%d", with, blocks), func(t *testing.T) {
				cfg := config(t)
				acked := map[string]int64{"offset 0": -1, "offset 1": -1, "committed 0": -1}
				for i := range 2 { // the second time the disk is still full
					filled(t, cfg.DataDir, with, i*100_000, blocks, acked)
				}
				for round := range 2 { // what was written after it is still there after the next start
					b := open(t, cfg)
					c := client(t, b)
					for partition := range 2 {
						_, end := offsets(t, c, partition)
						require.Greater(t, end, acked[fmt.Sprint("offset ", partition)])
						require.Len(t, values(t, b, partition, 0, int(end)), int(end))
						produce(t, c, partition, 0, "after it")
						acked[fmt.Sprint("offset ", partition)] = end
					}
					if acked["committed 0"] > 0 {
						require.GreaterOrEqual(t, committed(t, c, "g", 0), acked["committed 0"])
					}
					acked["committed 0"] = 1_000_000 + int64(round)
					commit(t, c, "g", 0, acked["committed 0"])
					about, err := c.Metadata(t.Context(), &kafka.MetadataRequest{})
					require.NoError(t, err)
					require.GreaterOrEqual(t, len(about.Topics), int(acked["topics"]))
					cfg.DataDir = killed(t, cfg.DataDir)
				}
				c := client(t, open(t, cfg))
				require.GreaterOrEqual(t, committed(t, c, "g", 0), acked["committed 0"])
			})
		}
	}
}

// killed is the folder of a broker as a process leaves it that is killed now.
func killed(t *testing.T, dir string) string {
	to := filepath.Join(t.TempDir(), "killed")
	require.NoError(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// filled has a process fill a folder until its files are as long as they may be, and notes what it acknowledges.
func filled(t *testing.T, dir, with string, at, blocks int, acked map[string]int64) {
	binary, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	process := exec.CommandContext(ctx, "sh", "-c", fmt.Sprintf(`ulimit -f %d; exec "$0"`, blocks), binary)
	process.Env = append(os.Environ(), fillerDir+"="+dir, fillerOf+"="+with, fillerAt+"="+strconv.Itoa(at))
	var said bytes.Buffer
	process.Stderr = &said
	out, err := process.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, process.Start())
	for lines := bufio.NewScanner(out); lines.Scan(); {
		words := strings.Fields(lines.Text())
		require.Len(t, words, 3, lines.Text())
		n, err := strconv.ParseInt(words[2], 10, 64)
		require.NoError(t, err)
		acked[words[0]+" "+words[1]] = n
		acked[words[0]]++
	}
	err = process.Wait()
	require.Error(t, err)
	require.Contains(t, said.String(), "file too large")
	require.Contains(t, said.String(), dir)
	if process.ProcessState.ExitCode() != full { // it is refused at its start
		require.Contains(t, said.String(), "refused: open Kafka's log in")
		return
	}
	require.Contains(t, said.String(), "cannot be written")
	require.Equal(t, 1, strings.Count(said.String(), "\n"), said.String())
}

// An entry of an index that was not written, or in part, is made anew: the batches behind it have theirs, and a
// transaction that was open is none that was committed.
func TestTornIndexIsRepaired(t *testing.T) {
	for _, cut := range []int64{7, 15, 22} {
		t.Run(fmt.Sprint(cut, " bytes"), func(t *testing.T) {
			cfg := config(t)
			b := open(t, cfg)
			produce(t, client(t, b), 0, 0, "first")
			beginTransaction(t, b, "in doubt")
			cfg.DataDir = killed(t, cfg.DataDir)
			index := filepath.Join(cfg.DataDir, "log", "partitions", topic+"-0", "0.idx")
			info, err := os.Stat(index)
			require.NoError(t, err)
			require.NoError(t, os.Truncate(index, info.Size()-cut))
			for range 3 {
				b = open(t, cfg)
				produce(t, client(t, b), 0, 0, "next")
				cfg.DataDir = killed(t, cfg.DataDir)
			}
			b = open(t, cfg)
			require.Equal(t, []string{"first", "next", "next", "next"}, readCommitted(t, b, 4))
		})
	}
}

// beginTransaction sends a record in a transaction that is not ended.
func beginTransaction(t *testing.T, b *broker.Broker, value string) {
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.TransactionalID("x"), kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	require.NoError(t, c.BeginTransaction())
	require.NoError(t, c.ProduceSync(t.Context(), kgo.StringRecord(value)).FirstErr())
}

// readCommitted reads so many records of transactions that were committed, and of none.
func readCommitted(t *testing.T, b *broker.Broker, n int) (values []string) {
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(values) < n {
		fetched := c.PollFetches(ctx)
		require.NoError(t, fetched.Err())
		fetched.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values
}

// Entries that a torn one was followed by were never found again: a commit behind it was lost at the next kill.
func TestTornGroupLogIsTruncated(t *testing.T) {
	for _, torn := range [][]byte{{1}, binary.LittleEndian.AppendUint32(nil, 1<<31), bytes.Repeat([]byte{0}, 100)} {
		cfg := config(t)
		commit(t, client(t, open(t, cfg)), "g", 0, 1)
		for want := range int64(3) {
			cfg.DataDir = killed(t, cfg.DataDir)
			f, err := os.OpenFile(filepath.Join(cfg.DataDir, "log", "groups.log"), os.O_APPEND|os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.Write(torn)
			require.NoError(t, err)
			require.NoError(t, f.Close())
			c := client(t, open(t, cfg))
			require.Equal(t, 1+want, committed(t, c, "g", 0))
			commit(t, c, "g", 0, 2+want)
		}
	}
}
