package ru

import (
	"encoding/json"
	"fmt"
	"math"
)

// Limits of a physical partition (Azure Cosmos DB docs, partitioning).
const (
	// PartitionRUs is the most RU/s that one physical partition serves.
	PartitionRUs = 10_000
	// PartitionGB is the most data and index, in GB, that one physical partition holds.
	PartitionGB = 50
	// manualPerPartition is what one physical partition of a new manual container has.
	manualPerPartition = 6_000
	// serverlessRUs is what a serverless container serves up to its fifth physical partition, and serverlessMore what
	// each further one adds (Azure Cosmos DB docs, serverless-performance).
	serverlessRUs, serverlessMore, serverlessParts = 5_000, 1_000, 5
)

// GrownPerPartition is the manual RU/s for each physical partition that a container has once its serverless account has
// become provisioned (Azure Cosmos DB docs, how-to-change-capacity-mode).
const GrownPerPartition = 5_000

// ServerlessRUs returns the most RU/s that a serverless container of a number of physical partitions serves.
func ServerlessRUs(partitions int) float64 {
	return serverlessRUs + serverlessMore*float64(max(0, partitions-serverlessParts))
}

// Partitions returns the number of physical partitions that a container is created with: ceil(RU/6,000)
// with manual throughput, ceil(max/10,000) with autoscale (Azure Cosmos DB docs,
// scaling-provisioned-throughput-best-practices). At least one.
func Partitions(rus float64, autoscale bool) int {
	per := float64(manualPerPartition)
	if autoscale {
		per = PartitionRUs
	}
	return max(1, int(math.Ceil(rus/per)))
}

// Floor returns the lowest RU/s (with autoscale: the lowest maximum) that a container may be set to, given
// what it stores and the highest RU/s it ever had: max(400, GB, highest/100) with manual throughput,
// max(1000, 10*GB, highest/10) with autoscale (Azure Cosmos DB docs, concepts-limits), rounded up to
// the steps of 100 and 1,000 RU/s in which throughput is sold.
func Floor(gb, highest float64, autoscale bool) float64 {
	if autoscale {
		return roundUp(max(1000, 10*gb, highest/10), 1000)
	}
	return roundUp(max(400, gb, highest/100), 100)
}

// Step returns the granularity in which throughput is sold, in RU/s.
func Step(autoscale bool) float64 {
	if autoscale {
		return 1000
	}
	return 100
}

// Sold returns the least RU/s that are sold for a need, to a container that stores little.
func Sold(need float64, autoscale bool) float64 {
	return max(Floor(0, 0, autoscale), roundUp(need, Step(autoscale)))
}

func roundUp(v, step float64) float64 { return math.Ceil(v/step) * step }

// Factors are what modelled charges are multiplied with, by kind of operation: what was measured of a real account. Of
// one that is zero nothing is known.
type Factors struct {
	Read  float64 `json:"read,omitempty"`  // point reads
	Write float64 `json:"write,omitempty"` // inserts, replaces, deletes
	Query float64 `json:"query,omitempty"` // queries and the change feed

	// Source is the file that they come from, as it was named; "" for none.
	Source string `json:"-"`
}

// MarshalText returns the file that the factors come from.
func (f Factors) MarshalText() ([]byte, error) { return []byte(f.Source), nil }

// String names what the model is multiplied with.
func (f Factors) String() string {
	return fmt.Sprintf("reads %.3f, writes %.3f, queries %.3f", factor(f.Read), factor(f.Write), factor(f.Query))
}

// ParseFactors reads what `binnacle doctor --measure --json` has written: its object factors.
func ParseFactors(text []byte) (Factors, error) {
	var file struct {
		Factors *struct{ Read, Write, Query float64 }
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return Factors{}, err
	}
	if file.Factors == nil {
		return Factors{}, fmt.Errorf("it has no factors; binnacle doctor --measure --json writes them")
	}
	f := Factors{Read: file.Factors.Read, Write: file.Factors.Write, Query: file.Factors.Query}
	for name, n := range map[string]float64{"read": f.Read, "write": f.Write, "query": f.Query} {
		if n < 0 || n > 100 || math.IsNaN(n) {
			return Factors{}, fmt.Errorf("the factor %g of %s is none", n, name)
		}
	}
	return f, nil
}

func factor(f float64) float64 {
	if f == 0 {
		return 1
	}
	return f
}

// MarshalJSON returns the numbers, as ParseFactors reads them.
func (f Factors) MarshalJSON() ([]byte, error) {
	type numbers Factors
	return json.Marshal(numbers(f))
}
