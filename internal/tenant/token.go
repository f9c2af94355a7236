package tenant

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// KindToken is the kind of token documents.
const KindToken = "token"

// Scope is something that the bearer of a token may do.
type Scope string

// The scopes.
const (
	ScopeRead  Scope = "read"  // ask for the tenant's readings
	ScopeWrite Scope = "write" // publish readings of the tenant
	ScopeAdmin Scope = "admin" // see and change how the tenant is kept
)

// ParseScope returns the scope of a name.
func ParseScope(name string) (Scope, error) {
	s := Scope(name)
	if s != ScopeRead && s != ScopeWrite && s != ScopeAdmin {
		return "", fmt.Errorf("scope %q is none of %s, %s and %s", name, ScopeRead, ScopeWrite, ScopeAdmin)
	}
	return s, nil
}

// Token is a bearer token without its secret: the holder acts for the tenant, as far as its scopes go. The secret is
// not stored, only its hash.
type Token struct {
	ID      string
	Tenant  string
	Scopes  []Scope
	Note    string // the person or program that it was given to
	Created time.Time
	Expires time.Time // zero: never
	Revoked time.Time // zero: it is not
	// Damage is why the document can't be read; such a token admits no caller.
	Damage error

	hash [sha256.Size]byte
	etag string
}

// Ended reports whether the token is worth nothing any more, and why.
func (t Token) Ended(now time.Time) (why string, ended bool) {
	switch {
	case t.Damage != nil:
		return "damaged", true
	case !t.Revoked.IsZero():
		return "revoked", true
	case !t.Expires.IsZero() && !now.Before(t.Expires):
		return "expired", true
	}
	return "", false
}

// Matches reports whether the token is the one with this secret, in time that does not depend on the secret.
func (t Token) Matches(secret string) bool {
	hash := hashOf(secret)
	return subtle.ConstantTimeCompare(hash[:], t.hash[:]) == 1
}

// hashOf returns the hash of a secret. It has 130 random bits, so its hash needs no salt and no work factor.
func hashOf(secret string) [sha256.Size]byte { return sha256.Sum256([]byte(secret)) }

const (
	tokenPrefix = "bn_"
	tokenIDSize = 10
)

// TokenID returns the id that a secret names; ok is false when it can't be a secret of this package.
func TokenID(secret string) (id string, ok bool) {
	rest, prefixed := strings.CutPrefix(secret, tokenPrefix)
	id, random, parted := strings.Cut(rest, "_")
	return id, prefixed && parted && len(id) == tokenIDSize && len(random) >= 26
}

// tokenBody is a token document: docs/internals/format/control.md.
type tokenBody struct {
	Tenant  string  `json:"tenant"`
	Scopes  []Scope `json:"scopes"`
	Note    string  `json:"note,omitempty"`
	Hash    string  `json:"sha256"`
	Created int64   `json:"created"`
	Expires int64   `json:"expires,omitempty"`
	Revoked int64   `json:"revoked,omitempty"`
}

// Tokens keeps bearer tokens. It holds no state and is safe for any number of callers.
type Tokens struct{ docs store.Documents }

// NewTokens makes Tokens over the control documents.
func NewTokens(docs store.Documents) *Tokens { return &Tokens{docs} }

// Check returns the first fault of a new token, or nil.
func (t Token) Check() error {
	if err := telemetry.CheckTenant(t.Tenant); err != nil {
		return err
	}
	if len(t.Scopes) == 0 {
		return errors.New("a token needs a scope")
	}
	for _, scope := range t.Scopes {
		if _, err := ParseScope(string(scope)); err != nil {
			return err
		}
	}
	if !t.Expires.IsZero() && !t.Expires.After(t.Created) {
		return fmt.Errorf("the token would have expired at %s", t.Expires.UTC().Format(time.RFC3339))
	}
	return nil
}

// Add makes a token. It is the only time that the secret is returned.
func (s *Tokens) Add(ctx context.Context, t Token) (secret string, added Token, err error) {
	if err := t.Check(); err != nil {
		return "", Token{}, err
	}
	t.ID = strings.ToLower(rand.Text()[:tokenIDSize])
	secret = tokenPrefix + t.ID + "_" + rand.Text()
	t.hash = hashOf(secret)
	if t.etag, err = s.docs.Create(ctx, t.document()); err != nil {
		return "", Token{}, fmt.Errorf("add a token of tenant %s: %w", t.Tenant, err)
	}
	return secret, t, nil
}

// ErrNoToken says that there is no such token.
var ErrNoToken = errors.New("there is no such token")

// Revoke ends a token now. One that has been revoked stays as it is.
func (s *Tokens) Revoke(ctx context.Context, id string, now time.Time) error {
	err := store.Contend(ctx, func() error {
		all, err := s.List(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(t Token) bool { return t.ID == id })
		if i < 0 {
			return ErrNoToken
		}
		t := all[i]
		if t.Damage != nil || !t.Revoked.IsZero() {
			return t.Damage
		}
		t.Revoked = now
		_, err = s.docs.Replace(ctx, t.document())
		return err
	})
	if err != nil {
		return fmt.Errorf("revoke token %s: %w", id, err)
	}
	return nil
}

// List returns all tokens, by id, also the expired ones. If the document of a token can't be read (it may be of a later
// release) it returns the ID and Damage.
func (s *Tokens) List(ctx context.Context) ([]Token, error) {
	docs, err := s.docs.List(ctx, KindToken)
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	out := make([]Token, len(docs))
	for i, d := range docs {
		if out[i], err = tokenOf(d); err != nil {
			out[i] = Token{ID: d.ID, Damage: err}
		}
	}
	return out, nil
}

func tokenOf(d store.Document) (Token, error) {
	var b tokenBody
	if err := d.Decode(&b); err != nil {
		return Token{}, err
	}
	t := Token{
		ID: d.ID, Tenant: b.Tenant, Scopes: b.Scopes, Note: b.Note, etag: d.ETag,
		Created: store.TimeOf(b.Created), Expires: store.TimeOf(b.Expires), Revoked: store.TimeOf(b.Revoked),
	}
	hash, err := hex.DecodeString(b.Hash)
	if err != nil || len(hash) != len(t.hash) {
		return Token{}, fmt.Errorf("%s document %q: its hash is damaged", d.Kind, d.ID)
	}
	t.hash = [sha256.Size]byte(hash)
	return t, nil
}

func (t Token) document() store.Document {
	d := store.NewDocument(KindToken, t.ID, tokenBody{
		Tenant: t.Tenant, Scopes: t.Scopes, Note: t.Note, Hash: hex.EncodeToString(t.hash[:]),
		Created: store.Millis(t.Created), Expires: store.Millis(t.Expires), Revoked: store.Millis(t.Revoked),
	})
	d.ETag = t.etag
	return d
}
