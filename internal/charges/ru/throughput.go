package ru

import "math"

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

func roundUp(v, step float64) float64 { return math.Ceil(v/step) * step }
