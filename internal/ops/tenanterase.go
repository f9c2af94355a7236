package ops

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"binnacle/internal/erasure"
	"binnacle/internal/ops/erase"
	"binnacle/internal/settings"
)

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

// errOldIngester says that an ingester would store again what an order erases.
var errOldIngester = errors.New("upgrade all ingesters first")

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
	if err := r.check(r.Context(), r.tenant); err != nil {
		return 0, nil, err
	}
	e := &eraser{cfg: cfg, client: r.api.Client, cluster: r.api.Cluster, env: Env{Logger: r.log}, actions: r.actions,
		directory: r.directory(), orders: erasure.NewOrders(r.docs, time.Now).OnlyWhile(func() error {
			return r.checkClock(r.Context())
		})}
	if cfg.DryRun {
		places, err := e.survey(r.Context(), order)
		return http.StatusOK, map[string]any{"places": append([]erasure.Swept{}, places...)}, err
	}
	if err := cfg.consent(e.env, r.tenant)(eraseSays(order)); err != nil {
		return 0, nil, err
	}
	given, err := e.order(r.Context(), order)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusAccepted, lineOf(given), nil
}

func (r tenantRequest) showErasures() (int, any, error) {
	if err := r.check(r.Context(), r.tenant); err != nil {
		return 0, nil, err
	}
	list, err := listErasures(r.Context(), r.directory(), r.tenant)
	return http.StatusOK, map[string]any{"erasures": linesOf(list)}, err
}

// showCertificate answers the certificate without a signature: private keys are their owner's.
func (r tenantRequest) showCertificate() (int, any, error) {
	if err := r.check(r.Context(), r.tenant); err != nil {
		return 0, nil, err
	}
	list, err := listErasures(r.Context(), r.directory(), r.tenant)
	if err != nil {
		return 0, nil, err
	}
	i := slices.IndexFunc(list, func(o *erasure.Order) bool { return o.ID == r.PathValue("order") })
	if i < 0 {
		return 0, nil, fmt.Errorf("%w: %s", errNoOrder, r.PathValue("order"))
	}
	if list[i].ClearedAt.IsZero() {
		return 0, nil, fmt.Errorf("%w: its state is %s", erase.ErrNotCleared, lineOf(list[i]).State)
	}
	remains, err := remainsOf(r.Context(), r.api.Client, r.api.Cluster, list[i])
	if err != nil {
		return 0, nil, err
	}
	c, err := erase.NewCertificate(list[i], r.api.Client.Endpoint(), remains)
	if err != nil {
		return 0, nil, err
	}
	file, err := c.Encode(nil)
	return http.StatusOK, json.RawMessage(file), err
}
