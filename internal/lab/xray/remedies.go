package xray

import (
	"fmt"
	"io"
	"math"
	"strings"

	"binnacle/internal/charges/ru"
	"binnacle/internal/text/report"
)

// Remedy is something that can be done about a bad key. All request units are modelled.
type Remedy struct {
	Name string `json:"name"`
	// Refused says which known limit is not kept; "" for none.
	Refused string   `json:"refused,omitempty"`
	Gates   []string `json:"gates"` // what else has to hold
	// OnceRUs is charged for the change, and OnceDollars is its price by the throughput that is bought, or serverless.
	OnceRUs     float64 `json:"onceRUs"`
	OnceDollars float64 `json:"onceDollars"`
	// NeedRUs and Dollars are what writes and reads need afterwards, a second and a month.
	NeedRUs float64 `json:"needRUs"`
	Dollars float64 `json:"dollarsPerMonth"`
	Cures   string  `json:"cures"`
}

// Limits of a change of partition key (Azure Cosmos DB docs, change-partition-key).
const (
	changeGB  = 4096
	changeRUs = 1_000_000
)

// What the values of Binnacle's chunks may take, in bytes: repeated ones, and ones that no encoding shortens.
const (
	leastValue, mostValue = 0.5, 8
	chunkBytes            = 30_000
	// ownContainers is how many containers of Binnacle are billed for their least storage.
	ownContainers = 4
)

// remedies lists what can be done where another layout is recommended.
func (r Report) remedies(j *predictor) []Remedy {
	if r.Recommended == "" || r.Recommended == r.Now.Name {
		return nil
	}
	best := r.layout(r.Recommended)
	reads := j.cfg.Model.Query(ru.QueryWork{Docs: int(j.f.docs), ExtraKB: max(0, j.f.bytes/1024-j.f.docs)})
	copied := reads + j.f.rus
	once := ru.Consumed(copied)
	if r.Provisioned > 0 { // both containers are paid for while the copy goes on
		once = 2 * ru.Price(ru.Priced{RUs: float64(r.Provisioned)}).Most / ru.HoursPerMonth *
			math.Ceil(copied/float64(r.Provisioned)/3600)
	}
	change := Remedy{Name: "change of the partition key in place", OnceRUs: copied, OnceDollars: once, NeedRUs: best.NeedRUs,
		Dollars: best.Dollars, Cures: "writes and reads, by " + best.Name, Gates: []string{
			"a preview; writes stop while it copies", "no partition was ever merged", "local authentication is enabled",
			"the key exists in every document, or is added first"}}
	if r.GB > changeGB || r.Provisioned > changeRUs {
		change.Refused = fmt.Sprintf("%.0f GB and %d RU/s; below %d GB and %d RU/s are allowed without support", r.GB,
			r.Provisioned, changeGB, changeRUs)
	}
	online := change
	online.Name, online.Refused = "container copy, online", ""
	online.Gates = []string{"a preview", "continuous backup and the feed of all versions and deletes",
		"writes cost double while it copies"}
	writes := j.f.rus / (j.f.days * 86400)
	index := Remedy{Name: "global secondary index", OnceRUs: copied, OnceDollars: once,
		NeedRUs: r.Now.NeedRUs + writes + reads/(j.f.days*86400), Cures: "reads by " + best.Name +
			"; the hot key of writes stays", Gates: []string{"a preview", "continuous backup",
			"autoscale alone; no WHERE, one level of properties; its definition is fixed"}}
	index.Dollars = r.Now.Dollars + ru.Price(ru.Priced{RUs: 1000 * math.Ceil(max(1, writes/1000)), Autoscale: true,
		Container: true, GB: r.GB}).Least
	return []Remedy{change, online, index, r.binnacle(j)}
}

// binnacle estimates chunks of the same readings: one a device and day at least, of values that take as much as any.
func (r Report) binnacle(j *predictor) Remedy {
	values, docs := 0.0, 0.0
	for _, d := range j.docs {
		values += d.weight * max(1, float64(d.units)/ru.Scalar-4) // id, key and time aside
		docs += d.weight
	}
	write := func(each float64) float64 { // RU a day
		bytes := j.f.docs / j.f.days * values / docs * each
		chunks := max(float64(len(j.entities)), bytes/chunkBytes)
		size := int(min(chunkBytes, bytes/chunks+600))
		return chunks * j.cfg.Model.Write(size, j.cfg.Model.Levels(5*ru.Scalar, 2))
	}
	least, most := write(leastValue), write(mostValue)
	need := most/86400 + j.cfg.DeviceReads*r.Now.DeviceDay.RUs
	span := fmt.Sprintf("%.3g to %.3g", least/86400, most/86400)
	if least == most {
		span = fmt.Sprintf("%.3g", most/86400)
	}
	out := Remedy{Name: "Binnacle", OnceRUs: most * j.f.days, OnceDollars: ru.Consumed(most * j.f.days), NeedRUs: need,
		Cures: fmt.Sprintf("writes and reads; writes take %s RU/s", span), Gates: []string{"readings come through Kafka, and clients read its API",
			"what is stored is sent once more (binnacle replay)"}}
	out.Dollars = min(ru.Consumed(need*ru.HoursPerMonth*3600), dollars(need)) + ownContainers*ru.Storage(0)
	return out
}

// printRemedies writes what can be done about the key.
func printRemedies(w io.Writer, all []Remedy) error {
	if len(all) == 0 {
		return nil
	}
	fmt.Fprint(w, "\nWHAT CAN BE DONE\n")
	rows := [][]string{{"", "RU once", "$ once", "RU/s then", "$ a month then", "cures"}}
	for _, x := range all {
		rows = append(rows, []string{x.Name, report.Thousands(int64(x.OnceRUs)), report.Dollars(x.OnceDollars),
			fmt.Sprintf("%.1f", x.NeedRUs), report.Dollars(x.Dollars), x.Cures})
	}
	if err := report.List(w, rows); err != nil {
		return err
	}
	for _, x := range all {
		text := x.Name + ": " + strings.Join(x.Gates, "; ") + "."
		if x.Refused != "" {
			text += " Not to be had here: " + x.Refused + "."
		}
		if err := report.Paragraph(w, "- ", text); err != nil {
			return err
		}
	}
	return nil
}
