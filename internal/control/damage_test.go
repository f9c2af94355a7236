package control_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/stream"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

// damagedFixture has two tenants, each with what control documents say of one, and a stream of two topics.
func damagedFixture(t *testing.T) (*control.Directory, *storetest.Documents, *bytes.Buffer) {
	docs := storetest.NewDocuments(t)
	var log bytes.Buffer
	d := control.NewDirectory(control.DirectoryConfig{Documents: docs, Feed: docs, Now: func() time.Time { return noon },
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for _, tenant := range []string{"acme", "globex"} {
		_, err := d.Register(t.Context(), tenant)
		require.NoError(t, err)
		day := telemetry.DayOf(noon.UnixMilli()) + 7
		require.NoError(t, d.AddEpoch(t.Context(), tenant, sharding.Epoch{From: day, Slots: []sharding.Slot{3}}))
		require.NoError(t, d.AskMonth(t.Context(), "chunks-"+tenant+"-2026-11", ""))
		_, err = docs.Create(t.Context(), store.Document{Kind: erasure.Kind, ID: tenant + "1.order",
			Body: fmt.Appendf(nil, `{"tenant":%q,"from":1,"to":2,"by":"ops","at":1}`, tenant)})
		require.NoError(t, err)
	}
	_, err := d.Refresh(t.Context())
	require.NoError(t, err)
	return d, docs, &log
}

// put stores a document, over the one that is there.
func put(t *testing.T, docs *storetest.Documents, d store.Document) (was *store.Document) {
	old, found, err := docs.Read(t.Context(), d.Kind, d.ID)
	require.NoError(t, err)
	if !found {
		_, err = docs.Create(t.Context(), d)
		require.NoError(t, err)
		return nil
	}
	d.ETag = old.ETag
	etag, err := docs.Replace(t.Context(), d)
	require.NoError(t, err)
	old.ETag = etag
	return &old
}

// A document that can't be understood costs its tenant, and says so; others go on as if there were none. Once it is
// mended all is as before.
func TestDamagedDocumentCostsItsTenant(t *testing.T) {
	for _, c := range []store.Document{
		{Kind: tenant.Kind, ID: "globex", Body: []byte(`{"epoch":7}`)},
		{Kind: tenant.Kind, ID: "globex", Body: []byte(`{}`)},
		{Kind: tenant.Kind, ID: "globex", Body: []byte(`{"created":"yesterday","epoch":{"slots":[1]}}`)},
		{Kind: tenant.Kind, ID: "globex", Body: []byte(`{"created":1,"epoch":{"slots":[300]}}`)},
		{Kind: tenant.Kind, ID: "globex", Body: []byte(`{"created":1,"epoch":{"slots":[1]},"limits":{"query":7}}`)},
		{Kind: tenant.Kind, ID: "globex",
			Body: []byte(`{"created":1,"epoch":{"slots":[1]},"retention":[{"classes":[]}]}`)},
		{Kind: tenant.KindEpoch, ID: "globex.20270101", Body: []byte(`{"tenant":"globex","epoch":{"from":"x"}}`)},
		{Kind: tenant.KindEpoch, ID: "globex.20270101", Body: []byte(`{"tenant":"globex","epoch":{"from":1,"slots":[1]}}`)},
		{Kind: erasure.Kind, ID: "globex1.order", Body: []byte(`{"tenant":"globex","from":"x"}`)},
		{Kind: erasure.Kind, ID: "globex1.positions", Body: []byte(`{"at":1,"positions":[{"through":"x"}]}`)},
		{Kind: erasure.Kind, ID: "globex1.swept", Body: []byte(`{"at":"x"}`)},
	} {
		t.Run(c.ID+" "+string(c.Body), func(t *testing.T) {
			d, docs, log := damagedFixture(t)
			acme, _ := d.Snapshot().Tenant("acme")
			was := put(t, docs, c)
			for range 3 {
				v, err := d.Refresh(t.Context())
				require.NoError(t, err)
				still, known := v.Tenant("acme")
				require.True(t, known)
				require.Equal(t, acme.Placement.Epochs(), still.Placement.Epochs())
				require.NoError(t, v.Damaged("acme"))
				require.Len(t, v.Erasures("acme"), 1)
				_, known = v.Tenant("globex")
				require.False(t, known)
				require.Empty(t, v.Erasures("globex"))
				require.ErrorContains(t, v.Damaged("globex"), c.ID)
				require.Len(t, v.Damage(), 1)
			}
			require.Equal(t, 1, strings.Count(log.String(), "can't be understood"), "once in a while")
			require.Contains(t, log.String(), c.ID)
			_, err := d.Register(t.Context(), "globex")
			require.ErrorContains(t, err, c.ID, "it is not registered once more, and nobody waits for it")
			if was != nil {
				put(t, docs, *was)
				v, err := d.Refresh(t.Context())
				require.NoError(t, err)
				require.Empty(t, v.Damage())
				_, known := v.Tenant("globex")
				require.True(t, known)
				require.Contains(t, log.String(), "understood again")
			}
		})
	}
}

// What nobody can tell the tenant of, and what all tenants are placed by, is an error that names it.
func TestDamagedDocumentOfAllTenants(t *testing.T) {
	for _, c := range []store.Document{
		{Kind: tenant.KindEpoch, ID: "~period.20270101", Body: []byte(`{"from":"x"}`)},
		{Kind: erasure.Kind, ID: "nobody.order", Body: []byte(`{"tenant":7}`)},
	} {
		d, docs, _ := damagedFixture(t)
		before := d.Snapshot()
		put(t, docs, c)
		for range 3 {
			_, err := d.Refresh(t.Context())
			require.ErrorContains(t, err, c.ID)
			require.Same(t, before, d.Snapshot(), "the old one stays, and grows too old to be used")
		}
	}
}

// A container with a damaged document is read, and neither written nor changed. Others can still be asked for.
func TestDamagedMonth(t *testing.T) {
	d, docs, _ := damagedFixture(t)
	const name = "chunks-globex-2026-11"
	put(t, docs, store.Document{Kind: control.KindMonth, ID: name, Body: []byte(`{"state":7}`)})
	v, err := d.Refresh(t.Context())
	require.NoError(t, err)
	require.True(t, v.HasContainer(name))
	require.True(t, v.Expired(name), "writers keep off")
	require.Len(t, v.Damage(), 1)
	require.Len(t, v.Tenants(), 2)
	for _, state := range []control.MonthState{control.MonthAsked, control.MonthExpired, control.MonthDropping} {
		_, err := d.Mark(t.Context(), v.Month(name), state)
		require.ErrorContains(t, err, "damaged")
	}
	require.NoError(t, d.AskMonth(t.Context(), "chunks-globex-2026-12", ""))
	require.True(t, d.Snapshot().HasContainer("chunks-globex-2026-12"))
}

// A backfill that can't be understood lets in nothing, and costs nobody else anything.
func TestDamagedBackfill(t *testing.T) {
	d, docs, _ := damagedFixture(t)
	put(t, docs, store.Document{Kind: control.KindBackfill, ID: "b1", Body: []byte(`{"from":"x"}`)})
	v, err := d.Refresh(t.Context())
	require.NoError(t, err)
	_, known := v.Backfill("b1")
	require.False(t, known)
	require.Len(t, v.Damage(), 1)
	require.Len(t, v.Tenants(), 2)
}

// A stream that can't be understood may be of any topic: topics with a newer one go on, and others wait for it.
func TestDamagedStream(t *testing.T) {
	_, docs, _ := damagedFixture(t)
	streams := stream.NewStreams(docs)
	for _, topic := range []string{"old", "lost", "new"} {
		_, err := streams.Find(t.Context(), "c1", topic, 1)
		require.NoError(t, err)
	}
	newest, err := streams.Find(t.Context(), "c1", "new", 1)
	require.NoError(t, err)
	require.NoError(t, streams.Advance(t.Context(), newest.Number, 0, stream.Mark{Offset: 5}))
	put(t, docs, store.Document{Kind: stream.Kind, ID: "0000000002", Body: []byte(`{"cluster":7}`)})

	s, _, marked, err := streams.Of(t.Context(), "c1", "new", 1, 0)
	require.NoError(t, err)
	require.True(t, marked)
	require.Equal(t, newest, s)
	_, _, _, err = streams.Of(t.Context(), "c1", "new", 1, 1)
	require.ErrorContains(t, err, "0000000002", "without a mark an older stream may have it")
	_, err = streams.Find(t.Context(), "c1", "old", 1)
	require.ErrorContains(t, err, "0000000002")
	_, err = streams.All(t.Context())
	require.ErrorContains(t, err, "0000000002")
	next, err := streams.Next(t.Context(), newest, 1)
	require.NoError(t, err)
	require.EqualValues(t, 4, next.Number)
}
