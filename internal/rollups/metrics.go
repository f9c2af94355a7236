package rollups

import (
	"errors"

	"binnacle/internal/store"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	rounds           *prometheus.CounterVec
	builtHours       prometheus.Counter
	documents        prometheus.Counter
	bytes            prometheus.Counter
	lateDevices      prometheus.Counter
	correctedDevices prometheus.Counter
	rus              *prometheus.CounterVec
	lag              prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &metrics{
		rounds: f.NewCounterVec(prometheus.CounterOpts{Name: "binnacle_rollups_rounds_total",
			Help: "Rounds over a key and day, by result: ok, error, lost to another writer, no-container."}, []string{"result"}),
		builtHours: counter("binnacle_rollups_built_hours_total", "Hours of a key that got rollups."),
		documents:  counter("binnacle_rollups_documents_total", "Documents of rollups that were written."),
		bytes:      counter("binnacle_rollups_written_bytes_total", "Bytes of documents of rollups that were written."),
		lateDevices: counter("binnacle_rollups_late_devices_total",
			"Devices of a day that had chunks after their rollups were made."),
		correctedDevices: counter("binnacle_rollups_corrected_devices_total",
			"Devices of a day with rollups that were recomputed."),
		rus: f.NewCounterVec(prometheus.CounterOpts{Name: "binnacle_rollups_request_units_total",
			Help: "Request units spent on rollups: for read of chunks, for write of rollups."}, []string{"for"}),
		lag: f.NewGauge(prometheus.GaugeOpts{Name: "binnacle_rollups_lag_seconds",
			Help: "How long ago the oldest hours without rollups became due, in the last pass."}),
	}
}

func (m *metrics) round(r Report, err error) {
	result := "ok"
	switch {
	case errors.Is(err, store.ErrNoContainer):
		result = "no-container" // a month without readings, or without rollups
	case err != nil:
		result = "error"
	case r.Lost:
		result = "lost"
	}
	m.rounds.WithLabelValues(result).Inc()
	m.builtHours.Add(float64(r.Built.Count()))
	m.documents.Add(float64(r.Documents))
	m.bytes.Add(float64(r.Bytes))
	m.lateDevices.Add(float64(r.LateDevices))
	m.correctedDevices.Add(float64(r.Corrected))
	m.rus.WithLabelValues("read").Add(r.ReadRUs)
	m.rus.WithLabelValues("write").Add(r.WriteRUs)
}
