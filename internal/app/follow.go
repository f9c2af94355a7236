package app

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

// followed is what was made of some files. They are looked at again now and then, so that secrets and certificates
// can be exchanged while the process runs; while they can't be read, what was made last stays.
type followed[T any] struct {
	files []string
	make  func() (T, error)

	mu   sync.Mutex // guards below
	last T
	at   time.Time // when the files were looked at
	seen string    // what they looked like
}

// lookAgain is how often files are looked at.
const lookAgain = 5 * time.Second

// follow makes something of files, which must be there and right at the start.
func follow[T any](make func() (T, error), files ...string) (*followed[T], error) {
	f := &followed[T]{files: files, make: make, at: time.Now()}
	var err error
	f.seen = f.look()
	f.last, err = make()
	return f, err
}

// look is what tells one state of the files from another.
func (f *followed[T]) look() string {
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

// get is what the files held when they were last readable.
func (f *followed[T]) get() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.Sub(f.at) >= lookAgain {
		f.at = now
		if seen := f.look(); seen != f.seen {
			if next, err := f.make(); err == nil {
				f.last, f.seen = next, seen
			}
		}
	}
	return f.last
}

// text is a secret in a file.
type text struct{ *followed[string] }

func followText(file string) (text, error) {
	f, err := follow(func() (string, error) {
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
	return text{f}, err
}

func (t text) text() string { return t.get() }

// pair is a certificate and its key in two files.
type pair struct{ *followed[*tls.Certificate] }

func followPair(cert, key string) (pair, error) {
	f, err := follow(func() (*tls.Certificate, error) {
		c, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("certificate %s with key %s: %w", cert, key, err)
		}
		return &c, nil
	}, cert, key)
	return pair{f}, err
}

func (p pair) certificate() (*tls.Certificate, error) { return p.get(), nil }

// certificates are those of a file, PEM.
func certificates(file string) (*x509.CertPool, error) {
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
