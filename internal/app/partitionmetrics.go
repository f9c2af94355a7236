package app

import (
	"context"
	"errors"
	"strconv"
	"time"

	"binnacle/internal/heat"
	"binnacle/internal/ops"
	"binnacle/internal/retry"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// watchPartitionsEvery is how often the metrics of physical partitions are computed, and the time that they cover.
const watchPartitionsEvery = 5 * time.Minute

// PartitionGauges are the metrics of the physical partitions of this month's containers.
type PartitionGauges struct {
	rus, used, throttled *prometheus.GaugeVec
	hottest              *prometheus.GaugeVec
}

// NewPartitionGauges registers the metrics.
func NewPartitionGauges(r prometheus.Registerer) PartitionGauges {
	f := promauto.With(r)
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return f.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help},
			append([]string{"container"}, labels...))
	}
	return PartitionGauges{
		rus: gauge("binnacle_heat_partition_request_units",
			"Request units a second that a physical partition took in five minutes, of "+
				"all processes. Partitions are numbered by their place in the key space.", "partition"),
		used: gauge("binnacle_heat_partition_busiest_ratio",
			"Request units of the busiest minute, of what is bought for the partition.",
			"partition"),
		throttled: gauge("binnacle_heat_partition_throttled",
			"Requests that a physical partition answered 429 in five minutes.",
			"partition"),
		hottest: gauge("binnacle_heat_hottest_partition_ratio",
			"Request units of the hottest physical partition over the mean of all."),
	}
}

// watchPartitions adds the stage that keeps the metrics of physical partitions.
func (p *process) watchPartitions(s ops.HeatSource) {
	gauges := NewPartitionGauges(p.metrics)
	loop := retry.Loop{Log: p.partLogger("heat"), Failing: "metrics of physical partitions are not made", Delayed: true,
		Over: "metrics of physical partitions are made again", Every: watchPartitionsEvery, Spends: true}
	p.add("partitions", func(ctx context.Context) error {
		return loop.Run(ctx, func(ctx context.Context) error {
			chunks := s.Snapshot().SharedOn(telemetry.DayOf(time.Now().UnixMilli()))
			var faults []error
			for _, container := range []string{chunks, sharding.RollupsContainer(chunks)} {
				err := gauges.Update(ctx, s, container)
				if !errors.Is(err, store.ErrNoContainer) {
					faults = append(faults, err)
				}
			}
			return errors.Join(faults...)
		})
	})
}

// Update computes the metrics of a container.
func (g PartitionGauges) Update(ctx context.Context, s ops.HeatSource, container string) error {
	facts, err := s.Facts(ctx, ops.HeatRequest{Container: container, Since: watchPartitionsEvery}, time.Now())
	if err != nil {
		return err
	}
	r := heat.NewReport(facts)
	for _, v := range []*prometheus.GaugeVec{g.rus, g.used, g.throttled, g.hottest} {
		v.DeletePartialMatch(prometheus.Labels{"container": container})
	}
	hottest := 0.0
	for _, part := range r.Partitions {
		name := strconv.Itoa(part.Partition)
		g.rus.WithLabelValues(container, name).Set(part.RUs)
		g.used.WithLabelValues(container, name).Set(part.BusiestUsed)
		g.throttled.WithLabelValues(container, name).Set(float64(part.Throttled))
		hottest = max(hottest, part.Share*float64(len(r.Partitions)))
	}
	g.hottest.WithLabelValues(container).Set(hottest)
	return nil
}
