package tenant

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// epochBody is an epoch document: docs/internals/format/control.md.
type epochBody struct {
	Tenant  string         `json:"tenant"`
	Created int64          `json:"created"`
	Epoch   sharding.Epoch `json:"epoch"`
}

// epochID sorts by tenant and day. A tenant's name has no dot.
func epochID(tenant string, from telemetry.Day) string { return tenant + "." + from.String() }

// EpochDocument returns the document of a tenant's epoch.
func EpochDocument(tenant string, e sharding.Epoch, created time.Time) store.Document {
	body := epochBody{Tenant: tenant, Created: created.UnixMilli(), Epoch: e}
	return store.NewDocument(KindEpoch, epochID(tenant, e.From), body)
}

// periodPrefix begins the ids of periods. They are documents of kind epoch, which a tenant's name can't begin like: a
// binary that does not know periods refuses all epochs when it finds one, and so places nothing wrongly.
const periodPrefix = "~period."

// periodBody is a period document: docs/internals/format/control.md.
type periodBody struct {
	Created int64 `json:"created"`
	sharding.PeriodEpoch
}

func isPeriod(d store.Document) bool { return strings.HasPrefix(d.ID, periodPrefix) }

func periodID(from telemetry.Day) string { return periodPrefix + from.String() }

// PeriodsOf returns the periods among documents of kind epoch, in the order of their days.
func PeriodsOf(epochs []store.Document) (out []sharding.PeriodEpoch, err error) {
	for _, d := range epochs {
		if !isPeriod(d) {
			continue
		}
		var b periodBody
		if err := d.Decode(&b); err != nil {
			return nil, err
		}
		if d.ID != periodID(b.From) {
			return nil, fmt.Errorf("%s document %q is about %s", d.Kind, d.ID, periodID(b.From))
		}
		out = append(out, b.PeriodEpoch)
	}
	slices.SortFunc(out, func(a, b sharding.PeriodEpoch) int { return int(a.From) - int(b.From) })
	return out, nil
}

// PeriodDocument returns the document of a period.
func PeriodDocument(e sharding.PeriodEpoch, created time.Time) store.Document {
	return store.NewDocument(KindEpoch, periodID(e.From), periodBody{created.UnixMilli(), e})
}
