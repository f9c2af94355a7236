package cosmos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"binnacle/binning/chunk"
	"binnacle/internal/heat"
	"binnacle/internal/store"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// about is what the charges of a call are counted as.
type about struct {
	shard  string // first-level key; "" where nothing is counted
	device string
	kind   heat.Kind
	bytes  int // size of the document that the call stores
}

// countHeat passes what an answer cost to Config.Heat.
func (c *Client) countHeat(to call, a outcome) {
	if c.cfg.Heat == nil || to.about.shard == "" {
		return
	}
	what := heat.Charge{Container: to.container, Shard: to.about.shard, Device: to.about.device, Kind: to.about.kind,
		RUs: a.charge, Throttled: a.status == http.StatusTooManyRequests}
	if a.status == http.StatusCreated {
		what.Bytes = to.about.bytes
	}
	c.cfg.Heat.Count(what)
}

// backfillAfter is the age in ms of the end of a day from which on its chunks count as a backfill's.
const backfillAfter = 2 * heat.Day

func (s *Chunks) kindOf(id string) heat.Kind {
	parsed, err := chunk.ParseID(id)
	if err == nil && s.c.cfg.Now().UnixMilli()-parsed.Day.End() >= backfillAfter {
		return heat.Backfills
	}
	return heat.ChunkWrites
}

// heatDocuments is store.HeatWriter: the container heat.
type heatDocuments struct{ c *Client }

// Heat returns the writer of heat documents.
func (c *Client) Heat() store.HeatWriter { return &heatDocuments{c} }

func (s *heatDocuments) to(operation, key string) call {
	return call{operation: operation, container: store.HeatContainer, key: []string{key}, brief: true, low: true}
}

// CreateHeat implements store.HeatWriter.
func (s *heatDocuments) CreateHeat(ctx context.Context, d store.HeatDocument) (store.Receipt, error) {
	return s.write(ctx, "heat_create", d, creating)
}

// PutHeat implements store.HeatWriter.
func (s *heatDocuments) PutHeat(ctx context.Context, d store.HeatDocument) (store.Receipt, error) {
	return s.write(ctx, "heat_put", d, upserting)
}

func (s *heatDocuments) write(ctx context.Context, operation string, d store.HeatDocument,
	sending func(doc []byte) itemRequest) (store.Receipt, error) {
	identity, err := json.Marshal(struct {
		ID  string `json:"id"`
		Key string `json:"key"`
		TTL int    `json:"ttl"`
	}{d.ID, d.Key, int(d.TTL.Seconds())})
	if err != nil {
		return store.Receipt{}, err
	}
	body := append(append(identity[:len(identity)-1], ','), d.Body[1:]...)
	_, receipt, err := s.c.item(ctx, s.to(operation, d.Key), sending(body))
	var answer *Error
	switch {
	case is(err, http.StatusConflict):
		err = store.ErrExists
	case is(err, http.StatusNotFound):
		err = store.ErrNoContainer
	case errors.As(err, &answer) && answer.Status == http.StatusTooManyRequests:
		err = &store.BusyError{RetryAfter: askedFor(answer)}
	}
	if err != nil {
		return receipt, fmt.Errorf("write heat %s of %s: %w", d.ID, d.Key, err)
	}
	return receipt, nil
}

const heatSQL = `SELECT * FROM c WHERE c.key = @key AND c["from"] >= @from AND c["from"] < @to ORDER BY c["from"] ASC`

// ReadHeat implements store.HeatReader.
func (s *heatDocuments) ReadHeat(ctx context.Context, q store.HeatQuery, yield func(doc []byte) error) (store.Usage,
	error) {
	to := s.to("heat_read", q.Key)
	to.brief = false
	asked := query{heatSQL, []azcosmos.QueryParameter{param("@key", q.Key), param("@from", q.From), param("@to", q.To)}}
	return s.c.scan(ctx, to, asked, "read heat of "+q.Key, nil, yield)
}
