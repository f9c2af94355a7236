package loadtest

import (
	"fmt"
	"strings"
	"time"
)

// Command returns the command that runs a scenario of the configuration again, without what is as DefaultConfig has it.
func (c Config) Command(scenario string) string {
	d := DefaultConfig()
	out := []string{"binnacle loadtest"}
	for _, flag := range []struct {
		name       string
		value, was any
	}{
		{"scenario", scenario, "main"},
		{"devices", c.Devices, d.Devices},
		{"partitions", c.Partitions, d.Partitions},
		{"interval", c.Interval, d.Interval},
		{"minutes", int(c.Window / time.Minute), 0},
		{"sample", c.Sample, d.Sample},
		{"hold", c.Hold, d.Hold},
		{"seed", c.Seed, d.Seed},
		{"ru-model", c.Model, d.Model},
	} {
		if flag.value == true {
			out = append(out, "--"+flag.name)
		} else if flag.value != flag.was {
			out = append(out, fmt.Sprintf("--%s %v", flag.name, flag.value))
		}
	}
	return strings.Join(append(out, "--html report.html"), " ")
}
