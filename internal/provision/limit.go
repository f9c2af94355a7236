package provision

import (
	"cmp"
	"fmt"
	"slices"

	"binnacle/internal/charges/ru"
	"binnacle/internal/store"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// accountFull is why a create waits when the account is full.
const accountFull = "the account has no container left"

// Limit puts the steps in the order in which they are done, and marks the steps that must wait: creates beyond the
// containers that the account has left, changes of throughput beyond a number, and purchases beyond MaxRUs, unless
// that is 0. Drops make room; raises precede cuts; the newest month is made first. Rollups come after all chunks:
// readings wait for these, and without rollups queries read more.
func (p Policy) Limit(steps []Step, room, changes int) []Step {
	out, first := slices.Clone(steps), firstDays(steps)
	slices.SortStableFunc(out, func(a, b Step) int {
		return cmp.Or(cmp.Compare(urgency(a), urgency(b)), cmp.Compare(first[b.Container], first[a.Container]))
	})
	left := p.MaxRUs
	for i := range out {
		left -= out[i].Now.RUs
	}
	for i := range out {
		s := &out[i]
		left -= p.bound(s, left)
		switch {
		case s.Waits != "":
		case s.Action == Drop && s.Now != (store.Throughput{}):
			room++
		case s.Action == Create && room <= 0:
			s.Waits = accountFull
		case s.Action == Create:
			room--
		case s.Action == Scale && changes <= 0:
			s.Waits = fmt.Sprintf("%d changes in %s", p.MaxChanges, p.ChangesWithin)
		case s.Action == Scale:
			changes--
		}
	}
	return out
}

func urgency(s Step) int {
	switch {
	case s.Action == Drop:
		return 0
	case s.Action == Keep:
		return 1
	case s.raise():
		return 2
	case s.Action == Create && s.Tier == Hot:
		return 3
	case s.Action == Create && !s.ofRollups():
		return 4
	case s.Action == Create:
		return 5
	case s.Action == Scale:
		return 6
	}
	return 7
}

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
