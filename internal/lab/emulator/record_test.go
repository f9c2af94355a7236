package emulator_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
	"binnacle/internal/lab/emulator/recording"
)

func TestExchangesAreRecorded(t *testing.T) {
	var file bytes.Buffer
	s := open(t, emulator.Config{Unlimited: true, Record: recording.NewWriter(&file)})
	r := rest{t, s}
	r.do(201, "POST", "dbs", "dbs", "", `{"id":"d"}`)
	r.do(201, "POST", "dbs/d/colls", "colls", "dbs/d", r.definition(""))
	r.create(`{"id":"secret","pk":"p"}`)
	r.query("SELECT * FROM c\n  WHERE c.pk = 'p'")
	r.do(404, "GET", docs+"/none", "docs", docs+"/none", "", "x-ms-documentdb-partitionkey", `["p"]`)
	r.do(400, "GET", docs+"/none", "docs", docs+"/none", "")
	r.do(200, "GET", "", "", "", "")
	r.do(401, "GET", docs+"/none", "docs", "dbs/d", "")

	got, err := recording.Read(&file)
	require.NoError(t, err)
	var lines []string
	for _, e := range got {
		lines = append(lines,
			fmt.Sprint(e.Kind, " ", e.Method, " ", e.Path, " ", e.Status, "/", e.Substatus, " ", e.RU, e.Query))
	}
	require.Equal(t, []string{
		"metadata POST dbs 201/0 1",
		"metadata POST dbs/d/colls 201/0 1",
		"create POST dbs/d/colls/c/docs 201/0 5.9",
		"query POST dbs/d/colls/c/docs 200/0 2.92SELECT * FROM c WHERE c.pk = 'p'",
		"read GET dbs/d/colls/c/docs/{id} 404/0 1",
		"read GET dbs/d/colls/c/docs/{id} 400/1001 0",
		"metadata GET / 200/0 0",
	}, lines, "no item is named, and who has no key is not served")
	require.NotContains(t, file.String(), "secret")
}
