package ingest

import (
	"log/slog"

	"binnacle/binning"
	"binnacle/ingest/decode"
	"binnacle/ingest/worker"
	"binnacle/sharding"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are those of all Workers of one process; it is their Observer.
type metrics struct {
	records   prometheus.Counter
	readings  prometheus.Counter
	replayed  prometheus.Counter
	refused   *prometheus.CounterVec
	chunks    *prometheus.CounterVec
	values    prometheus.Counter
	fill      prometheus.Histogram
	lookups   prometheus.Counter
	conflicts prometheus.Counter
	forgotten prometheus.Counter
	retries   *prometheus.CounterVec
	lag       *prometheus.GaugeVec
	behind    *prometheus.GaugeVec
	bins      *prometheus.GaugeVec
	restarts  prometheus.Counter
	keysFull  prometheus.Counter
	stalled   *prometheus.GaugeVec
	log       *slog.Logger
}

func newMetrics(r prometheus.Registerer, memory *worker.Memory, log *slog.Logger) *metrics {
	f := promauto.With(r)
	f.NewGaugeFunc(prometheus.GaugeOpts{Name: "binnacle_ingest_held_bytes",
		Help: "Memory that bins and chunks in flight take, as ingest counts it."},
		func() float64 { return float64(memory.Used()) })
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	counters := func(name, help, label string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	gauges := func(name, help string) *prometheus.GaugeVec {
		return f.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"partition"})
	}
	return &metrics{
		records:  counter("binnacle_ingest_records_total", "Kafka records taken."),
		readings: counter("binnacle_ingest_readings_total", "Readings taken, those of replays included."),
		replayed: counter("binnacle_ingest_replayed_readings_total",
			"Readings dropped because their chunk is stored already."),
		refused:   counters("binnacle_ingest_dead_letters_total", "Records, or elements of one, refused.", "reason"),
		chunks:    counters("binnacle_ingest_chunks_total", "Chunks stored, by the reason for the cut.", "reason"),
		values:    counter("binnacle_ingest_stored_values_total", "Values in the chunks stored."),
		lookups:   counter("binnacle_ingest_lookups_total", "Tails of chains read from the store."),
		conflicts: counter("binnacle_ingest_conflicts_total", "Creates that met a stored chunk, whose tail was adopted."),
		forgotten: counter("binnacle_ingest_forgotten_chains_total",
			"Idle chains whose tail was forgotten because memory was short: each that comes back costs a lookup."),
		retries: counters("binnacle_ingest_retries_total",
			"Attempts that failed or had an unknown outcome and were made again.", "operation"),
		lag: gauges("binnacle_ingest_lag_records", "Records between the position and the end of the log."),
		behind: gauges("binnacle_ingest_uncommitted_records",
			"Records between the committed offset and the position: what a crash would replay."),
		bins: gauges("binnacle_ingest_open_bins", "Open bins."),
		keysFull: counter("binnacle_ingest_full_keys_total",
			"Partition keys that were found full; their chunks wait for the next epoch."),
		stalled: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "binnacle_ingest_stalled_chains", Help: "Chains that wait after an attempt that failed, by why.",
		}, []string{"partition", "fault"}),
		log: log,
		restarts: counter("binnacle_ingest_incarnations_total",
			"Times that a partition was found to be another log than before."),
		fill: f.NewHistogram(prometheus.HistogramOpts{
			Name: "binnacle_ingest_chunk_fill_ratio", Help: "Size of a chunk document over the target of 32 KB.",
			Buckets: []float64{0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5},
		}),
	}
}

// Taken counts a record and its readings.
func (m *metrics) Taken(readings int) {
	m.records.Inc()
	m.readings.Add(float64(readings))
}

// Replayed counts a reading whose chunk is stored.
func (m *metrics) Replayed() { m.replayed.Inc() }

// Refused counts a dead letter.
func (m *metrics) Refused(why decode.Reason) { m.refused.WithLabelValues(string(why)).Inc() }

// LookedUp counts a tail that was read.
func (m *metrics) LookedUp() { m.lookups.Inc() }

// Forgot counts an idle chain that has made room.
func (m *metrics) Forgot() { m.forgotten.Inc() }

// Conflict counts a create that met another chunk.
func (m *metrics) Conflict() { m.conflicts.Inc() }

// KeyFull counts a partition key that takes no more, and says so, once for each day of the device.
func (m *metrics) KeyFull(key sharding.Key) {
	m.keysFull.Inc()
	m.log.Error("the partition key is full: readings of this device and day wait, and are tried seldom",
		"container", key.Container, "tenant_shard", key.TenantShard, "device", key.Device)
}

// Stored counts a chunk.
func (m *metrics) Stored(why worker.Reason, bytes, values int) {
	m.chunks.WithLabelValues(string(why)).Inc()
	m.values.Add(float64(values))
	m.fill.Observe(float64(bytes) / binning.TargetBytes)
}
