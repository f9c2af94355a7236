package query_test

import (
	"testing"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/query"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// A damaged document costs the queries of its tenant, all of them, and nobody else's.
func TestDamagedDocumentCostsQueriesOfItsTenant(t *testing.T) {
	for name, doc := range map[string]store.Document{
		"tenant": {Kind: tenant.Kind, ID: "globex",
			Body: []byte(`{"created":1,"epoch":{"slots":[1]},"retention":[{"classes":[]}]}`)},
		"epoch": {Kind: tenant.KindEpoch, ID: "globex.20261120", Body: []byte(`{"tenant":"globex","epoch":{"from":"x"}}`)},
		"order": {Kind: erasure.Kind, ID: "x.order", Body: []byte(`{"tenant":"globex","device":7}`)},
	} {
		t.Run(name, func(t *testing.T) {
			w := querytest.New(t, noon)
			w.Log.Set(100)
			for _, tenant := range []string{"acme", "globex"} {
				w.Chunk(querytest.Record{Position: telemetry.Position{Stream: 1, Offset: 1}, Reading: telemetry.Reading{
					Tenant: tenant, Device: "m1", Time: noon.Add(-time.Minute).UnixMilli(),
					Fields: []telemetry.Field{{Metric: "temp", Value: telemetry.FloatValue(20)}}}})
			}
			w.Heads.Set(store.PartitionHead{Stream: 1, Position: 100})
			q := newQuerier(t, w, func(c *query.Config) { c.Log = w.Log })
			of := query.Request{Tenant: "globex", Range: lastHour()}
			rows, _ := ask(t, q, of)
			require.Len(t, rows, 1)
			put := w.Documents.Create
			if old, found, err := w.Documents.Read(t.Context(), doc.Kind, doc.ID); found {
				require.NoError(t, err)
				doc.ETag, put = old.ETag, w.Documents.Replace
			}
			_, err := put(t.Context(), doc)
			require.NoError(t, err)
			w.Now = w.Now.Add(6 * time.Second)
			acme := of
			acme.Tenant = "acme"
			rows, _ = ask(t, q, acme)
			require.Len(t, rows, 1)
			var damaged *store.DamagedError
			_, _, err = tryAsk(t, q, of)
			require.ErrorAs(t, err, &damaged)
			require.Equal(t, doc.ID, damaged.ID)
			for kind, run := range everyQueryOf(q, "globex") {
				require.ErrorAs(t, run(t.Context()), &damaged, kind)
			}
			for kind, run := range everyQueryOf(q, "acme") {
				if kind != "admitted" {
					require.NotErrorAs(t, run(t.Context()), &damaged, kind)
				}
			}
		})
	}
}

// A month that can't be understood is read where it is there, and is an error where it is not.
func TestDamagedMonthIsRead(t *testing.T) {
	w := querytest.New(t, noon)
	w.Log.Set(100)
	w.Chunk(querytest.Record{Position: telemetry.Position{Stream: 1, Offset: 1}, Reading: telemetry.Reading{
		Tenant: "acme", Device: "m1", Time: noon.Add(-time.Minute).UnixMilli(),
		Fields: []telemetry.Field{{Metric: "temp", Value: telemetry.FloatValue(20)}}}})
	w.Heads.Set(store.PartitionHead{Stream: 1, Position: 100})
	q := newQuerier(t, w, func(c *query.Config) { c.Log = w.Log })
	const name = "chunks-2026-11"
	old, found, err := w.Documents.Read(t.Context(), control.KindMonth, name)
	require.NoError(t, err)
	require.True(t, found)
	old.Body = []byte(`{"state":7}`)
	_, err = w.Documents.Replace(t.Context(), old)
	require.NoError(t, err)
	w.Now = w.Now.Add(6 * time.Second)
	rows, res := ask(t, q, query.Request{Tenant: "acme", Range: lastHour()})
	require.Len(t, rows, 1)
	require.True(t, res.Complete)
}
