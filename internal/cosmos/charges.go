package cosmos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"binnacle/internal/charges"
	"binnacle/internal/charges/purpose"
	"binnacle/internal/heat"
	"binnacle/internal/store"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

type callKey struct{}

// countCharges is the policy that passes the charge of each answer to Config.Charges. The SDK runs it for each
// attempt, behind its own retries, and for requests that the SDK adds: every charged request passes through it.
type countCharges struct{ c *Client }

// Do implements policy.Policy.
func (p countCharges) Do(r *policy.Request) (*http.Response, error) {
	resp, err := r.Next()
	if resp == nil {
		return resp, err
	}
	rus := chargeOf(resp)
	if to, ok := r.Raw().Context().Value(callKey{}).(*call); ok && resp.StatusCode >= http.StatusBadRequest {
		to.hidden.add(rus)
	}
	if rus > 0 && p.c.cfg.Charges != nil {
		p.c.cfg.Charges.Count(p.c.cfg.Now(), chargeFor(r.Raw().Context(), resp.StatusCode, rus))
	}
	return resp, err
}

// hiddenCharges adds up what the refused requests of one call were charged: the SDK itself repeats some reads, and
// shows the last answer only. It is safe for any number of callers.
type hiddenCharges struct {
	mu  sync.Mutex
	rus float64 // guarded by mu
}

func (h *hiddenCharges) add(rus float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rus += rus
}

// beside returns the charges that the answer shown by the SDK does not include.
func (h *hiddenCharges) beside(shown *http.Response) float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if shown != nil && shown.StatusCode >= http.StatusBadRequest {
		return max(h.rus-chargeOf(shown), 0)
	}
	return h.rus
}

func chargeFor(ctx context.Context, status int, rus float64) charges.Charge {
	out := charges.Charge{RUs: rus, Kind: charges.Control}
	to, _ := ctx.Value(callKey{}).(*call)
	if to != nil {
		out.Container, out.Tenant, out.Kind = to.container, to.tenant, to.kind()
		if status == http.StatusCreated {
			out.Bytes = to.about.bytes
		}
	}
	if p := purpose.Of(ctx); p != nil {
		if out.Tenant == "" {
			out.Tenant = p.Tenant
		}
		if p.Kind != "" && (out.Tenant != "" || out.Kind != charges.Control) {
			out.Kind = p.Kind
		}
		if out.Tenant != "" && out.Tenant == p.Tenant {
			out.Source = p.Source
		}
	}
	return out
}

// kind returns what a request is without a purpose.
func (to *call) kind() charges.Kind {
	switch {
	case to.container == store.CatalogContainer:
		return charges.Catalog
	case to.tenant == "" && to.about.shard == "":
		return charges.Control
	}
	switch to.about.kind {
	case heat.ChunkWrites:
		if to.about.shard == "" {
			return charges.Reads
		}
		return charges.Chunks
	case heat.Backfills:
		return charges.Backfill
	case heat.LookUps:
		return charges.LookUps
	case heat.RollupReads, heat.RollupWrites:
		return charges.Rollups
	case heat.Catalog:
		return charges.Catalog
	}
	return charges.Reads
}

// emulatorCharges is the path at which Binnacle's emulator returns what it has charged.
const emulatorCharges = "_emulator/charges"

// Charged is what an account says it has charged in a month, in RU.
type Charged struct {
	All    float64
	Recent []struct {
		At  int64   `json:"at"` // ms since 1970
		RUs float64 `json:"rus"`
	} // the part of All of the last minutes
}

// Until returns what had been charged up to a time; of a time before the recent charges, all.
func (c Charged) Until(t time.Time) float64 {
	sum := c.All
	if len(c.Recent) > 0 && t.UnixMilli() >= c.Recent[0].At {
		for _, r := range c.Recent {
			if r.At >= t.UnixMilli() {
				sum -= r.RUs
			}
		}
	}
	return sum
}

// Charged returns what the account says it has charged in a month, and whether it says so: Binnacle's emulator does.
// An account of the service has it in Azure Monitor, as the metric TotalRequestUnits.
func (c *Client) Charged(ctx context.Context, m charges.Month) (out Charged, known bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(c.cfg.Endpoint, "/")+"/"+emulatorCharges,
		http.NoBody)
	if err != nil {
		return Charged{}, false, fmt.Errorf("what the account has charged: %w", err)
	}
	do := http.DefaultClient.Do
	if c.cfg.Transport != nil {
		do = c.cfg.Transport.Do
	}
	resp, err := do(r)
	if err != nil {
		return Charged{}, false, fmt.Errorf("what the account has charged: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	var body struct {
		Months map[string]map[string]float64 `json:"months"`
		Charged
	}
	if resp.StatusCode != http.StatusOK || json.NewDecoder(resp.Body).Decode(&body) != nil {
		return Charged{}, false, nil
	}
	for _, rus := range body.Months[m.String()] {
		body.All += rus
	}
	return body.Charged, true, nil
}
