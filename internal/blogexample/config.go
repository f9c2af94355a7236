package blogexample

import (
	"errors"
	"fmt"
	"io"

	"binnacle/internal/ru"
)

// Config says how large the blog is. DefaultConfig is a good one.
type Config struct {
	Users              int      // the article has 100,000; each has 5 to 50 posts
	PhysicalPartitions int      // of every container
	Repeats            int      // how often a pattern is measured; its latency is the median
	Seed               uint64   // the same data set for the same number
	Model              ru.Model // how the size of an item is charged

	Progress io.Writer // a terminal that is shown how far it is; nil for none
}

// DefaultConfig takes about half a minute.
func DefaultConfig() Config {
	return Config{Users: 40, PhysicalPartitions: 5, Repeats: 5, Seed: 1}
}

// The smallest blog has more posts than the front page shows, or nearly: Run checks it. The largest is
// held in memory.
const (
	minUsers      = 8
	maxUsers      = 2_000
	maxPartitions = 100
)

// Validate reports every fault at once.
func (c Config) Validate() error {
	var faults []error
	for _, f := range []struct {
		what        string
		n, min, max int
	}{{"users", c.Users, minUsers, maxUsers}, {"physical partitions", c.PhysicalPartitions, 1, maxPartitions}, {"repeats", c.Repeats, 1, 1000}} {
		if f.n < f.min || f.n > f.max {
			faults = append(faults, fmt.Errorf("%d %s: %d to %d are allowed", f.n, f.what, f.min, f.max))
		}
	}
	return errors.Join(faults...)
}
