package provision

import (
	"binnacle/internal/charges/ru"
	"binnacle/internal/store"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	containers  *prometheus.GaugeVec
	rus         *prometheus.GaugeVec
	dollars     prometheus.Gauge
	least       prometheus.Gauge
	accountFull prometheus.Gauge
	beyond      prometheus.Gauge
	steps       *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	return &metrics{
		containers: f.NewGaugeVec(prometheus.GaugeOpts{Name: "binnacle_provision_containers", Help: "Containers by tier."},
			[]string{"tier"}),
		rus: f.NewGaugeVec(prometheus.GaugeOpts{Name: "binnacle_provision_request_units_per_second",
			Help: "Provisioned throughput by tier; of autoscale the maximum."}, []string{"tier"}),
		dollars: f.NewGauge(prometheus.GaugeOpts{Name: "binnacle_provision_dollars_per_month",
			Help: "List price of all containers, throughput and storage, with the highest use that autoscale allows."}),
		least: f.NewGauge(prometheus.GaugeOpts{Name: "binnacle_provision_least_dollars_per_month",
			Help: "List price of all containers, throughput and storage, with autoscale at rest."}),
		accountFull: f.NewGauge(prometheus.GaugeOpts{Name: "binnacle_provision_containers_without_room",
			Help: "Containers that are needed and can't be made because the account is full."}),
		beyond: f.NewGauge(prometheus.GaugeOpts{Name: "binnacle_provision_request_units_beyond_ceiling",
			Help: "RU/s that are wanted beyond what all containers together may have, and not bought."}),
		steps: f.NewCounterVec(prometheus.CounterOpts{Name: "binnacle_provision_steps_total",
			Help: "Steps that were tried, by action and result."}, []string{"action", "result"}),
	}
}

func (m *metrics) step(s Step, err error) {
	if s.Action == None {
		return
	}
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.steps.WithLabelValues(string(s.Action), result).Inc()
}

func (m *metrics) round(steps []Step) {
	m.containers.Reset()
	m.rus.Reset()
	var price ru.Bill
	var waiting int
	for _, s := range steps {
		if s.Waits == accountFull {
			waiting++
		}
		if t := s.after(); t != (store.Throughput{}) {
			if s.Container != store.Database {
				m.containers.WithLabelValues(string(s.Tier)).Inc()
			}
			m.rus.WithLabelValues(string(s.Tier)).Add(float64(t.RUs))
			price = price.Plus(s.bill(t))
		}
	}
	m.dollars.Set(price.Most)
	m.least.Set(price.Least)
	m.accountFull.Set(float64(waiting))
}
