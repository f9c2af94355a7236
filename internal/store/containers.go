package store

import (
	"context"
	"errors"
	"time"

	"binnacle/internal/telemetry"
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

// HeatDocument is a document of the container heat: docs/internals/format/heat.md. Body is a JSON object with the
// property from, ms since 1970; the store adds the others.
type HeatDocument struct {
	Key  string // layer of a frame, or what else it is
	ID   string
	TTL  time.Duration
	Body []byte
}

// HeatQuery asks for the documents under a key with a from in [From, To), both ms since 1970.
type HeatQuery struct {
	Key      string
	From, To int64
}

// HeatReader reads documents of the load. It is safe for any number of callers.
type HeatReader interface {
	// ReadHeat calls yield with each document, in the order of from; its bytes are yield's until it returns. An error of
	// yield ends it and is returned as it is. It fails with ErrNoContainer when there is no container heat.
	ReadHeat(ctx context.Context, q HeatQuery, yield func(doc []byte) error) (Usage, error)
}

// HeatWriter keeps documents of the load. It is safe for any number of callers.
type HeatWriter interface {
	HeatReader
	// CreateHeat stores a document that must not exist. It is durable when it returns nil; it fails with ErrExists when
	// there is one with this key and id, ErrBusy when the store is busy, or ErrNoContainer. It never waits long: a lost
	// document does no harm.
	CreateHeat(ctx context.Context, d HeatDocument) (Receipt, error)
	// PutHeat stores a document in place of the one with its key and id, if there is one. It is durable when it returns
	// nil; it fails with ErrBusy or ErrNoContainer, and never waits long.
	PutHeat(ctx context.Context, d HeatDocument) (Receipt, error)
}

// ErrChanged says that a document is not as it was read: nothing happened.
var ErrChanged = errors.New("the document has changed")

// RollupKey is where a document of rollups lives.
type RollupKey struct {
	Container string
	// TenantShard is the first level, the same as that of the chunks.
	TenantShard string
	Name        string // second level: a rollup, or one of the keys of package rollup
}

// Rollup is a document of rollups as it is stored, with the properties that the store adds.
type Rollup struct {
	Doc  []byte
	ETag string
}

// RollupScan asks for the documents under one key that have an instant in Range, as Scan does for chunks; without a
// Name for those under some keys of a first level.
type RollupScan struct {
	Key RollupKey
	// Names are second-level keys, for a Key without a Name; nil for all but that of manifests.
	Names []string
	Range telemetry.Range
	// Batches are the names that count, as documents say them; nil for all.
	Batches []string
	// Charge is as in Scan.
	Charge func(rus float64) error
}

// RollupReader reads rollups and manifests. It is safe for any number of callers.
type RollupReader interface {
	// ReadRollup reads one document. It fails with ErrNotFound or ErrNoContainer; a replica that lags may not have it
	// yet, or have an older state of it. Now is the service's clock at about that time, also with ErrNotFound: no
	// write that was acknowledged before has a higher _ts, but for what clocks of the service differ.
	ReadRollup(ctx context.Context, key RollupKey, id string) (v Rollup, now time.Time, r Receipt, err error)

	// ScanRollups calls yield with each document in turn, in no order; its bytes are yield's until it returns. Errors
	// are the errors of Reader.Scan. A caller that knows which documents exist checks that all of them came.
	ScanRollups(ctx context.Context, s RollupScan, yield func(doc []byte) error) (Usage, error)
}

// RollupWriter keeps rollups and manifests. It is safe for any number of callers. Throttling is waited out inside.
// Errors that errors.go does not name have an unknown outcome.
type RollupWriter interface {
	RollupReader

	// CreateRollup stores a document that must not exist, as Writer.Create does.
	CreateRollup(ctx context.Context, key RollupKey, id string, doc []byte) (Receipt, error)

	// ReplaceRollup stores a document in place of the one with this ETag, and fails with ErrChanged when it has another or
	// is gone. It is durable when it returns nil.
	ReplaceRollup(ctx context.Context, key RollupKey, id, etag string, doc []byte) (Receipt, error)

	// DeleteRollup removes a document; one that is gone is no error.
	DeleteRollup(ctx context.Context, key RollupKey, id string) (Receipt, error)
}
