package erase_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"
	"testing"
	"time"

	"binnacle/binning/rollup"
	"binnacle/internal/catalog"
	"binnacle/internal/erasure"
	"binnacle/internal/ops/erase"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

// erased is a world with rollups and a catalog in which an order about a device is cleared.
type erased struct {
	*world
	pages       *storetest.Catalog
	order       *erasure.Order
	certificate *erase.Certificate
	before      rollupDocuments
}

// rollupDocuments are documents by key and id.
type rollupDocuments map[store.RollupKey]map[string][]byte

func (w *world) rollupDocuments() rollupDocuments {
	out := rollupDocuments{}
	for _, target := range w.targets() {
		for _, name := range []string{"", rollup.ManifestKey} {
			key := store.RollupKey{Container: sharding.RollupsContainer(target.Chunks), TenantShard: target.TenantShard,
				Name: name}
			day := telemetry.Range{From: target.Day.Start(), To: target.Day.End()}
			_, err := w.rollups.ScanRollups(w.t.Context(), store.RollupScan{Key: key, Range: day}, func(doc []byte) error {
				d, id := slices.Clone(doc), rollup.ManifestID(target.Day)
				if name == "" {
					x, err := rollup.Parse(slices.Clone(doc))
					require.NoError(w.t, err)
					key.Name, id = x.Key, x.ID
				}
				if out[key] == nil {
					out[key] = map[string][]byte{}
				}
				out[key][id] = d
				return nil
			})
			require.NoError(w.t, err)
		}
	}
	return out
}

// newErased makes a world in which m1 is erased, and reports again on the first day.
func newErased(t *testing.T, order erasure.Order) *erased {
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	e := &erased{world: newWorldAt(t, func() time.Time { return now }, 1e8), pages: storetest.NewCatalog(t)}
	e.pages.Now = e.now
	for d := range devices {
		e.pages.AddPage("acme", storetest.Entry(device(d), nil, "v"))
	}
	now = now.Add(time.Hour)
	e.makeRollups()
	e.before = e.rollupDocuments()
	order.Tenant, order.By = "acme", "jane"
	e.order = e.world.order(order, 50, 1)
	s := e.sweeper()
	for e.orderOf(e.order).ClearedAt.IsZero() {
		require.NoError(t, s.Round(t.Context()))
		now = now.Add(20 * time.Second)
	}
	for _, p := range e.pages.All("acme") { // as the merger of catalogs does: its own tests have more
		if slices.ContainsFunc(p.Entries, func(x catalog.Entry) bool {
			return order.Device == "" || x.Device == order.Device
		}) {
			require.NoError(t, e.pages.Delete(t.Context(), "acme", p.ID))
		}
	}
	e.create("acme", device(1), header(firstDay, 4, 50))
	now = now.Add(time.Hour)
	e.makeRollups()
	var err error
	e.certificate, err = erase.NewCertificate(e.orderOf(e.order), "store.example", nil)
	require.NoError(t, err)
	return e
}

func (e *erased) verify(c *erase.Certificate) *erase.Verification {
	v, err := e.directory.Refresh(e.t.Context())
	require.NoError(e.t, err)
	found, err := erase.Verify(e.t.Context(), erase.VerifyConfig{Chunks: e.memory, Rollups: e.rollups, Catalog: e.pages,
		Annotations: e.notes(), RUs: 1e9, Pause: time.Nanosecond,
		Now: e.memory.Now}, v, c)
	require.NoError(e.t, err)
	return found
}

// notes are the annotations as they are stored.
func (w *world) notes() *tenant.Annotations {
	return tenant.NewAnnotations(w.docs, w.docs, func(string) erasure.List { return nil })
}

var wholeDevice = erasure.Order{Device: "m1", To: erasure.EveryDay}

// A certificate holds for a store that was swept, also if the device reports again; one row, or trace of one, in any
// place is found.
func TestVerifyFindsOneRowInEachPlace(t *testing.T) {
	for name, order := range map[string]erasure.Order{"device": wholeDevice,
		"days": {Device: "m1", From: firstDay, To: firstDay + 2}, "tenant": {To: erasure.EveryDay}} {
		t.Run(name, func(t *testing.T) {
			e := newErased(t, order)
			found := e.verify(e.certificate)
			require.Empty(t, found.Findings)
			require.Equal(t, 1, found.Newer)
			require.Positive(t, found.Chunks)
			require.Positive(t, found.Rollups)
			require.Zero(t, found.Expired)
			finds := func(problem string) {
				t.Helper()
				found := e.verify(e.certificate).Findings
				require.Len(t, found, 1, problem)
				require.Contains(t, found[0].Problem, problem)
			}

			// A chunk, under each key of the tenant.
			v, err := e.directory.Refresh(t.Context())
			require.NoError(t, err)
			known, _ := v.Tenant("acme")
			for _, x := range known.Placement.Visits(nil, telemetry.Range{From: firstDay.Start(), To: firstDay.End()}) {
				key := x.Key
				key.Device = "m1"
				h := header(firstDay+1, 0, -1)
				h.ID.Partition = 1
				for problem, offsets := range map[string][2]int64{"that are erased": {0, 9}, "from before and after": {45, 60}} {
					h.First, h.Through = offsets[0], offsets[1]
					e.plant(key, h)
					finds(problem)
					_, err = e.memory.DeleteChunk(t.Context(), key, h.ID.String())
					require.NoError(t, err)
				}
			}

			// Each document of rollups that was there before, alone.
			planted := 0
			after := e.rollupDocuments()
			for key, docs := range e.before {
				for id, doc := range docs {
					if after[key][id] != nil || !e.order.Matches("m1", dayOf(t, key, doc)) {
						continue
					}
					if key.Name == rollup.ManifestKey { // names no device
						m, err := rollup.ParseManifest(doc)
						require.NoError(t, err)
						m.MarkRaw("m1", 1)
						doc, err = m.Encode()
						require.NoError(t, err)
					}
					planted++
					_, err := e.rollups.CreateRollup(t.Context(), key, id, doc)
					require.NoError(t, err)
					found := e.verify(e.certificate).Findings
					require.Len(t, found, 1, "%v %s", key, id)
					require.Equal(t, id, found[0].ID)
					_, err = e.rollups.DeleteRollup(t.Context(), key, id)
					require.NoError(t, err)
				}
			}
			require.Greater(t, planted, 3)

			// A page of the catalog.
			if e.order.IsWhole() {
				id, doc, err := catalog.Encode(catalog.Page{Entries: []catalog.Entry{storetest.Entry("m1", nil, "w")}})
				require.NoError(t, err)
				require.NoError(t, e.pages.Create(t.Context(), "acme", id, doc))
				finds("older than the order")
				require.NoError(t, e.pages.Delete(t.Context(), "acme", id))
			}

			// An annotation, which orders about a whole tenant are about.
			_, err = e.notes().Add(t.Context(), "acme", tenant.Annotation{Text: "x", Time: 1, Made: 1}, 0)
			require.NoError(t, err)
			if order.Device == "" {
				finds("has 1 annotations of before the order")
				_, err = e.notes().Remove(t.Context(), "acme", func(tenant.Annotation) bool { return true })
				require.NoError(t, err)
			}
			require.Empty(t, e.verify(e.certificate).Findings)
		})
	}
}

func dayOf(t *testing.T, key store.RollupKey, doc []byte) telemetry.Day {
	if key.Name == rollup.ManifestKey {
		m, err := rollup.ParseManifest(doc)
		require.NoError(t, err)
		return m.Day
	}
	d, err := rollup.Parse(slices.Clone(doc))
	require.NoError(t, err)
	return d.Day
}

// A certificate holds while a newer order about the device is swept and not cleared: rollups may still show the device.
func TestVerifyBesideANewerOrder(t *testing.T) {
	e := newErased(t, wholeDevice)
	now := e.now()
	e.now = func() time.Time { return now }
	newer := e.world.order(erasure.Order{Tenant: "acme", Device: "m1", To: erasure.EveryDay}, 1000)
	s := e.sweeper()
	for e.orderOf(newer).ClearedAt.IsZero() {
		require.NoError(t, s.Round(t.Context()))
		require.Empty(t, e.verify(e.certificate).Findings)
		now = now.Add(20 * time.Second)
	}
	require.Empty(t, e.verify(e.certificate).Findings)
}

// A certificate holds while rollups are removed for a newer order, their manifest first.
func TestVerifyWhileRollupsAreCleared(t *testing.T) {
	e := newErased(t, wholeDevice)
	now, deletes := e.now(), 0
	e.now = func() time.Time { return now }
	newer := e.world.order(erasure.Order{Tenant: "acme", Device: "m1", To: erasure.EveryDay}, 1000)
	e.rollups.Fault = func(op storetest.RollupOp) *storetest.Fault {
		if op.Kind == storetest.DeleteRollup {
			deletes++
			require.Empty(t, e.verify(e.certificate).Findings)
		}
		return nil
	}
	s := e.sweeper()
	for e.orderOf(newer).ClearedAt.IsZero() {
		require.NoError(t, s.Round(t.Context()))
		now = now.Add(20 * time.Second)
	}
	require.Greater(t, deletes, 1)
}

// A certificate holds where chunks of after the order have expired: rollups outlive them.
func TestVerifyOfExpiredDays(t *testing.T) {
	e := newErased(t, wholeDevice)
	now := e.now()
	e.now = func() time.Time { return now }
	change, err := tenant.RetentionChange("5d", e.now)
	require.NoError(t, err)
	require.NoError(t, tenant.NewTenants(e.docs).Set(t.Context(), "acme", change))
	now = now.Add(3 * time.Hour)
	for _, d := range e.memory.Documents() { // as a sweep of hidden days does
		_, err := e.memory.DeleteChunk(t.Context(), d.Key, d.ID)
		require.NoError(t, err)
	}
	require.Empty(t, e.verify(e.certificate).Findings)
}

// A certificate that is not of this account and order does not hold.
func TestVerifyComparesOrders(t *testing.T) {
	e := newErased(t, wholeDevice)
	for problem, change := range map[string]func(*erase.Certificate){
		"does not have the order":  func(c *erase.Certificate) { c.Order += "x" },
		"other devices, days":      func(c *erase.Certificate) { c.To = firstDay + 9 },
		"other times":              func(c *erase.Certificate) { c.Swept = c.Swept.Add(-time.Hour) },
		"the certificate 2":        func(c *erase.Certificate) { c.Chunks[0].Chunks = 2 },
		"others than those of the": func(c *erase.Certificate) { c.Chunks[0].Digest = strings.Repeat("0", 64) },
	} {
		c := *e.certificate
		c.Chunks = slices.Clone(c.Chunks)
		change(&c)
		found := e.verify(&c)
		require.NotEmpty(t, found.Findings, problem)
		require.Contains(t, found.Findings[0].Problem, problem)
	}
	c := *e.certificate
	c.Chunks = slices.Clone(c.Chunks)
	c.Chunks[0].Chunks += 3
	require.Equal(t, 3, e.verify(&c).Expired)

	announced, err := e.orders.Announce(t.Context(), erasure.Order{Tenant: "acme", To: 1})
	require.NoError(t, err)
	_, err = erase.NewCertificate(announced, "", nil)
	require.ErrorContains(t, err, "has not ended")
}

// A signature holds for the certificate and the key that it was made of and with, however the file is laid out.
func TestSignaturesOfCertificates(t *testing.T) {
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c := &erase.Certificate{Version: erase.CertificateVersion, Tenant: "acme", Device: "m1<", Order: "o1"}
	var others []byte
	for _, key := range []any{edwards, curve} {
		private := pemOf("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(key)))
		public := pemOf("PUBLIC KEY", must(x509.MarshalPKIXPublicKey(key.(crypto.Signer).Public())))
		file, err := c.Encode(private)
		require.NoError(t, err)
		for _, layout := range [][]byte{file, []byte(strings.ReplaceAll(string(file), "\n", "\r\n\t"))} {
			got, isSigned, err := erase.DecodeCertificate(layout, public)
			require.NoError(t, err)
			require.True(t, isSigned)
			require.Equal(t, "m1<", got.Device)
		}
		_, _, err = erase.DecodeCertificate([]byte(strings.Replace(string(file), `"acme"`, `"bcme"`, 1)), public)
		require.ErrorIs(t, err, erase.ErrSignature)
		if others != nil {
			_, _, err = erase.DecodeCertificate(file, others)
			require.ErrorIs(t, err, erase.ErrSignature)
		}
		others = public
	}
	file, err := c.Encode(nil)
	require.NoError(t, err)
	_, isSigned, err := erase.DecodeCertificate(file, nil)
	require.NoError(t, err)
	require.False(t, isSigned)
	_, _, err = erase.DecodeCertificate(file, others)
	require.ErrorIs(t, err, erase.ErrUnsigned)
	for problem, text := range map[string]string{
		"unknown field": strings.Replace(string(file), `"tenant"`, `"tenants"`, 1),
		"version 9":     strings.Replace(string(file), `"v": 1`, `"v": 9`, 1),
		"not a":         "chunk",
	} {
		_, _, err = erase.DecodeCertificate([]byte(text), nil)
		require.ErrorContains(t, err, problem)
	}
	require.ErrorContains(t, erase.CheckSignKey([]byte("secret")), "not PEM")
	require.ErrorContains(t, erase.CheckSignKey(pemOf("PRIVATE KEY", []byte("secret"))), "the private key")
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
