package ops

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// WatchedFiles holds what was made of some files. It checks them for changes now and then, so that secrets and
// certificates can be replaced while the process runs. While they can't be read, the last result stays.
type WatchedFiles[T any] struct {
	files []string
	make  func() (T, error)

	mu              sync.Mutex // guards below
	last            T
	at              time.Time // time of the last look at the files
	fingerprintSeen string    // the files' fingerprint then
}

// recheckEvery is the time between two checks of files.
const recheckEvery = 5 * time.Second

// WatchFiles makes something of files, which must exist and be valid at the start.
func WatchFiles[T any](make func() (T, error), files ...string) (*WatchedFiles[T], error) {
	f := &WatchedFiles[T]{files: files, make: make, at: time.Now()}
	var err error
	f.fingerprintSeen = f.fingerprint()
	f.last, err = make()
	return f, err
}

func (f *WatchedFiles[T]) fingerprint() string {
	var b strings.Builder
	for _, name := range f.files {
		info, err := os.Stat(name) // through links: a mounted secret is one
		if err != nil {
			return ""
		}
		fmt.Fprintf(&b, "%d %d ", info.ModTime().UnixNano(), info.Size())
	}
	return b.String()
}

// Get returns what was made of the files as they are now.
func (f *WatchedFiles[T]) Get() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.Sub(f.at) >= recheckEvery {
		f.at = now
		if seen := f.fingerprint(); seen != f.fingerprintSeen {
			if next, err := f.make(); err == nil {
				f.last, f.fingerprintSeen = next, seen
			}
		}
	}
	return f.last
}

// WatchSecret reads a secret from a file, which must exist.
func WatchSecret(file string) (*WatchedFiles[string], error) {
	return WatchFiles(func() (string, error) {
		b, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		s := strings.TrimSpace(string(b))
		if s == "" {
			return "", errors.New(file + " is empty")
		}
		return s, nil
	}, file)
}

// WatchKeyPair reads a certificate and its key from two files, which must exist.
func WatchKeyPair(cert, key string) (*WatchedFiles[*tls.Certificate], error) {
	return WatchFiles(func() (*tls.Certificate, error) {
		c, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("certificate %s with key %s: %w", cert, key, err)
		}
		return &c, nil
	}, cert, key)
}

// Certificates returns the certificates of a PEM file.
func Certificates(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", file)
	}
	return pool, nil
}
