package erase

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"binnacle/internal/erasure"
	"binnacle/internal/telemetry"
	"binnacle/internal/wire/jsonbody"

	"github.com/go-jose/go-jose/v4"
)

// CertificateVersion is that of certificates.
const CertificateVersion = 1

// Certificate states what an order has erased, once nothing of it is stored any more:
// docs/internals/format/certificate.md.
type Certificate struct {
	Version int           `json:"v"`
	Account string        `json:"account"` // address
	Order   string        `json:"order"`   // id
	Tenant  string        `json:"tenant"`
	Device  string        `json:"device,omitempty"` // none: all devices of the tenant
	From    telemetry.Day `json:"from"`
	To      telemetry.Day `json:"to"`
	By      string        `json:"by"`

	Given time.Time `json:"given"`
	// Hidden is the time from which on no query answers the erased readings.
	Hidden    time.Time          `json:"hidden"`
	Swept     time.Time          `json:"swept"`
	Cleared   time.Time          `json:"cleared"`
	Positions []erasure.Position `json:"positions"`

	Chunks  []erasure.Swept   `json:"chunks"`
	Rollups []erasure.Cleared `json:"rollups"`
	Remains []Remains         `json:"remains"`
}

// Remains is a place that an order does not erase.
type Remains struct {
	Place string     `json:"place"`
	Until *time.Time `json:"until,omitempty"` // nil: not known here
	Note  string     `json:"note,omitempty"`
}

// ErrNotCleared says that an order has not ended.
var ErrNotCleared = errors.New("the erasure has not ended")

// NewCertificate returns the certificate of an order. It fails until the order is cleared.
func NewCertificate(o *erasure.Order, account string, remains []Remains) (*Certificate, error) {
	if o.ClearedAt.IsZero() {
		return nil, fmt.Errorf("%w: the certificate of %s follows when it is cleared, %s after it was swept",
			ErrNotCleared, o.ID, ClearAfter)
	}
	return &Certificate{
		Version: CertificateVersion, Account: account, Order: o.ID, Tenant: o.Tenant, Device: o.Device, From: o.From,
		To: o.To, By: o.By, Given: o.At, Hidden: o.AcknowledgedAt, Swept: o.SweptAt, Cleared: o.ClearedAt,
		Positions: o.Positions(), Chunks: o.Places, Rollups: o.Cleared, Remains: remains,
	}, nil
}

func (c *Certificate) order() *erasure.Order {
	o := &erasure.Order{ID: c.Order, Tenant: c.Tenant, Device: c.Device, From: c.From, To: c.To, By: c.By, At: c.Given}
	return o.Acknowledged(c.Positions)
}

// signedCertificate is a certificate as it is stored in a file.
type signedCertificate struct {
	Certificate json.RawMessage `json:"certificate"`
	// Signature is a JSON Web Signature in compact form, detached (RFC 7515, appendix F) from the compact JSON of the
	// certificate.
	Signature string `json:"signature,omitempty"`
}

// Encode returns the file of a certificate. With a private key, in PEM and PKCS #8, it is signed.
func (c *Certificate) Encode(key []byte) ([]byte, error) {
	body, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	out := signedCertificate{Certificate: body}
	if key != nil {
		if out.Signature, err = sign(body, key); err != nil {
			return nil, err
		}
	}
	file, err := json.MarshalIndent(out, "", "  ")
	return append(file, '\n'), err
}

// CheckSignKey returns an error if a private key can't sign certificates.
func CheckSignKey(key []byte) error {
	_, err := sign(nil, key)
	return err
}

func sign(body, key []byte) (string, error) {
	block, _ := pem.Decode(key)
	if block == nil {
		return "", errors.New("the private key is not PEM")
	}
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return "", fmt.Errorf("the private key: %w", err)
	}
	pair, ok := private.(crypto.Signer)
	if !ok {
		return "", fmt.Errorf("a private key of type %T signs nothing", private)
	}
	algorithm, err := algorithmOf(pair.Public())
	if err != nil {
		return "", err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: private}, nil)
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(body)
	if err != nil {
		return "", err
	}
	return signed.DetachedCompactSerialize()
}

func algorithmOf(public crypto.PublicKey) (jose.SignatureAlgorithm, error) {
	switch k := public.(type) {
	case ed25519.PublicKey:
		return jose.EdDSA, nil
	case *rsa.PublicKey:
		return jose.PS256, nil
	case *ecdsa.PublicKey:
		switch k.Curve.Params().BitSize {
		case 256:
			return jose.ES256, nil
		case 384:
			return jose.ES384, nil
		case 521:
			return jose.ES512, nil
		}
	}
	return "", fmt.Errorf("a key of type %T does not sign certificates: use Ed25519, ECDSA (P-256, P-384, P-521) or RSA",
		public)
}

// ErrUnsigned says that a certificate has no signature to check with a key.
var ErrUnsigned = errors.New("the certificate is not signed")

// ErrSignature says that a signature is not of this certificate and key.
var ErrSignature = errors.New("the signature is not of this certificate by this key")

// DecodeCertificate reads the file of a certificate, and reports whether it has a signature. With a public key, in PEM
// and PKIX form, it fails with ErrUnsigned or ErrSignature unless the key's owner has signed it.
func DecodeCertificate(file, key []byte) (c *Certificate, isSigned bool, err error) {
	var in signedCertificate
	if err := json.Unmarshal(file, &in); err != nil {
		return nil, false, fmt.Errorf("not a certificate: %w", err)
	}
	c = &Certificate{}
	if err := jsonbody.Read(bytes.NewReader(in.Certificate), c); err != nil { // nothing in it is passed over
		return nil, false, fmt.Errorf("not a certificate: %w", err)
	}
	if c.Version != CertificateVersion {
		return nil, false, fmt.Errorf("a certificate of version %d: this release reads version %d", c.Version,
			CertificateVersion)
	}
	if key == nil {
		return c, in.Signature != "", nil
	}
	if in.Signature == "" {
		return nil, false, ErrUnsigned
	}
	return c, true, checkSignature(in, key)
}

func checkSignature(in signedCertificate, key []byte) error {
	block, _ := pem.Decode(key)
	if block == nil {
		return errors.New("the public key is not PEM")
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return fmt.Errorf("the public key: %w", err)
	}
	algorithm, err := algorithmOf(public)
	if err != nil {
		return err
	}
	var body bytes.Buffer
	if err := json.Compact(&body, in.Certificate); err != nil {
		return err
	}
	signed, err := jose.ParseDetached(in.Signature, body.Bytes(), []jose.SignatureAlgorithm{algorithm})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSignature, err)
	}
	if _, err := signed.Verify(public); err != nil {
		return ErrSignature
	}
	return nil
}
