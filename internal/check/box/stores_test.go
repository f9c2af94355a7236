package box_test

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/catalog"
	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/tenant"
	"binnacle/sharding"
)

// What an actor sees of the store: the fakes of the contracts, asked when the seed says so.
type (
	documents struct{ a *actor } // store.Documents and store.Feed
	pages     struct{ a *actor } // store.Catalog
	chunks    struct{ a *actor } // store.Writer, Reader, Deleter, Replacer, HeaderReader
)

// without returns a context that does not end: the store does what it was sent.
func without(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }

// answer asks the store, and returns what do has found, or why there is no answer.
func answer[T any](ctx context.Context, a *actor, c *call, do func(ctx context.Context, v view) (T, error)) (T, error) {
	var found T
	var err error
	c.apply = func(v view) {
		a.b.view = v
		found, err = do(without(ctx), v)
		a.b.view = view{}
	}
	if lost := a.askStore(ctx, c); lost != nil {
		var none T
		return none, lost
	}
	a.count(c)
	return found, err
}

// charged charges a read of the store to those who count that, and to the actor.
func (a *actor) charged(ctx context.Context) context.Context {
	ctx = store.WithMeter(ctx, &a.meter)
	store.Charge(ctx, 1, false)
	return ctx
}

// Create implements store.Documents.
func (d documents) Create(ctx context.Context, doc store.Document) (string, error) {
	return answer(ctx, d.a, &call{kind: "create", what: doc.Kind + "/" + doc.ID + " " + digest(doc.Body),
		isWrite: true},
		func(ctx context.Context, _ view) (string, error) {
			etag, err := d.a.b.stores.Docs.Create(ctx, doc)
			if err == nil {
				d.a.b.documented = time.Now()
				d.a.b.oracle.document(doc, d.a)
			}
			return etag, err
		})
}

// Replace implements store.Documents.
func (d documents) Replace(ctx context.Context, doc store.Document) (string, error) {
	return answer(ctx, d.a, &call{kind: "replace", what: doc.Kind + "/" + doc.ID + " " + digest(doc.Body),
		isWrite: true},
		func(ctx context.Context, _ view) (string, error) {
			if doc.Kind == control.KindMonth {
				d.a.b.tempt(doc.ID)
			}
			etag, err := d.a.b.stores.Docs.Replace(ctx, doc)
			if err == nil {
				d.a.b.documented = time.Now()
				if doc.Kind == tenant.Kind {
					d.a.b.oracle.keeps(d.a, doc)
				}
			}
			return etag, err
		})
}

// found is a document, or that there is none.
type found struct {
	store.Document
	ok bool
}

// Read implements store.Documents.
func (d documents) Read(ctx context.Context, kind, id string) (store.Document, bool, error) {
	f, err := answer(ctx, d.a, &call{kind: "read", what: kind + "/" + id}, func(ctx context.Context, _ view) (f found,
		err error) {
		f.Document, f.ok, err = d.a.b.stores.Docs.Read(ctx, kind, id)
		return f, err
	})
	return f.Document, f.ok, err
}

// List implements store.Documents.
func (d documents) List(ctx context.Context, kind string) ([]store.Document, error) {
	return answer(ctx, d.a, &call{kind: "list", what: kind}, func(ctx context.Context, _ view) ([]store.Document,
		error) {
		if kind == erasure.Kind {
			d.a.looked = time.Now()
		}
		return d.a.b.stores.Docs.List(ctx, kind)
	})
}

// changes are what a feed answers.
type changes struct {
	docs []store.Document
	mark string
}

// Changes implements store.Feed.
func (d documents) Changes(ctx context.Context, mark string, since time.Time) ([]store.Document, string, error) {
	c, err := answer(ctx, d.a, &call{kind: "changes", what: "since " + mark}, func(ctx context.Context, _ view) (c changes,
		err error) {
		c.docs, c.mark, err = d.a.b.stores.Docs.Changes(ctx, mark, since)
		return c, err
	})
	return c.docs, c.mark, err
}

// nothing is the answer of a write.
type nothing struct{}

// Create implements store.Catalog.
func (p pages) Create(ctx context.Context, tenant, id string, doc []byte) error {
	_, err := answer(ctx, p.a, &call{kind: "create", pays: tenant, what: "page " + tenant + "/" + id, isWrite: true},
		func(ctx context.Context, _ view) (nothing, error) {
			p.a.b.catalogued++
			return nothing{}, p.a.b.stores.Catalog.Create(ctx, tenant, id, doc)
		})
	return err
}

// Pages implements store.Catalog.
func (p pages) Pages(ctx context.Context, tenant string, since int64) ([]store.PageInfo, error) {
	return answer(ctx, p.a, &call{kind: "pages", pays: tenant, what: fmt.Sprintf("%s since %d", tenant, since)},
		func(ctx context.Context, _ view) ([]store.PageInfo, error) {
			return p.a.b.stores.Catalog.Pages(p.a.charged(ctx), tenant, since)
		})
}

// page is a page of the catalog.
type page struct {
	id  string
	doc []byte
}

// Read implements store.Catalog.
func (p pages) Read(ctx context.Context, tenant string, ids []string, yield func(id string, doc []byte) error) error {
	all, err := answer(ctx, p.a, &call{kind: "read", pays: tenant, what: fmt.Sprintf("%d pages of %s", len(ids), tenant)},
		func(ctx context.Context, _ view) (all []page, err error) {
			err = p.a.b.stores.Catalog.Read(p.a.charged(ctx), tenant, ids, func(id string, doc []byte) error {
				all = append(all, page{id, bytes.Clone(doc)})
				return nil
			})
			return all, err
		})
	for _, one := range all {
		if err := yield(one.id, one.doc); err != nil {
			return err
		}
	}
	return err
}

// Delete implements store.Catalog.
func (p pages) Delete(ctx context.Context, tenant, id string) error {
	_, err := answer(ctx, p.a, &call{kind: "delete", pays: tenant, what: "page " + tenant + "/" + id, isWrite: true},
		func(ctx context.Context, _ view) (nothing, error) {
			p.a.b.catalogued++
			return nothing{}, p.a.b.stores.Catalog.Delete(ctx, tenant, id)
		})
	return err
}

// digest identifies contents in a story.
func digest(contents ...[]byte) string {
	h := fnv.New32a()
	for _, c := range contents {
		_, _ = h.Write(c)
	}
	return fmt.Sprintf("%08x", h.Sum32())
}

// onKey is a call about a key of a container of chunks or rollups.
func onKey(k sharding.Key, kind, what string) *call {
	return &call{kind: kind, pays: k.TenantShard, device: k.Device,
		what:    k.Container + " " + k.TenantShard + "/" + k.Device + " " + what,
		isWrite: slices.Contains([]string{"create", "delete", "replace"}, kind)}
}

// Create implements store.Writer.
func (s chunks) Create(ctx context.Context, key sharding.Key, id string, doc []byte) (store.Receipt, error) {
	doc = bytes.Clone(doc)
	sent := time.Now()
	return answer(ctx, s.a, onKey(key, "create", id+" "+digest(doc)),
		func(ctx context.Context, _ view) (store.Receipt, error) {
			r, err := s.a.b.stores.Chunks.Create(ctx, key, id, doc)
			if err == nil {
				s.a.b.stored(s.a)
				s.a.b.oracle.created(s.a, key.Device, doc, sent)
			}
			return r, err
		})
}

// stored notes that an actor has stored a chunk. One that awaits the acknowledgement of a dead letter may die now: the
// chunk must not have passed it (rule W5).
func (b *box) stored(a *actor) {
	if b.chunked = time.Now(); b.firstChunk.IsZero() {
		b.firstChunk = b.chunked
	}
	if !b.limiting.on || b.limiting.rnd.IntN(3) > 0 {
		return
	}
	for _, s := range b.slots {
		for _, x := range s.lives {
			if x.actor == a && slices.ContainsFunc(b.pending, func(c *call) bool { return c.actor == a && c.isLetter }) {
				s.doomed, s.doomedAt = x, b.events
			}
		}
	}
}

// Read implements store.Writer.
func (s chunks) Read(ctx context.Context, key sharding.Key, id, session string) ([]byte, store.Receipt, error) {
	doc, err := answer(ctx, s.a, onKey(key, "read", id), func(ctx context.Context, v view) ([]byte,
		error) {
		if v.stale {
			return nil, store.ErrNotFound
		}
		doc, _, err := s.a.b.stores.Chunks.Read(ctx, key, id, session)
		return doc, err
	})
	return doc, store.Receipt{}, err
}

// Last implements store.Writer.
func (s chunks) Last(ctx context.Context, key sharding.Key, chain store.Chain) (store.Tail, store.Receipt, error) {
	tail, err := answer(ctx, s.a, onKey(key, "last", fmt.Sprint(chain)), func(ctx context.Context,
		_ view) (store.Tail, error) {
		tail, _, err := s.a.b.stores.Chunks.Last(ctx, key, chain)
		return tail, err
	})
	return tail, store.Receipt{}, err
}

// DeleteChunk implements store.Deleter.
func (s chunks) DeleteChunk(ctx context.Context, key sharding.Key, id string) (store.Receipt, error) {
	return answer(ctx, s.a, onKey(key, "delete", id),
		func(ctx context.Context, _ view) (store.Receipt, error) {
			s.a.b.oracle.deletes(s.a, key, id)
			return s.a.b.stores.Chunks.DeleteChunk(ctx, key, id)
		})
}

// ReplaceChunk implements store.Replacer.
func (s chunks) ReplaceChunk(ctx context.Context, old store.Version, doc []byte) (store.Receipt, error) {
	doc = bytes.Clone(doc)
	sent := time.Now()
	return answer(ctx, s.a, onKey(old.Key, "replace", old.ID),
		func(ctx context.Context, _ view) (store.Receipt, error) {
			was, _, _ := s.a.b.stores.Chunks.Read(ctx, old.Key, old.ID, "")
			r, err := s.a.b.stores.Chunks.ReplaceChunk(ctx, old, doc)
			if err == nil {
				s.a.b.oracle.replaced(old.Key.Device, was, doc, sent)
			}
			return r, err
		})
}

// scanned is what a scan has found.
type scanned struct {
	usage store.Usage
	docs  [][]byte
}

// keep keeps copies of the documents of a scan.
func (s *scanned) keep(doc []byte) error {
	s.docs = append(s.docs, bytes.Clone(doc))
	return nil
}

// lend yields the documents of a scan.
func (s *scanned) lend(ctx context.Context, charge func(float64) error, yield func([]byte) error) error {
	if charge != nil {
		if err := charge(s.usage.RUs); err != nil {
			return err
		}
	}
	for _, doc := range s.docs {
		if err := yield(doc); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Scan implements store.Reader.
func (s chunks) Scan(ctx context.Context, q store.Scan, yield func(doc []byte) error) (store.Usage, error) {
	charge := q.Charge
	q.Charge = nil
	what := fmt.Sprintf(" %v %d-%d %v %d %d %t", q.Devices, q.Range.From, q.Range.To, q.Windows,
		q.Since, q.Before, q.Descending)
	out, err := answer(ctx, s.a, onKey(q.Key, "scan", what), func(ctx context.Context, v view) (out scanned,
		err error) {
		ctx = s.a.charged(ctx)
		out.usage, err = s.a.b.stores.Chunks.Scan(ctx, q, out.keep)
		if err == nil && v.torn {
			out, err = s.a.b.tear(ctx, q, out)
		}
		return out, err
	})
	if err == nil {
		err = out.lend(ctx, charge, yield)
	}
	return out.usage, err
}

// tear returns what a scan finds that replicas answer by turns: one that lags, and one that has everything.
func (b *box) tear(ctx context.Context, q store.Scan, lagging scanned) (torn scanned, err error) {
	b.view.lag = 0
	var all scanned
	all.usage, err = b.stores.Chunks.Scan(ctx, q, all.keep)
	torn.usage = all.usage
	former := map[string][]byte{}
	for _, doc := range lagging.docs {
		former[placeOf(doc)] = doc
	}
	for _, doc := range all.docs {
		switch was, ok := former[placeOf(doc)]; {
		case bytes.Equal(doc, was) || b.rnd.IntN(2) == 0:
			torn.docs = append(torn.docs, doc)
		case ok: // it was replaced
			torn.docs = append(torn.docs, was)
		}
	}
	return torn, err
}

// placeOf names a chunk, the same for each version of it. Documents that can't be read share a name.
func placeOf(doc []byte) string {
	c, _ := store.ParseStoredChunk(doc)
	return fmt.Sprint(c.Key, c.ID)
}

// Headers implements store.HeaderReader.
func (s chunks) Headers(ctx context.Context, q store.HeaderScan, yield func(header []byte) error) (store.Usage, error) {
	charge := q.Charge
	q.Charge = nil
	out, err := answer(ctx, s.a, &call{kind: "headers", what: fmt.Sprintf("%s %s %s/%s", q.Container, q.Day, q.Tenant,
		q.Device)}, func(ctx context.Context, _ view) (out scanned, err error) {
		out.usage, err = s.a.b.stores.Chunks.Headers(ctx, q, out.keep)
		return out, err
	})
	if err == nil {
		err = out.lend(ctx, charge, yield)
	}
	return out.usage, err
}

// hookStores makes the fakes show what the replica that was picked shows.
func (b *box) hookStores() {
	b.stores.Chunks.Now, b.stores.Chunks.Expiry = time.Now, true
	b.stores.Chunks.Behind = func() time.Duration { return b.view.lag }
	b.stores.Chunks.Fault = func(op storetest.Op) *storetest.Fault {
		if op.Kind == storetest.Last && b.view.hide > 0 {
			return &storetest.Fault{Hide: b.view.hide}
		}
		return nil
	}
	b.stores.Docs.Lagging = func(string) bool { return b.view.stale && time.Since(b.documented) < min(maxLag, b.view.lag) }
	b.stores.Chunks.Gone = func(key sharding.Key, id chunk.ID) bool {
		return b.retaining.on && !b.oracle.isKeptChunk(key, id.String())
	}
	b.stores.Catalog.Now = time.Now
}

var (
	_ store.Catalog      = pages{}
	_ store.Documents    = documents{}
	_ store.Feed         = documents{}
	_ store.Writer       = chunks{}
	_ store.Reader       = chunks{}
	_ store.Replacer     = chunks{}
	_ store.HeaderReader = chunks{}
	_                    = catalog.Entry{}
)
