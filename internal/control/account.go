package control

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"binnacle/internal/store"
	"binnacle/internal/tenant"
	"binnacle/sharding"
)

// KindAccount is the kind of the document that names a database among others, once one was copied from.
const KindAccount = "account"

const accountID = "name"

// accountBody is the document that names a database: docs/internals/format/control.md.
type accountBody struct {
	Name string `json:"name"`
}

// AccountName returns the name of a database, by which others know what was copied from it (rule T1). It stores a
// random one if the database has no name yet.
func AccountName(ctx context.Context, docs store.Documents) (string, error) {
	_, err := docs.Create(ctx, store.NewDocument(KindAccount, accountID, accountBody{rand.Text()}))
	if err != nil && !errors.Is(err, store.ErrExists) {
		return "", fmt.Errorf("name the database: %w", err)
	}
	for pauses := store.Lagging.Begin(); ; {
		name, found, err := KnownAccountName(ctx, docs)
		if err != nil || found {
			return name, err
		}
		if err := pauses.Wait(ctx); err != nil {
			return "", err
		}
	}
}

// KnownAccountName returns the name of a database, and whether it has one.
func KnownAccountName(ctx context.Context, docs store.Documents) (name string, found bool, err error) {
	d, found, err := docs.Read(ctx, KindAccount, accountID)
	if err != nil || !found {
		return "", false, err
	}
	var b accountBody
	err = d.Decode(&b)
	return b.Name, true, err
}

// Adopt makes a tenant of another database known, with its settings and the placement that it has there last, unless it
// is known already (rule T2). The document is that of the other database. All is stored in one document, so that no
// ingester places readings of the tenant otherwise. It returns a snapshot that has the tenant.
func (d *Directory) Adopt(ctx context.Context, doc store.Document, last sharding.Epoch) (*Snapshot, error) {
	v, err := d.Refresh(ctx)
	if err != nil || v.has(doc.ID) {
		return v, err
	}
	last.From = 0
	adopted, err := tenant.Adopted(doc, last, v.Period().Period)
	if err != nil {
		return nil, fmt.Errorf("tenant %s: %w", doc.ID, err)
	}
	_, err = d.cfg.Documents.Create(ctx, adopted)
	if err != nil && !errors.Is(err, store.ErrExists) {
		return nil, fmt.Errorf("register tenant %s: %w", doc.ID, err)
	}
	return d.refreshUntil(ctx, func(v *Snapshot) bool { return v.has(doc.ID) })
}
