package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/kafka"
	"binnacle/internal/ops/erase"
	"binnacle/internal/settings"
	"binnacle/internal/stream"
)

// OrdersConfig names the topic of orders.
type OrdersConfig struct {
	Orders string `name:"orders-topic" help:"Compacted topic that keeps the orders, for accounts that are restored from a backup. It is created." default:"binnacle.erasures" placeholder:"TOPIC"`
}

// keep stores an order in the topic of orders (rule E-R11).
func (e *eraser) keep(ctx context.Context, o *erasure.Order) error {
	cluster, err := e.cluster.ClusterID(ctx)
	if err != nil {
		return err
	}
	streams, err := stream.NewStreams(e.client.Documents()).All(ctx)
	if err != nil {
		return err
	}
	var like *kafka.Topic // nil: all topics are of clusters that are gone
	if i := slices.IndexFunc(streams, func(s stream.Stream) bool { return s.Cluster == cluster }); i >= 0 {
		like = e.cluster.Topic(streams[i].Topic)
	}
	topic := e.cluster.Topic(e.cfg.Orders)
	if err := topic.EnsureCompacted(ctx, like); err != nil {
		return err
	}
	value, err := erasure.Encode(o)
	if err != nil {
		return err
	}
	_, err = topic.Produce(ctx, 0, []kafka.Message{{Key: []byte(o.ID), Value: value}})
	return err
}

// drop takes an order out of the topic of orders.
func (e *eraser) drop(ctx context.Context, id string) error {
	_, err := e.cluster.Topic(e.cfg.Orders).Produce(ctx, 0, []kafka.Message{{Key: []byte(id)}})
	if kafka.IsUnknownTopic(err) {
		return nil
	}
	return err
}

// kept returns the orders of the topic of orders, in the order of their ids.
func (e *eraser) kept(ctx context.Context) ([]*erasure.Order, error) {
	topic := e.cluster.Topic(e.cfg.Orders)
	first, end, err := topic.Bounds(ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("read the orders of topic %s: %w", e.cfg.Orders, err)
	}
	all := map[string]*erasure.Order{}
	err = topic.Each(ctx, kafka.Span{From: first, To: end}, func(r *kafka.Record) error {
		if r.Value == nil {
			delete(all, string(r.Key))
			return nil
		}
		o, err := erasure.Decode(r.Value)
		if err == nil {
			all[o.ID] = o
		}
		return err
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("read the orders of topic %s: %w", e.cfg.Orders, err)
	}
	return slices.SortedFunc(maps.Values(all), byID), nil
}

// RestoreConfig is what `binnacle erase restore` works with.
type RestoreConfig struct {
	Account AccountConfig `kong:"embed,group='Cosmos DB'"`
	Kafka   kafka.Config  `kong:"embed,group='Kafka'"`

	OrdersConfig `kong:"embed,group='Kafka'"`
	DryRun       bool `help:"Show which orders the account lacks, and change nothing."`
	JSON         bool `name:"json" help:"Print JSON."`
}

// Run gives the orders again that the topic of orders has and a restored account lacks, and prints them.
func (cfg RestoreConfig) Run(ctx context.Context, env Env) error {
	e, _, err := openEraser(ctx, EraseConfig{Account: cfg.Account, Kafka: cfg.Kafka, OrdersConfig: cfg.OrdersConfig}, env)
	if err != nil {
		return err
	}
	defer e.close()
	all, err := e.kept(ctx)
	if err != nil {
		return err
	}
	v, err := e.directory.Refresh(ctx) // after the topic, so that it has all orders of that
	if err != nil {
		return err
	}
	restored := erasure.List{}
	for _, o := range all {
		if s := v.Erasures(o.Tenant).Find(o.ID); s != nil && s.IsAcknowledged() {
			continue
		}
		if !cfg.DryRun {
			err := e.restore(ctx, o)
			if errors.Is(err, erasure.ErrVoid) {
				continue
			}
			if err != nil {
				return err
			}
		}
		restored = append(restored, o)
	}
	return printErasures(env.Stdout, restored, cfg.JSON)
}

// restore gives an order again, with its id and positions.
func (e *eraser) restore(ctx context.Context, o *erasure.Order) error {
	return ActionsOf(e.client, "", e.env.Logger).Do(ctx,
		control.Action{Verb: "erase restore", Tenant: o.Tenant, Object: o.ID},
		func(*control.Action) error {
			if err := e.orders.Restore(ctx, o); err != nil {
				return err
			}
			return e.orders.Settle(ctx, e.client.Catalog(), o)
		})
}

// eraseRequest is what an operator sends to have readings erased: flags of `binnacle tenant erase`.
type eraseRequest struct {
	Device  string   `json:"device"`
	From    string   `json:"from"`
	To      string   `json:"to"`
	Confirm string   `json:"confirm"`
	DryRun  bool     `json:"dry-run"`
	Group   string   `json:"group"`
	Orders  string   `json:"orders-topic"`
	Gone    []string `json:"gone-cluster"`
}

func (r tenantRequest) erase() (int, any, error) {
	var body eraseRequest
	if err := r.body(&body); err != nil {
		return 0, nil, err
	}
	cfg := EraseConfig{Tenant: r.tenant, Device: body.Device, From: body.From, To: body.To,
		Confirmation: Confirmation{Confirm: body.Confirm, DryRun: body.DryRun},
		Group:        body.Group, OrdersConfig: OrdersConfig{body.Orders}, Gone: body.Gone}
	settings.Defaults(&cfg)
	order, err := cfg.order()
	if err != nil {
		return 0, nil, unfitError{err}
	}
	order.By = r.who
	e := &eraser{cfg: cfg, client: r.api.Client, cluster: r.api.Cluster, env: Env{Logger: r.log}, actions: r.actions,
		directory: r.directory()}
	if cfg.DryRun {
		places, err := e.survey(r.Context(), order)
		return http.StatusOK, map[string]any{"places": append([]erasure.Swept{}, places...)}, err
	}
	if err := cfg.consent(e.env, r.tenant)(eraseSays(order)); err != nil {
		return 0, nil, err
	}
	e.orders = OrdersOf(r.api.Client)
	given, err := e.order(r.Context(), order)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusAccepted, lineOf(given), nil
}

func (r tenantRequest) showErasures() (int, any, error) {
	list, err := listErasures(r.Context(), r.directory(), r.tenant)
	return http.StatusOK, map[string]any{"erasures": linesOf(list)}, err
}

// showCertificate answers the certificate without a signature: private keys are their owner's.
func (r tenantRequest) showCertificate() (int, any, error) {
	list, err := listErasures(r.Context(), r.directory(), r.tenant)
	if err != nil {
		return 0, nil, err
	}
	o := list.Find(r.PathValue("order"))
	if o == nil {
		return 0, nil, fmt.Errorf("%w: %s", errNoOrder, r.PathValue("order"))
	}
	if o.ClearedAt.IsZero() {
		return 0, nil, fmt.Errorf("%w: its state is %s", erase.ErrNotCleared, lineOf(o).State)
	}
	e := &eraser{client: r.api.Client, cluster: r.api.Cluster}
	file, err := e.certificate(r.Context(), o, e.client.Endpoint(), nil)
	return http.StatusOK, json.RawMessage(file), err
}
