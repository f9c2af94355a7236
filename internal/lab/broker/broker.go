package broker

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/gofrs/flock"
	"github.com/twmb/franz-go/pkg/kfake"
)

// maxMessageBytes is the longest batch: Kafka's default, so that what works here works there.
const maxMessageBytes = 1<<20 + 12

// offsetsRetentionMinutes is the retention of offsets of a group without members: a year, since a machine may stand
// still for longer than Kafka's week.
const offsetsRetentionMinutes = 365 * 24 * 60

// Broker is a Kafka cluster of one broker. It serves from Open to Close and is safe for concurrent use.
//
// An acknowledged record survives the end of the process, also by kill -9; it is not synced to disk, so a power
// failure may lose the last ones. When it cannot be written, the process ends (Config.Fatal).
type Broker struct {
	cfg       Config
	log       *slog.Logger
	directory *directory
	guard     *guard
	end       *fatalOnce
	cluster   *kfake.Cluster
	clusterID string

	// closing is write-locked by Close and read-locked by calls of the cluster, which never return once the
	// cluster is closed.
	closing  sync.RWMutex
	isClosed bool
}

// Open creates the data directory if it is missing, creates the topics, and serves. Its errors name the directory or
// the address; ErrInUse is one of them.
func Open(cfg Config) (*Broker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("embedded Kafka: %w", err)
	}
	cfg = cfg.withDefaults()
	dir, err := openDirectory(cfg.DataDir)
	if err != nil {
		return nil, fmt.Errorf("open Kafka's data directory %s: %w", cfg.DataDir, err)
	}
	b := &Broker{cfg: cfg, log: cfg.Logger, directory: dir, end: &fatalOnce{dir: cfg.DataDir, fatal: cfg.Fatal}}
	if err := b.start(); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *Broker) start() error {
	listener, err := b.cfg.Listen("tcp", b.cfg.Addr)
	if err != nil {
		return fmt.Errorf("listen on --kafka %s: %w", b.cfg.Addr, innermost(err))
	}
	inside, outside := net.Pipe()
	defer outside.Close()
	b.guard = newGuard(listener, advertise(b.cfg.Advertise, listener.Addr()), inside)
	b.guard.logger = b.log
	if err := firstError(b.directory.log, repair, rememberProducers); err != nil {
		return fmt.Errorf("open Kafka's log in %s: %w", b.directory.log, err)
	}
	b.cluster, err = kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.DataDir(b.directory.log),
		kfake.ClusterID(newClusterID()), // an existing directory keeps its own
		kfake.DefaultNumPartitions(b.cfg.Partitions),
		kfake.ListenFn(func(string, string) (net.Listener, error) { return b.guard, nil }),
		kfake.WithLogger(logger{b.log, b.end}),
		kfake.BrokerConfigs(map[string]string{
			"message.max.bytes":         strconv.Itoa(maxMessageBytes),
			"offsets.retention.minutes": strconv.Itoa(offsetsRetentionMinutes),
			"log.retention.ms":          "-1",
		}),
	)
	if err != nil {
		return fmt.Errorf("open Kafka's log in %s: %w", b.directory.log, err)
	}
	limitPartitions(b.cluster)
	limitMetadata(b.cluster)
	ask := &client{conn: outside}
	served, err := ask.served()
	if err != nil {
		return err
	}
	if b.clusterID, err = ask.clusterID(); err != nil {
		return err
	}
	for _, topic := range b.cfg.Topics {
		if err := b.ensureTopic(ask, topic); err != nil {
			return fmt.Errorf("create topic %s: %w", topic, err)
		}
	}
	if err := b.end.open(); err != nil {
		return fmt.Errorf("open Kafka's log in %s: %w", b.directory.log, err)
	}
	b.guard.serve(served)
	return nil
}

// firstError calls functions with a folder until one of them fails.
func firstError(folder string, do ...func(folder string) error) error {
	for _, f := range do {
		if err := f(folder); err != nil {
			return err
		}
	}
	return nil
}

// innermost returns the reason of a network error without the address.
func innermost(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

// advertise returns the address that clients get. The unspecified address can't be connected to, so loopback replaces
// it.
func advertise(wanted string, listening net.Addr) string {
	if wanted != "" {
		return wanted
	}
	host, port, err := net.SplitHostPort(listening.String())
	if err != nil {
		return listening.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// newClusterID returns an id in the form of Kafka's own: 16 random bytes in base64.
func newClusterID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the process instead
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// Addr returns the host:port that clients connect to.
func (b *Broker) Addr() string { return b.guard.advertise }

// ClusterID returns a random id that is created and kept with the data directory: offsets of one id always belong to
// the same records.
func (b *Broker) ClusterID() string { return b.clusterID }

// Close closes all connections, writes the state of the log and releases the directory. A second call does nothing.
func (b *Broker) Close() error {
	b.closing.Lock()
	defer b.closing.Unlock()
	if b.isClosed {
		return nil
	}
	b.isClosed = true
	var err error
	if b.cluster != nil {
		b.cluster.Close()
	}
	if b.guard != nil {
		err = b.guard.Close()
		b.guard.drain()
	}
	return errors.Join(err, b.directory.release())
}

// ErrInUse is the error of Open when another broker has the data directory.
var ErrInUse = errors.New("in use by another broker")

// directory is a data directory that this process owns until it is released.
type directory struct {
	lock *flock.Flock
	// log is kfake's folder; kfake removes *.tmp files there, so no other program may keep files in it.
	log string
}

// openDirectory creates the directory if it is missing, and locks it: kfake takes no lock, and two of them would ruin
// the log.
func openDirectory(path string) (*directory, error) {
	d := &directory{lock: flock.New(filepath.Join(path, "lock")), log: filepath.Join(path, "log")}
	if err := makePrivate(path); err != nil {
		return nil, err
	}
	if err := makePrivate(d.log); err != nil {
		return nil, err
	}
	locked, err := d.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock the directory: %w", err)
	}
	if !locked {
		return nil, ErrInUse
	}
	// kfake would prefer this file's users to the users of its configuration, and keeps their passwords in
	// clear text.
	if err := os.Remove(filepath.Join(d.log, "sasl.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, d.release())
	}
	return d, nil
}

// makePrivate creates a directory that only this user may read: kfake makes its files readable to all.
func makePrivate(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	return os.Chmod(path, 0o700)
}

func (d *directory) release() error { return d.lock.Close() }
