package blogexample_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/lab/planner"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/stretchr/testify/require"
)

var updatePatterns = flag.Bool("patterns.update", false, "write what TestPatterns measures into its page")

// measures are charges of the operations that the patterns are made of, by a container with the default index, or with
// the key alone in the index.
type measures struct {
	t       *testing.T
	all, id *azcosmos.ContainerClient
}

func newMeasures(t *testing.T) *measures {
	server, err := emulator.Open(emulator.Config{InMemory: true, Unlimited: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	credential, err := azcosmos.NewKeyCredential(emulator.Key)
	require.NoError(t, err)
	client, err := azcosmos.NewClientWithKey(server.Endpoint(), credential, &azcosmos.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: server.Transport()}})
	require.NoError(t, err)
	_, err = client.CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: "patterns"}, nil)
	require.NoError(t, err)
	db, err := client.NewDatabase("patterns")
	require.NoError(t, err)
	container := func(p azcosmos.ContainerProperties) *azcosmos.ContainerClient {
		_, err := db.CreateContainer(t.Context(), p, nil)
		require.NoError(t, err)
		c, err := db.NewContainer(p.ID)
		require.NoError(t, err)
		return c
	}
	key := azcosmos.PartitionKeyDefinition{Kind: azcosmos.PartitionKeyKindHash, Version: 2, Paths: []string{"/pk"}}
	policy := &azcosmos.IndexingPolicy{IndexingMode: azcosmos.IndexingModeConsistent,
		IncludedPaths: []azcosmos.IncludedPath{{Path: "/pk/?"}}, ExcludedPaths: []azcosmos.ExcludedPath{{Path: "/*"}}}
	return &measures{t, container(azcosmos.ContainerProperties{ID: "all", PartitionKeyDefinition: key}),
		container(azcosmos.ContainerProperties{ID: "id", PartitionKeyDefinition: key, IndexingPolicy: policy})}
}

func pk() azcosmos.PartitionKey { return azcosmos.NewPartitionKeyString("k") }

// create returns the charge of a create.
func (m *measures) create(c *azcosmos.ContainerClient, doc string) float64 {
	r, err := c.CreateItem(m.t.Context(), pk(), []byte(doc), nil)
	require.NoError(m.t, err, doc)
	return float64(r.RequestCharge)
}

// replace returns the charge of a replace.
func (m *measures) replace(c *azcosmos.ContainerClient, id, doc string) float64 {
	r, err := c.ReplaceItem(m.t.Context(), pk(), id, []byte(doc), nil)
	require.NoError(m.t, err)
	return float64(r.RequestCharge)
}

// bin returns the document of a room and minute, as the sample data-binning stores it, and one reading of it.
func bin() (document, reading string) {
	var readings []string
	for i := range 12 {
		readings = append(readings, fmt.Sprintf(`{"eventTimestamp":"12/30/2022 10:53:%02d PM","temperature":%.1f}`, 5*i,
			71+float64(i)/10))
	}
	return `{"id":"bin","pk":"k","deviceId":1,"eventTimestamp":"12/30/2022 10:53:00 PM","avgTemperature":71.5,` +
			`"minTemperature":71,"maxTemperature":72.1,"numberOfReadings":12,"readings":[` + strings.Join(readings, ",") +
			`],"receivedTimestamp":"12/30/2022 10:54:00 PM"}`,
		`{"id":"one","pk":"k","deviceId":1,"eventTimestamp":"12/30/2022 10:53:05 PM","temperature":71.3,` +
			`"unit":"Fahrenheit","receivedTimestamp":"12/30/2022 10:53:05.128 PM"}`
}

// The sample data-binning of Microsoft has a thousand rooms that report every five seconds.
const (
	rooms        = 1000
	perRoom      = 12 // readings a minute
	monthSeconds = ru.HoursPerMonth * 3600
)

// binning prices the sample beside Binnacle's chunks: writes and storage of a month, bought the cheapest way.
func (m *measures) binning() (rows string) {
	document, reading := bin()
	price := func(name string, rus, gb float64) {
		dollars := min(ru.Consumed(rus*monthSeconds), ru.Price(ru.Priced{RUs: math.Ceil(max(400, rus)/100) * 100}).Most) +
			ru.Storage(gb)
		rows += fmt.Sprintf("| %s | %.4g | %.3g | %.2f |\n", name, rus, gb, dollars)
	}
	gb := func(doc string, aSecond float64) float64 {
		return float64(len(doc)) * 1.1 * aSecond * monthSeconds / 1e9
	}
	each := rooms * perRoom / 60.0
	price("a document per reading", each*m.create(m.all, reading), gb(reading, each))
	price("JSON bins of a minute, as the sample has them", rooms/60.0*m.create(m.all, document), gb(document, rooms/60.0))
	w, err := planner.Parse([]byte("name: rooms\nmonths: 1\nfleets: [{name: rooms, devices: 1000, interval: 5s, "+
		"metrics: {gauge: 1}}]"), nil)
	require.NoError(m.t, err)
	plan, err := planner.New(w, 1, 20)
	require.NoError(m.t, err)
	figures := map[string]float64{}
	for _, f := range plan.Figures {
		figures[f.Name] = f.P50
	}
	price("Binnacle's chunks", figures["writes, mean"], figures["storage of a month"])
	return rows
}

// The tables of docs/reference/patterns.md are measured here: what the operations of each pattern are charged, and the
// sample of binning beside chunks.
func TestPatterns(t *testing.T) {
	t.Parallel()
	m := newMeasures(t)
	lock := `{"id":"lock","pk":"k","owner":"%s","until":%d,"token":%d}`
	ops := []struct {
		name string
		rus  float64
	}{
		{"lease: taken (create)", m.create(m.id, fmt.Sprintf(lock, "a", 1000, 1))},
		{"lease: renewed under its ETag (replace)", m.replace(m.id, "lock", fmt.Sprintf(lock, "a", 2000, 1))},
		{"counter of a process: stored anew (replace of 1 KB)", func() float64 {
			doc := func(n int) string {
				return fmt.Sprintf(`{"id":"rows","pk":"k","rows":[%s]}`, strings.Repeat(fmt.Sprintf(`{"rus":%d},`, n), 60)+`0`)
			}
			m.create(m.id, doc(1))
			return m.replace(m.id, "rows", doc(2))
		}()},
		{"attributes as an array of ten, all indexed (create)", m.create(m.all, attributes("many"))},
		{"the same, only the key indexed", m.create(m.id, attributes("few"))},
		{"patch of one number", m.patch()},
		{"outbox: a document and its event in one batch", m.outbox()},
	}
	rows := "| operation | RU |\n|---|---:|\n"
	for _, o := range ops {
		require.Positive(t, o.rus, o.name)
		rows += fmt.Sprintf("| %s | %.2f |\n", o.name, o.rus)
	}
	binned := "| a month of the sample | RU/s | GB | dollars |\n|---|---:|---:|---:|\n" + m.binning()
	const path = "../../../docs/reference/patterns.md"
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	text := string(page)
	for i, table := range []string{binned, rows} {
		begin, end := fmt.Sprintf("<!-- make patterns: begin %d -->\n", i+1), fmt.Sprintf("<!-- end %d -->", i+1)
		before, rest, ok := strings.Cut(text, begin)
		require.True(t, ok, begin)
		was, after, ok := strings.Cut(rest, end)
		require.True(t, ok, end)
		if !*updatePatterns {
			require.Equal(t, table, was, "make patterns writes it anew")
		}
		text = before + begin + table + end + after
	}
	if *updatePatterns {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	for _, pattern := range []string{"Attribute array", "Data binning", "Distributed counter", "Distributed lock",
		"Document versioning", "Event sourcing", "Hierarchical partition key", "Loop-safe change feed", "Materialized view",
		"Patch", "Preallocation", "Schema versioning", "Transactional outbox", "Vector search"} {
		require.Contains(t, text, "\n| "+pattern, "each of the fourteen samples has a row")
	}
}

// attributes returns a document with ten measurements as an array of names and values.
func attributes(id string) string {
	var all []map[string]any
	for i := range 10 {
		all = append(all, map[string]any{"name": fmt.Sprint("metric_", i), "value": 20.5 + float64(i)})
	}
	text, err := json.Marshal(map[string]any{"id": id, "pk": "k", "attributes": all})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// patch returns the charge of a patch of one number.
func (m *measures) patch() float64 {
	m.create(m.id, `{"id":"patched","pk":"k","n":1}`)
	var change azcosmos.PatchOperations
	change.AppendSet("/n", 2)
	r, err := m.id.PatchItem(m.t.Context(), pk(), "patched", change, nil)
	require.NoError(m.t, err)
	return float64(r.RequestCharge)
}

// outbox returns the charge of a document and its event, written in one transaction.
func (m *measures) outbox() float64 {
	batch := m.id.NewTransactionalBatch(pk())
	batch.CreateItem([]byte(`{"id":"order","pk":"k","state":"paid"}`), nil)
	batch.CreateItem([]byte(`{"id":"event","pk":"k","type":"paid","processed":false}`), nil)
	r, err := m.id.ExecuteTransactionalBatch(m.t.Context(), batch, nil)
	require.NoError(m.t, err)
	require.True(m.t, r.Success)
	return float64(r.RequestCharge)
}
