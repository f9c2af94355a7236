package replay

import (
	"hash/maphash"
	"math"
	"strings"

	"binnacle/binning"
	"binnacle/binning/chunk"
	"binnacle/internal/charges/ru"
	"binnacle/internal/control"
	"binnacle/internal/telemetry"
)

// chunkBytes is what a chunk has at most, and chunkIndex the units of its index.
const (
	chunkBytes = 32 << 10
	chunkIndex = 5 * ru.Scalar
)

// surveyor finds out how much work a file is. Of its first devices and days it makes chunks, by which it estimates the
// size of the others.
type surveyor struct {
	seed    maphash.Seed
	tenants map[string]*surveyed
	bins    map[deviceDay]*binning.Bin
}

type surveyed struct {
	control.BackfillWork
	values     int
	deviceDays map[uint64]struct{}
}

type deviceDay struct {
	tenant, device string
	day            telemetry.Day
}

// What a surveyor makes chunks of.
const (
	sampledBins     = 32
	sampledReadings = 2000 // readings of each bin
)

func newSurveyor() *surveyor {
	return &surveyor{seed: maphash.MakeSeed(), tenants: map[string]*surveyed{}, bins: map[deviceDay]*binning.Bin{}}
}

func (s *surveyor) add(r telemetry.Reading) {
	t := s.tenants[r.Tenant]
	if t == nil {
		tenant := strings.Clone(r.Tenant)
		t = &surveyed{BackfillWork: control.BackfillWork{Tenant: tenant, Range: telemetry.Range{From: r.Time, To: r.Time + 1},
			Days: map[telemetry.Day]int64{}}, deviceDays: map[uint64]struct{}{}}
		s.tenants[tenant] = t
	}
	day := telemetry.DayOf(r.Time)
	t.Range = telemetry.Range{From: min(t.Range.From, r.Time), To: max(t.Range.To, r.Time+1)}
	t.Readings++
	t.values += len(r.Fields)
	t.Days[day]++
	t.deviceDays[maphash.String(s.seed, r.Device)^uint64(day)*math.MaxUint32] = struct{}{}
	of := deviceDay{t.Tenant, r.Device, day}
	bin := s.bins[of]
	if bin == nil && len(s.bins) < sampledBins {
		b := binning.NewBin(binning.NewNames())
		bin = &b
		of.device = strings.Clone(r.Device)
		s.bins[of] = bin
	}
	if bin != nil && bin.Readings() < sampledReadings {
		bin.Append(int64(bin.Readings()), clone(r))
	}
}

// clone returns a reading that does not share bytes with the line that it was read from.
func clone(r telemetry.Reading) telemetry.Reading {
	fields := make([]telemetry.Field, len(r.Fields))
	for i, f := range r.Fields {
		if f.Metric = strings.Clone(f.Metric); f.Value.Kind() == telemetry.Text {
			f.Value = telemetry.TextValue(strings.Clone(f.Value.Text()))
		}
		fields[i] = f
	}
	r.Fields, r.Labels = fields, nil
	return r
}

// sampled returns how many bytes of a chunk a value takes.
func (s *surveyor) sampled() float64 {
	bytes, values := 0, 0
	for of, bin := range s.bins {
		frame, err := bin.Frame(binning.Selection{Above: -1, Below: math.MaxInt64,
			Span: telemetry.Range{From: of.day.Start(), To: of.day.End()}})
		if err != nil {
			continue
		}
		doc, err := chunk.Encode(chunk.Header{ID: chunk.ID{Day: of.day, Stream: 1}, TenantShard: of.tenant + "~0",
			Device: of.device, After: -1, Readings: bin.Readings()}, frame)
		if err == nil {
			bytes, values = bytes+len(doc), values+bin.Values()
		}
	}
	return float64(bytes) / float64(max(1, values))
}

func (s *surveyor) work() map[string]control.BackfillWork {
	perValue := s.sampled()
	out := make(map[string]control.BackfillWork, len(s.tenants))
	for name, t := range s.tenants {
		w := t.BackfillWork
		days := float64(len(t.deviceDays))
		bytes := float64(t.values) * perValue
		parts := math.Ceil(bytes / days / chunkBytes)
		w.Bytes, w.Chunks = int(bytes), int(days*parts)
		w.RUs = days * parts * ru.Stepped.Write(int(bytes/days/max(1, parts)), chunkIndex)
		out[name] = w
	}
	return out
}
