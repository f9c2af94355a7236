package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// config returns nil when connections are not encrypted.
func (t TLS) config() (*tls.Config, error) {
	if !t.On {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("read the certificates of Kafka's authority: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the certificates of Kafka's authority: %s holds none", t.CA)
		}
	}
	if t.Cert == "" {
		return cfg, nil
	}
	own := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("read the certificate for Kafka: %w", err)
		}
		return &pair, nil
	}
	if _, err := own(); err != nil { // a fault shows at the start, not at the first connection
		return nil, err
	}
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own() }
	return cfg, nil
}
