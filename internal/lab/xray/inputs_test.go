package xray_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"binnacle/internal/lab/xray"
	"binnacle/internal/store"

	"github.com/stretchr/testify/require"
)

func config(container string) xray.Config {
	return xray.Config{Database: store.Database, Container: container, MaxRUs: 500, Days: 3}
}

// Each wrong setting is named, with what is allowed; all at once.
func TestValidateNamesEveryFault(t *testing.T) {
	wrong := xray.Config{MaxRUs: 1, Days: 0, DeviceReads: -1, TenantReads: -1, DevicePath: "id", TenantPath: "/"}
	err := wrong.Validate()
	for _, what := range []string{"--database is missing", "--container is missing", "--max-rus 1", "--days 0: 1 to 366",
		"--device-reads -1", "--tenant-reads -1", `--device-path "id"`, `--tenant-path "/"`} {
		require.ErrorContains(t, err, what)
	}
	same := config("a/b")
	same.DevicePath, same.TenantPath = "/d", "/d"
	require.ErrorContains(t, same.Validate(), "are the same")
	require.ErrorContains(t, same.Validate(), `--container "a/b"`)
	require.NoError(t, config("telemetry").Validate())
}

// What an account does not allow or does not have is said in words.
func TestRunExplainsWhatItCannotSee(t *testing.T) {
	w := newWorld(t, 3)
	defer w.close()
	_, err := xray.Run(t.Context(), config("none"), w.client)
	require.EqualError(t, err, "there is no container none in a database "+store.Database+" of this account")
	other := config("none")
	other.Database = "theirs"
	_, err = xray.Run(t.Context(), other, w.client)
	require.EqualError(t, err, "there is no container none in a database theirs of this account")

	w.container("empty", 1)
	_, err = xray.Run(t.Context(), config("empty"), w.client)
	require.ErrorContains(t, err, "has no documents")

	low := config("empty")
	low.MaxRUs = 25
	_, err = xray.Run(t.Context(), low, w.client)
	require.ErrorContains(t, err, "has 3 physical partitions: to see each takes")

	w.container("filled", 1)
	r := rand.New(rand.NewPCG(1, 1))
	w.write("filled", newCrowd(r).day(began, r), keyers[0].key)
	path := config("filled")
	path.DevicePath = "/nowhere/at/all"
	_, err = xray.Run(t.Context(), path, w.client)
	require.ErrorContains(t, err, "--device-path /nowhere/at/all: no document of the sample has a string or a number")
}

// The sample stays within any budget that it accepts, and says before what it may take. A document at the top of a
// range isn't all that counts: with few documents all are read.
func TestRunStaysWithinItsBudget(t *testing.T) {
	w := newWorld(t, 4)
	defer w.close()
	w.container("found", 1)
	r := rand.New(rand.NewPCG(2, 2))
	c := newCrowd(r)
	for i := range 3 {
		w.write("found", c.day(began.AddDate(0, 0, i), r), keyers[0].key)
	}
	for _, most := range []float64{71, 75, 120, 500} {
		var said bytes.Buffer
		cfg := config("found")
		cfg.MaxRUs, cfg.Progress = most, &said
		found, err := xray.Run(t.Context(), cfg, w.client)
		require.NoError(t, err)
		require.LessOrEqual(t, found.RUs, most)
		require.Positive(t, found.Sampled)
		require.Contains(t, said.String(), fmt.Sprintf("at most %.0f RU", most))
		require.Contains(t, said.String(), "nothing is written")
		var text bytes.Buffer
		require.NoError(t, xray.Print(&text, found))
		for _, l := range append(found.Others, found.Now) {
			require.Contains(t, text.String(), l.Name)
		}
	}
}

// A fleet of one device, one document, one physical partition, numbers as keys or keys that are absent: each is
// answered, and no figure is anything but a number.
func TestRunOfSmallContainers(t *testing.T) {
	w := newWorld(t, 1)
	defer w.close()
	w.container("one", 2)
	at := began.Add(time.Hour)
	w.write("one", []reading{{at, "t", "d", 10}}, func(t, d string, _ time.Time) []string { return []string{t, d} })
	found, err := xray.Run(t.Context(), config("one"), w.client)
	require.NoError(t, err)
	require.EqualValues(t, 1, found.Documents)
	require.Equal(t, 1.0, found.Now.HottestOverMean)
	require.Equal(t, "t, d", found.Now.HottestKey)
	require.Equal(t, &xray.PrefixShare{Value: "t", Share: 1, Partitions: 1}, found.Prefix)
	require.Contains(t, found.Findings[0], "one physical partition")
	require.Empty(t, found.Recommended)
	var said strings.Builder
	require.NoError(t, xray.Print(&said, found))
	require.NotContains(t, said.String(), "* recommended")
	require.NotContains(t, said.String(), "it takes a new container")
	for _, l := range found.Others {
		require.InDelta(t, 1, l.HottestOverMean, 1e-9, l.Name)
		require.Positive(t, l.NeedRUs, l.Name)
	}
}
