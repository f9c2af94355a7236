package store

import (
	"errors"
)

// ErrAccountFull says that the account has no container left to give.
var ErrAccountFull = errors.New("the account has reached its number of containers")

// ErrServerless says that throughput can't be read, set or shared: the account is serverless.
var ErrServerless = errors.New("the account is serverless")

// Names of the database and of the containers that are not made of chunks.
const (
	Database         = "binnacle"
	ControlContainer = "control"
	CatalogContainer = "catalog"
	HeatContainer    = "heat"
)

// BaseContainers returns the containers that every database of Binnacle has.
func BaseContainers() []string { return []string{ControlContainer, CatalogContainer, HeatContainer} }

// Throughput is what is provisioned for a container.
type Throughput struct {
	RUs       int  `json:"rus"`                 // RU/s; with Autoscale the maximum
	Autoscale bool `json:"autoscale,omitempty"` // chosen at creation, never changed
	// Shared says that the container shares the throughput of the database; chosen at creation as well.
	Shared bool `json:"shared,omitempty"`
	// Serverless says that the account is serverless: nothing is bought, and each request unit is paid for.
	Serverless bool `json:"serverless,omitempty"`
}

// ContainerState is a container as it is found, or under the name Database what the containers share.
type ContainerState struct {
	Name       string
	Throughput Throughput
	MinRUs     int     // the lowest RU/s that the service would accept now, 0 when it does not tell
	Pending    bool    // a change of throughput is still under way
	GB         float64 // data and index, 0 where it is not known
}
