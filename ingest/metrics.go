package ingest

import (
	"cmp"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"binnacle/binning"
	"binnacle/ingest/bins"
	"binnacle/ingest/decode"
	"binnacle/ingest/journal/spill"
	"binnacle/ingest/worker"
	"binnacle/sharding"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics counts for all Workers of one process; it is their Observer.
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
	restarts  prometheus.Counter
	keysFull  prometheus.Counter
	broken    *prometheus.CounterVec
	faulty    prometheus.Gauge
	retired   prometheus.Counter
	deferred  prometheus.Counter
	resumed   prometheus.Counter
	log       *slog.Logger
	partitionGauges
}

// partitionGauges say of each partition how far it is.
type partitionGauges struct {
	lag         *prometheus.GaugeVec
	uncommitted *prometheus.GaugeVec
	bins        *prometheus.GaugeVec
	unjournaled *prometheus.GaugeVec
	loading     *prometheus.GaugeVec
	first       *prometheus.GaugeVec
	kept        *prometheus.GaugeVec
	stalled     *prometheus.GaugeVec
	deferredBy  *prometheus.GaugeVec
	deferredFor *prometheus.GaugeVec
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
		return f.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"topic", "partition"})
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
		deferred: counter("binnacle_ingest_deferred_readings_total",
			"Readings above a rate of their tenant, that wait in Kafka."),
		resumed: counter("binnacle_ingest_resumed_readings_total",
			"Readings taken that had waited for a rate of their tenant."),
		broken: counters("binnacle_ingest_journal_faults_total",
			"Times that the journal could not be used or has lost its end, that a shelf did not take blocks or lost some; "+
				"minutes in which the journal's topic was not what it must be.",
			"fault"),
		keysFull: counter("binnacle_ingest_full_keys_total",
			"Partition keys that were found full; their chunks wait for the next epoch."),
		log: log,
		partitionGauges: partitionGauges{
			lag: gauges("binnacle_ingest_lag_records", "Records between the position and the end of the log."),
			uncommitted: gauges("binnacle_ingest_uncommitted_records",
				"Records between the committed offset and the position: what a crash would replay."),
			bins: gauges("binnacle_ingest_open_bins", "Open bins."),
			unjournaled: gauges("binnacle_ingest_unjournaled_records",
				"Records between the position and the offset below which all is in the journal or stored: what is read again "+
					"after a crash, once the journal is loaded."),
			first: gauges("binnacle_ingest_log_first_offset", "Offset of the first record that the log still has."),
			kept: gauges("binnacle_ingest_kept_records",
				"Records that the log still has below the committed offset: then retention takes what is not stored."),
			deferredBy: gauges("binnacle_ingest_waiting_limits",
				"Tenants and devices whose readings wait in Kafka for a rate of their tenant."),
			deferredFor: gauges("binnacle_ingest_waiting_seconds",
				"How long the oldest reading that waits for a rate of its tenant has done so."),
			loading: gauges("binnacle_ingest_journal_left_records", "Records of the journal that are still to be loaded."),
			stalled: f.NewGaugeVec(prometheus.GaugeOpts{
				Name: "binnacle_ingest_stalled_chains", Help: "Chains that wait after a failed attempt, by fault.",
			}, []string{"topic", "partition", "fault"}),
		},
		faulty: f.NewGauge(prometheus.GaugeOpts{Name: "binnacle_ingest_topic_faults",
			Help: "Topics that are missing or can't be read, and patterns that match no topic."}),
		retired: counter("binnacle_ingest_deleted_partitions_total",
			"Partitions that were read and were deleted with their topic: what was in memory of them is written at once."),
		restarts: counter("binnacle_ingest_incarnations_total",
			"Times that a partition was found to be another log than before."),
		fill: f.NewHistogram(prometheus.HistogramOpts{
			Name: "binnacle_ingest_chunk_fill_ratio", Help: "Size of a chunk document over the target of 31 KB.",
			Buckets: []float64{0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5},
		}),
	}
}

// forget drops the series of a partition that went elsewhere.
func (m *metrics) forget(of topicPartition) {
	labels := prometheus.Labels{"topic": of.topic, "partition": strconv.Itoa(of.partition)}
	g := m.partitionGauges
	for _, g := range []*prometheus.GaugeVec{g.lag, g.uncommitted, g.bins, g.unjournaled, g.first, g.kept, g.loading,
		g.stalled, g.deferredBy, g.deferredFor} {
		g.DeletePartialMatch(labels)
	}
}

func (m *metrics) registerSpill(r prometheus.Registerer, files *spill.Store) {
	promauto.With(r).NewGaugeFunc(prometheus.GaugeOpts{Name: "binnacle_ingest_spilled_bytes",
		Help: "Bytes of blocks that are in the spill file instead of memory."},
		func() float64 { live, _ := files.Bytes(); return float64(live) })
}

func (m *metrics) Taken(readings int) {
	m.records.Inc()
	m.readings.Add(float64(readings))
}

func (m *metrics) Replayed(readings int) { m.replayed.Add(float64(readings)) }

func (m *metrics) Refused(why decode.Reason, elements int) {
	m.refused.WithLabelValues(string(why)).Add(float64(elements))
}

func (m *metrics) LookedUp() { m.lookups.Inc() }

// ChainForgotten counts an idle chain that has made room.
func (m *metrics) ChainForgotten() { m.forgotten.Inc() }

func (m *metrics) Conflict() { m.conflicts.Inc() }

// KeyFull counts and logs a partition key that is full, once for each day of the device.
func (m *metrics) KeyFull(key sharding.Key) {
	m.keysFull.Inc()
	m.log.Error("partition key is full: readings of this device and day wait and are retried rarely",
		"container", key.Container, "tenant_shard", key.TenantShard, "device", key.Device)
}

func (m *metrics) Stored(why bins.Reason, bytes, values int) {
	m.chunks.WithLabelValues(why.String()).Inc()
	m.values.Add(float64(values))
	m.fill.Observe(float64(bytes) / binning.TargetBytes)
}

func (m *metrics) Deferred(readings int) { m.deferred.Add(float64(readings)) }

func (m *metrics) Resumed(readings int) { m.resumed.Add(float64(readings)) }

func (m *metrics) JournalLost() {
	m.broken.WithLabelValues("end-lost").Inc()
	m.log.Error("the journal has lost its end: appending its blocks again")
}

func (m *metrics) ShelfFailed(err error) {
	m.broken.WithLabelValues("spill").Inc()
	m.log.Warn("blocks stay in memory: cannot write the spill file", "error", err)
}

type topicPartition struct {
	topic     string
	partition int
}

// String returns topic/partition.
func (p topicPartition) String() string { return fmt.Sprintf("%s/%d", p.topic, p.partition) }

func (p topicPartition) labels() []string { return []string{p.topic, strconv.Itoa(p.partition)} }

func compareTopicPartitions(a, b topicPartition) int {
	return cmp.Or(strings.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
}
