package control

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

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
func AccountName(ctx context.Context, docs Documents) (string, error) {
	_, err := docs.Create(ctx, newDocument(KindAccount, accountID, accountBody{rand.Text()}))
	if err != nil && !errors.Is(err, ErrExists) {
		return "", fmt.Errorf("name the database: %w", err)
	}
	for pauses := lagging.Begin(); ; {
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
func KnownAccountName(ctx context.Context, docs Documents) (name string, found bool, err error) {
	d, found, err := docs.Read(ctx, KindAccount, accountID)
	if err != nil || !found {
		return "", false, err
	}
	var b accountBody
	err = decode(d, &b)
	return b.Name, true, err
}

// Adopt makes a tenant of another database known, with its settings and the placement that it has there last, unless it
// is known already (rule T2). The document is that of the other database. All is stored in one document, so that no
// ingester places readings of the tenant otherwise. It returns a snapshot that has the tenant.
func (d *Directory) Adopt(ctx context.Context, tenant Document, last sharding.Epoch) (*Snapshot, error) {
	v, err := d.Refresh(ctx)
	if err != nil || v.has(tenant.ID) {
		return v, err
	}
	last.From = 0
	body, err := changeBody(tenant, []Change{{set: func(b *tenantBody) error {
		if b.Epoch, b.Period = last, v.Period().Period; b.Period == sharding.Month {
			b.Period = ""
		}
		return nil
	}}})
	if err != nil {
		return nil, fmt.Errorf("tenant %s: %w", tenant.ID, err)
	}
	_, err = d.cfg.Documents.Create(ctx, Document{Kind: KindTenant, ID: tenant.ID, Body: body})
	if err != nil && !errors.Is(err, ErrExists) {
		return nil, fmt.Errorf("register tenant %s: %w", tenant.ID, err)
	}
	return d.refreshUntil(ctx, func(v *Snapshot) bool { return v.has(tenant.ID) })
}

// copiedFrom begins the cluster of streams that were copied from another database.
const copiedFrom = "copied from "

// IsCopied reports whether the stream was copied from another database: no log is read as it.
func (s Stream) IsCopied() bool { return strings.HasPrefix(s.Cluster, copiedFrom) }

// CopiedStream returns the stream that one of another database is copied as: a number that nothing else uses (rule T1).
// The streams of a database must be asked for in the order of their numbers.
func (s *Streams) CopiedStream(ctx context.Context, account string, number uint32) (uint32, error) {
	copied, err := s.Find(ctx, copiedFrom+account, streamID(number), 0)
	return copied.Number, err
}

// CopiedStreams returns the streams that streams of another database were copied as, by the numbers of the originals.
func CopiedStreams(all []Stream, account string) map[uint32]uint32 {
	out := make(map[uint32]uint32)
	for _, s := range all {
		var number uint32
		if _, err := fmt.Sscanf(s.Topic, "%d", &number); err == nil && s.Cluster == copiedFrom+account {
			out[number] = s.Number
		}
	}
	return out
}
