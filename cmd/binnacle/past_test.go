package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"binnacle/internal/kafka"

	"github.com/stretchr/testify/require"
)

// published returns how many records a topic has.
func (d *dev) published(topic string) (n int64) {
	cluster, err := kafka.New(kafka.Config{Brokers: []string{d.kafka}})
	require.NoError(d.t, err)
	defer cluster.Close()
	ends, err := cluster.Topic(topic).LogEnds(d.t.Context())
	require.NoError(d.t, err)
	for _, e := range ends {
		n += e.End
	}
	return n
}

// An archive that is older than what is accepted is refused when it is replayed as it is, and stored as a backfill;
// what the backfill does not cover is refused all the same.
func TestBackfillOfArchive(t *testing.T) {
	t.Parallel()
	d := startDev(t, t.TempDir(), "--fleet=0", "--past=400d", "--hold=1s", "--max-months=2")
	const days = 300 // ten months
	want, text := table{}, "time,value\n"
	for i := range days {
		at := time.Date(2019, 1, 1+i, 12, 0, 0, 0, time.UTC)
		text += fmt.Sprintf("%s,%d.5\n", at.Format(time.RFC3339), i)
		want.set(row{device: "m1", ts: at.UnixMilli()}, "value", float64(i)+0.5)
	}
	archive := filepath.Join(t.TempDir(), "archive.csv")
	require.NoError(t, os.WriteFile(archive, []byte(text), 0o600))
	flags := []string{"--tenant=acme", "--device=m1", "--time-column=time"}

	past := run(t, time.Minute, append([]string{"replay", archive, "--kafka", d.kafka}, flags...)...)
	require.Equal(t, 1, past.code)
	require.Regexp(t, `300 of 300 records were refused and are dead letters: past 300. The first: .*--backfill`,
		past.stderr.String())
	soon(t, time.Minute, func() bool { return len(d.deadLetters()) == days }, "all are dead letters")
	for _, l := range d.deadLetters() {
		require.Equal(t, "past", header(l, "binnacle-reason"))
	}

	d.replay(archive, append(flags, "--backfill", "--cosmos="+d.cosmos), "records 300")
	d.answers("acme", want, "device=m1&strict=true&from=2018-01-01T00:00:00Z&to=2020-01-01T00:00:00Z")
	require.Len(t, d.deadLetters(), days)
	require.Equal(t, []int64{days, days}, []int64{d.published("telemetry"), d.published("telemetry.backfill")},
		"the backfill has a topic of its own")
	d.replay(archive, append(flags, "--backfill", "--cosmos="+d.cosmos, "--group=other", "--dry-run"), "backfill of acme")
	p := run(t, time.Minute, append([]string{"replay", archive, "--kafka", d.kafka, "--topic=elsewhere", "--backfill",
		"--cosmos=" + d.cosmos}, flags...)...)
	require.Contains(t, p.stdout.String(), "no ingester of the consumer group binnacle reads elsewhere.backfill")
	require.Contains(t, p.stderr.String(), "has no topic elsewhere")

	// A device with a wrong clock, in the same year.
	late := filepath.Join(t.TempDir(), "late.csv")
	require.NoError(t, os.WriteFile(late, []byte(strings.Join(strings.SplitN(text, "\n", 3)[:2], "\n")+"\n"), 0o600))
	d.replay(late, []string{"--tenant=acme", "--device=m2", "--time-column=time", "--allow-refused"}, "refused 1")
	soon(t, time.Minute, func() bool { return len(d.deadLetters()) == days+1 }, "a dead letter")
}
