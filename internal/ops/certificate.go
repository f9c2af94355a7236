package ops

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// TLS sets the encryption of a listener. The zero value is none.
type TLS struct {
	SelfMade bool   `name:"tls" help:"Use TLS with a certificate for localhost, which is created once and kept in the data directory."`
	Cert     string `name:"tls-cert" help:"File with the TLS certificate, PEM, instead of --tls. It needs --tls-key." placeholder:"FILE"`
	Key      string `name:"tls-key" help:"File with the key of --tls-cert, PEM." placeholder:"FILE"`
}

// On reports whether connections are encrypted.
func (t TLS) On() bool { return t.SelfMade || t.Cert != "" || t.Key != "" }

// Scheme returns http or https.
func (t TLS) Scheme() string {
	if t.On() {
		return "https"
	}
	return "http"
}

// A self-made certificate is valid that long, and replaced when less than the margin is left.
const (
	certificateLife   = 365 * 24 * time.Hour
	certificateMargin = 7 * 24 * time.Hour
)

// Certificate loads the certificate, and creates a self-signed one if it is missing. file is its public part, for
// clients to trust.
func (t TLS) Certificate(dir string, now time.Time) (cert tls.Certificate, file string, err error) {
	if t.Cert == "" != (t.Key == "") {
		return cert, "", fmt.Errorf("a TLS certificate and its key are given together, or neither")
	}
	file, key := t.Cert, t.Key
	if file == "" {
		file, key = filepath.Join(dir, "tls", "cert.pem"), filepath.Join(dir, "tls", "key.pem")
		if cert, err = tls.LoadX509KeyPair(file, key); err == nil && now.Before(cert.Leaf.NotAfter.Add(-certificateMargin)) {
			return cert, file, nil
		}
		if err := makeCertificate(file, key, now); err != nil {
			return cert, "", fmt.Errorf("make a TLS certificate in %s: %w", filepath.Dir(file), err)
		}
	}
	if cert, err = tls.LoadX509KeyPair(file, key); err != nil {
		return cert, "", fmt.Errorf("TLS certificate %s, key %s: %w", file, key, err)
	}
	return cert, file, nil
}

// makeCertificate writes a self-signed certificate for localhost and the loopback addresses. It is its
// own authority, so that a client needs nothing but this file to trust: SSL_CERT_FILE in Go.
func makeCertificate(file, keyFile string, now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "localhost", Organization: []string{"binnacle emulator"}},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certificateLife),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		0o600); err != nil {
		return err
	}
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644)
}
