package rejected

import "binnacle/internal/kafka"

// Take gives an Index a record as if Run had read it.
func Take(x *Index, partition int, r *kafka.Record) { x.take(partition, r) }

// CaughtUp takes it that all was read.
func CaughtUp(x *Index) { x.err = nil }
