package blogexample

import (
	"errors"
	"fmt"
	"io"

	"binnacle/internal/charges/ru"
)

// Config says how large the blog is. Its defaults take about half a minute. Its tags are package settings's.
type Config struct {
	Users              int      `help:"Number of users of the blog, each with 5 to 50 posts. The article has 100,000." default:"40"`
	PhysicalPartitions int      `help:"Number of physical partitions of every container." default:"5"`
	Seed               uint64   `help:"Seed of the data set." default:"1"`
	Model              ru.Model `name:"ru-model" help:"Model of charges by item size: step, where a size between two rows of the table of the service is charged as the next row, or slope, on a line between both." default:"step"`

	Progress io.Writer `kong:"-"` // a terminal that is shown how far it is; nil for none
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
	}{{"users", c.Users, minUsers, maxUsers}, {"physical partitions", c.PhysicalPartitions, 1, maxPartitions}} {
		if f.n < f.min || f.n > f.max {
			faults = append(faults, fmt.Errorf("%d %s: %d to %d are allowed", f.n, f.what, f.min, f.max))
		}
	}
	return errors.Join(faults...)
}
