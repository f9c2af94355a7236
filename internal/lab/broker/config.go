package broker

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"
)

// Config sets what a Broker keeps and where it listens. Its tags name the command's flags.
type Config struct {
	// DataDir is created with mode 0700 if it is missing. It holds the file "lock" and the folder "log"; anything else
	// in it is left alone.
	DataDir string `kong:"-"`

	Addr string `name:"kafka" help:"Address of the embedded Kafka. Port 0 takes a free port." default:"127.0.0.1:9092"`

	// Advertise is the host:port that clients get. Empty: the listening address, with loopback for the unspecified
	// address.
	Advertise string `kong:"-"`

	// Partitions is the number of partitions of a new topic; 0 is 4. An existing topic with fewer grows if the
	// number is a whole multiple of the topic's, so that a key that moves always moves to a higher partition.
	Partitions int `help:"Partitions of the topics." default:"4"`

	// Topics are created when the broker opens, unless they exist.
	Topics []string `kong:"-"`

	// RetentionBytes bounds a partition's log in Topics; 0 keeps everything. Only records that all Groups have
	// committed are trimmed, so a partition may exceed the bound.
	RetentionBytes int64 `name:"kafka-mb" help:"Size of committed records that each partition keeps, in MiB. 0 keeps all." type:"mib" default:"64"`

	// Groups are the consumer groups that must have committed a record before it is trimmed. A topic is trimmed only if
	// each of them has a commit in it.
	Groups []string `kong:"-"`

	// Journals maps topics to their sources, both in Topics by name. A journal is trimmed partition by
	// partition by the commits of Groups in its source: Needed returns the first offset to keep. RetentionBytes
	// alone bounds records that no commit mentions.
	Journals map[string]string `kong:"-"`

	// Needed returns the first offset of the journal that a commit in its source needs, from the commit's metadata; ok
	// is false if it needs none. It must be set where there are Journals.
	Needed func(metadata string) (from int64, ok bool) `kong:"-"`

	// TrimEvery is the time between two rounds of trimming; 0 is 30 seconds.
	TrimEvery time.Duration `kong:"-"`

	// makes the listener; nil is plain TCP
	Listen func(network, address string) (net.Listener, error) `kong:"-"`

	Logger *slog.Logger `kong:"-"` // nil: no log

	// Fatal is called when DataDir cannot be written, for example because its disk is full. It must end the
	// process: the broker answers no more requests, and Close does not return. Default: a panic in a separate
	// goroutine.
	Fatal func(error) `kong:"-"`
}

const (
	defaultPartitions = 4
	defaultTrimEvery  = 30 * time.Second

	// maxPartitions bounds the partitions of a topic, for each costs a directory and memory.
	maxPartitions = 1000
)

// Validate reports every fault at once.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.DataDir == "" {
		fault("no data directory")
	}
	if _, _, err := net.SplitHostPort(c.Addr); err != nil {
		fault("listen address: %w", err)
	}
	if c.Advertise != "" {
		if host, port, err := net.SplitHostPort(c.Advertise); err != nil {
			fault("advertised address: %w", err)
		} else if host == "" || port == "" {
			fault("advertised address %q needs a host and a port", c.Advertise)
		}
	}
	if c.Partitions < 0 || c.Partitions > maxPartitions {
		fault("%d partitions: at most %d", c.Partitions, maxPartitions)
	}
	if slices.Contains(c.Topics, "") {
		fault("a topic without a name")
	}
	for journal, source := range c.Journals {
		if !slices.Contains(c.Topics, journal) || !slices.Contains(c.Topics, source) || journal == source {
			fault("journal %q of %q: both are topics", journal, source)
		}
	}
	if len(c.Journals) > 0 && c.Needed == nil {
		fault("journals, but no function for what of them is needed")
	}
	if c.RetentionBytes < 0 {
		fault("retention of %d bytes", c.RetentionBytes)
	}
	if c.RetentionBytes > 0 && len(c.Groups) == 0 {
		fault("retention of %d bytes, but no group whose commits allow to trim", c.RetentionBytes)
	}
	if c.TrimEvery < 0 {
		fault("time between trims %s", c.TrimEvery)
	}
	return errors.Join(faults...)
}

func (c Config) withDefaults() Config {
	c.Partitions = cmp.Or(c.Partitions, defaultPartitions)
	c.TrimEvery = cmp.Or(c.TrimEvery, defaultTrimEvery)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Listen == nil {
		c.Listen = net.Listen
	}
	if c.Fatal == nil {
		c.Fatal = func(err error) { go panic(err) }
	}
	return c
}
