package sql_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fastjson"

	"binnacle/internal/lab/emulator/sql"
)

// BenchmarkParseReadMany parses what azcosmos's ReadMany sends for 1,000 items of different keys.
func BenchmarkParseReadMany(b *testing.B) {
	terms := make([]string, 1000)
	for i := range terms {
		terms[i] = fmt.Sprintf("(c.id = @param_id%d AND c.pk = @param_pk%d0)", i, i)
	}
	text := "SELECT * FROM c WHERE " + strings.Join(terms, " OR ")
	b.ReportAllocs()
	for b.Loop() {
		_, err := sql.Parse(text)
		require.NoError(b, err)
	}
}

// BenchmarkConditions tests one item against a range of two properties.
func BenchmarkConditions(b *testing.B) {
	q, err := sql.Parse(`SELECT * FROM c WHERE c.shard = @s AND c["from"] < @to AND c["to"] >= @from`)
	require.NoError(b, err)
	bound, err := q.Bind(map[string]sql.Value{"@s": sql.StringValue([]byte("a")), "@from": sql.NumberValue(1),
		"@to": sql.NumberValue(9)})
	require.NoError(b, err)
	r := row{fastjson.MustParse(`{"shard":"a","from":3,"to":5}`), q.Paths()}
	conditions := bound.Conditions()
	b.ReportAllocs()
	for b.Loop() {
		for _, c := range conditions {
			if !c.True(r) {
				b.Fatal("does not match")
			}
		}
	}
}
