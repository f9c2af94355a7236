// Package workqueue replaces that of k8s.io/client-go: Prometheus' suite of PromQL imports what mentions it.
package workqueue

// GaugeMetric goes up and down.
type GaugeMetric interface {
	Inc()
	Dec()
}

// SettableGaugeMetric can be set.
type SettableGaugeMetric interface{ Set(float64) }

// CounterMetric counts.
type CounterMetric interface{ Inc() }

// HistogramMetric takes observations.
type HistogramMetric interface{ Observe(float64) }

// SetProvider does nothing: there are no queues.
func SetProvider(any) {}
