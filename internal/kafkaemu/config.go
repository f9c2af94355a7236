package kafkaemu

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"
)

// Config says what a Broker keeps and where it listens. The tags are those of the command's flags.
type Config struct {
	// DataDir is made if it is missing, with mode 0700. It holds the file "lock" and the folder "log";
	// anything else in it is left alone.
	DataDir string `kong:"-"`

	// Addr is host:port.
	Addr string `name:"kafka" help:"Address of the embedded Kafka. Port 0 takes a free port." default:"127.0.0.1:9092"`

	// Advertise is the host:port that clients are told to connect to. Empty means the address that
	// the broker listens on, or the loopback address with its port when it listens on all.
	Advertise string `kong:"-"`

	// Partitions is how many a topic is made with, 4 if it is 0. A topic that exists with fewer is
	// grown, if by a whole multiple, so that a key which moves always moves to a higher partition.
	Partitions int `help:"Partitions of the topics." default:"4"`

	// Topics are made when the broker opens, unless they exist.
	Topics []string `kong:"-"`

	// RetentionBytes bounds the log of each partition of Topics; 0 keeps everything. Only what every
	// one of Groups has committed is trimmed, so a partition may grow past the bound.
	RetentionBytes int64 `name:"kafka-mb" help:"Size of committed records that each partition keeps, in MiB. 0 keeps all." type:"mib" default:"64"`

	// Groups are the consumer groups that a trimmed record must have been committed by. A topic is
	// trimmed only if each of them has committed in it.
	Groups []string `kong:"-"`

	// Journals are those of Topics, by name, that are trimmed by what Groups have committed of another one of Topics,
	// their source, partition for partition: Needed says from where on. What no commit speaks of is bounded by
	// RetentionBytes alone.
	Journals map[string]string `kong:"-"`

	// Needed tells from which offset on a commit in a source needs its journal, by the commit's metadata; ok is false
	// if it does not need it. It must be set where there are Journals.
	Needed func(metadata string) (from int64, ok bool) `kong:"-"`

	// TrimEvery is the time between two looks at the retention, 30 seconds if it is 0.
	TrimEvery time.Duration `kong:"-"`

	// makes the listener; nil is plain TCP
	Listen func(network, address string) (net.Listener, error) `kong:"-"`

	Logger *slog.Logger `kong:"-"` // nil logs nothing

	// Fatal is called when DataDir cannot be written, because its disk is full say. It has to end the process: requests
	// are not answered any more, and Close does not return. Default: a panic in a goroutine of its own.
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
		fault("journals, but nobody who knows what of them is needed")
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
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Listen == nil {
		c.Listen = net.Listen
	}
	if c.Fatal == nil {
		c.Fatal = func(err error) { go panic(err) }
	}
	return c
}
