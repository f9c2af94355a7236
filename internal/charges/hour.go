package charges

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"binnacle/internal/charges/ru"
)

// Hour is what an account pays for in one clock hour, UTC: the service bills throughput by the hour.
type Hour struct {
	From       int64       `json:"from"` // ms since 1970
	Containers []Container `json:"containers"`
}

// Container is what is paid for a container, or for the throughput that containers share, under the database's name.
type Container struct {
	Name string `json:"name"`
	// RUs is the RU/s of the container; with Autoscale the maximum.
	RUs       float64 `json:"rus"`
	Autoscale bool    `json:"autoscale,omitempty"`
	Busiest   float64 `json:"busiest,omitempty"` // RU/s that were charged in the busiest minute
	GB        float64 `json:"gb,omitempty"`      // data and index
	Database  bool    `json:"database,omitempty"`
	// Serverless says that nothing was bought: the request units of the hour are paid for.
	Serverless bool `json:"serverless,omitempty"`
}

// Throughput returns the dollars for an hour of throughput. Autoscale is billed by the highest RU/s that it has scaled
// to in the hour, at least a tenth of its maximum; the busiest minute takes its place, which is a lower bound.
func (c Container) Throughput() float64 {
	if !c.Autoscale {
		return c.RUs / 100 * ru.ManualPer100
	}
	return min(c.RUs, max(c.RUs/10, c.Busiest)) / 100 * ru.AutoscalePer100
}

// perRU returns the dollars for a request unit where all that is provisioned is used.
func (c Container) perRU() float64 {
	if c.Serverless {
		return ru.ServerlessPerMillion / 1e6
	}
	if c.Autoscale {
		return ru.AutoscalePer100 / 100 / 3600
	}
	return ru.ManualPer100 / 100 / 3600
}

// Storage returns the dollars for an hour of the stored data.
func (c Container) Storage() float64 {
	if c.Database {
		return 0
	}
	return ru.Storage(c.GB) / ru.HoursPerMonth
}

// hourBody is the JSON of a document of an hour.
type hourBody struct {
	Version int    `json:"v"`
	Type    string `json:"type"` // hour
	Hour
}

// Encode returns the document of an hour.
func (h Hour) Encode() ([]byte, error) {
	slices.SortFunc(h.Containers, func(a, b Container) int { return strings.Compare(a.Name, b.Name) })
	raw, err := json.Marshal(hourBody{version, "hour", h})
	if err != nil {
		return nil, fmt.Errorf("encode an hour: %w", err)
	}
	return raw, nil
}

// DecodeHour reads the document of an hour.
func DecodeHour(doc []byte) (Hour, error) {
	var body hourBody
	if err := json.Unmarshal(doc, &body); err != nil {
		return Hour{}, fmt.Errorf("a document of an hour: %w", err)
	}
	if body.Version != version {
		return Hour{}, fmt.Errorf("a document of an hour has version %d; this binary reads %d", body.Version, version)
	}
	return body.Hour, nil
}
