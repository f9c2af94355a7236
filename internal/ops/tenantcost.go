package ops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"binnacle/internal/charges"
	"binnacle/internal/charges/purpose"
	"binnacle/internal/cosmos"
	"binnacle/internal/heat/heatlog"
	"binnacle/internal/text/report"
	"binnacle/sharding"
)

// CostConfig is what `binnacle tenant cost` runs with.
type CostConfig struct {
	Tenant string `arg:"" optional:"" help:"Tenant to show in detail. Default: a line for each."`

	Account AccountConfig `kong:"embed,group='Cosmos DB'"`

	Month   string   `help:"Month of the bill, UTC, such as 2026-11. Default: the present one." placeholder:"MONTH"`
	Charged *float64 `help:"Request units that the account says it has charged in the month: of Azure Monitor, the sum of TotalRequestUnits. Default: what Binnacle's emulator says." placeholder:"RU"`
	Top     int      `help:"Number of devices, dashboards and queries to list of a tenant." default:"10"`
	Format  string   `help:"${enum}. focus is CSV in the columns of FOCUS 1.2, the FinOps Open Cost and Usage Specification." enum:"table,json,focus" default:"table"`
	JSON    bool     `name:"json" help:"The same as --format json."`
}

// Run prints what a month costs: for each tenant, or in more detail for the one with a name.
func (c CostConfig) Run(ctx context.Context, env Env) error {
	month, err := charges.ParseMonth(c.Month, time.Now())
	if err != nil {
		return err
	}
	if c.Top < 1 {
		return errors.New("--top must be at least 1")
	}
	client, err := c.Account.Connect(env.Logger)
	if err != nil {
		return err
	}
	defer client.Close()
	of := NewCosts(client)
	bill, sum, err := of.bill(ctx, month, c.Charged)
	if err != nil {
		return err
	}
	if c.JSON {
		c.Format = "json"
	}
	if c.Tenant == "" {
		switch c.Format {
		case "focus":
			return charges.WriteFOCUS(env.Stdout, bill, month)
		case "json":
			return printEach(env, []*charges.Bill{bill})
		}
		return printBill(env.Stdout, bill)
	}
	one, err := of.tenant(ctx, billedTenant{c.Tenant, bill, sum, c.Top})
	if err != nil {
		return err
	}
	switch c.Format {
	case "focus":
		bill.Tenants, bill.Nobody = []charges.TenantBill{one.TenantBill}, charges.TenantBill{}
		return charges.WriteFOCUS(env.Stdout, bill, month)
	case "json":
		return printEach(env, []charges.TenantCost{one})
	}
	return printTenantCost(env.Stdout, one)
}

// Costs makes bills of what processes have stored in an account. It is safe for any number of callers.
type Costs struct {
	client *cosmos.Client
	now    func() time.Time

	mu   sync.Mutex
	kept map[charges.Month]*keptBill // guarded by mu
}

// keptBill is the bill of a month, made a moment ago, or being made.
type keptBill struct {
	making chan struct{} // has an element while a goroutine makes it
	asked  time.Time     // guarded by the mutex of all

	// The holder of making owns these.
	bill *charges.Bill
	sum  *charges.Sum
	at   time.Time
}

// How long a bill is answered again, to operators and to tenants. Counters are stored once a minute, and a page that
// is kept open asks again and again. The bill of an account's first hour is kept for less; the bill of a month that has
// been over for a day does not change any more.
const (
	costKept        = time.Minute
	costKeptFirst   = 10 * time.Minute
	costKeptTenants = time.Hour
	costKeptOver    = 24 * time.Hour
)

// NewCosts returns what computes bills of an account, for one caller at a time.
func NewCosts(client *cosmos.Client) *Costs {
	return &Costs{client: client, now: time.Now, kept: map[charges.Month]*keptBill{}}
}

// recent returns the bill of a month as it was some time ago at most, and what it sums up. Bills of several months are
// made at the same time, each by one caller while others wait for it.
func (c *Costs) recent(ctx context.Context, month charges.Month, age time.Duration) (
	*charges.Bill, *charges.Sum, error) {
	k := c.monthOf(month)
	select {
	case k.making <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	defer func() { <-k.making }()
	now := c.now()
	switch {
	case k.bill == nil || k.bill.Hours <= 1:
		age = min(age, costKeptFirst)
	case k.at.Sub(month.End()) > costKeptOver:
		age = costKeptOver
	}
	if k.bill == nil || now.Sub(k.at) >= age {
		bill, sum, err := c.bill(ctx, month, nil)
		if err != nil {
			return nil, nil, err
		}
		k.bill, k.sum, k.at = bill, sum, now
	}
	return k.bill, k.sum, nil
}

// monthOf returns what is kept of a month, and drops the month that was asked for the longest time ago.
func (c *Costs) monthOf(month charges.Month) *keptBill {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.kept[month]
	if k == nil {
		k = &keptBill{making: make(chan struct{}, 1)}
		if len(c.kept) >= mostKeptBills {
			delete(c.kept, slices.MinFunc(slices.Collect(maps.Keys(c.kept)), func(a, b charges.Month) int {
				return c.kept[a].asked.Compare(c.kept[b].asked)
			}))
		}
		c.kept[month] = k
	}
	k.asked = c.now()
	return k
}

// mostKeptBills bounds the months that are kept.
const mostKeptBills = 36

// Cost returns what a month costs a tenant, for its own users.
func (c *Costs) Cost(ctx context.Context, tenant string, month charges.Month) (charges.TenantCost, error) {
	bill, sum, err := c.recent(ctx, month, costKeptTenants)
	if err != nil {
		return charges.TenantCost{}, err
	}
	return bill.Of(tenant, sum, listedCosts), nil
}

// listedCosts is how many of each kind are listed over HTTP.
const listedCosts = 10

// Serve answers operators: a bill of all tenants, or of the one in the path.
func (c *Costs) Serve(r *http.Request) (int, any, error) {
	month, err := charges.ParseMonth(r.URL.Query().Get("month"), c.now())
	if err != nil {
		return 0, nil, unfitError{err}
	}
	bill, sum, err := c.recent(purpose.With(r.Context(), nil), month, costKept) // no tenant is charged for it
	if err != nil || r.PathValue("tenant") == "" {
		return http.StatusOK, bill, err
	}
	one, err := c.tenant(r.Context(), billedTenant{r.PathValue("tenant"), bill, sum, listedCosts})
	return http.StatusOK, one, err
}

// mostUnbilled is how many hours without a document are taken to cost what the account costs now. Documents are stored
// ten minutes after the hour.
const mostUnbilled = 3

// mostStoring is how long storing counters takes, at most.
const mostStoring = 2 * time.Second

// bill returns the bill of a month. charged is what the account says it has charged, nil to ask it.
func (c *Costs) bill(ctx context.Context, month charges.Month, charged *float64) (*charges.Bill, *charges.Sum, error) {
	// Charged comes first, so that its answer does not include the charges of this call, which no bill counts.
	said, known, err := c.client.Charged(ctx, month)
	if err != nil {
		return nil, nil, err
	}
	reader := heatlog.NewReader(c.client.Heat())
	in := charges.BillInput{Month: month, Charged: charged, Bytes: map[string]map[string]int64{}}
	if in.Sum, err = reader.Charges(ctx, month); err != nil {
		return nil, nil, err
	}
	if known && charged == nil {
		// The last write counts itself, and is charged a moment after the time that it names.
		stored := in.Sum.Through.Add(mostStoring)
		rus := min(max(in.Sum.RUs(), said.Until(in.Sum.Through)), said.Until(stored))
		in.Charged = &rus
	}
	if in.Hours, err = reader.Hours(ctx, month); err != nil {
		return nil, nil, err
	}
	if now := c.now(); month == charges.MonthOf(now) {
		if in.Present, err = heatlog.ReadContainers(ctx, c.client.Containers()); err != nil {
			return nil, nil, err
		}
		in.PresentHours = unbilled(in.Hours, now)
	}
	if err := c.addBytes(ctx, reader, in); err != nil {
		return nil, nil, err
	}
	return charges.NewBill(in), in.Sum, nil
}

// unbilled returns how many clock hours up to the present one, which counts whole, have no document.
func unbilled(hours []charges.Hour, now time.Time) float64 {
	if len(hours) == 0 {
		return 1
	}
	last := time.UnixMilli(hours[len(hours)-1].From).Add(time.Hour)
	return min(mostUnbilled, max(0, now.Truncate(time.Hour).Add(time.Hour).Sub(last).Hours()))
}

// addBytes adds what tenants have stored in the containers of a bill, in all months since the first of them begins.
func (c *Costs) addBytes(ctx context.Context, reader *heatlog.Reader, in charges.BillInput) (err error) {
	billed := slices.Clone(in.Present)
	for _, h := range in.Hours {
		billed = append(billed, h.Containers...)
	}
	first := in.Month.Begin()
	for _, of := range billed {
		in.Bytes[of.Name] = map[string]int64{}
		if begin, ok := containerBegin(of.Name); ok && begin.Before(first) {
			first = begin
		}
	}
	if kept := c.now().Add(-heatlog.KeepCharges); first.Before(kept) {
		first = kept
	}
	for m := charges.MonthOf(first); !m.Begin().After(in.Month.Begin()); m = charges.MonthOf(m.End()) {
		sum := in.Sum
		if m != in.Month {
			if sum, err = reader.Charges(ctx, m); err != nil {
				return err
			}
		}
		for key, a := range sum.Rows {
			if stored := in.Bytes[key.Container]; stored != nil && key.Tenant != "" && a.Bytes > 0 {
				stored[key.Tenant] += a.Bytes
			}
		}
	}
	return nil
}

// containerBegin returns the begin of the month of a container of chunks or rollups.
func containerBegin(name string) (time.Time, bool) {
	_, of, ok := sharding.ParseContainer(name)
	if !ok {
		_, of, ok = sharding.ParseRollupsContainer(name)
	}
	return time.UnixMilli(of.Range().From).UTC(), ok
}

type billedTenant struct {
	tenant string
	bill   *charges.Bill
	sum    *charges.Sum
	top    int
}

// tenant returns the bill of a tenant that exists, or has existed, with its dearest devices.
func (c *Costs) tenant(ctx context.Context, of billedTenant) (out charges.TenantCost, err error) {
	if out = of.bill.Of(of.tenant, of.sum, of.top); out.Requests == 0 {
		if _, err := newTenantOperator(c.client.Documents(), "", nil).find(ctx, of.tenant); err != nil {
			return out, err
		}
	}
	if out.Devices, err = c.devices(ctx, of); err != nil {
		return out, err
	}
	written := out.ByKind[charges.Chunks] + out.ByKind[charges.Backfill] + out.ByKind[charges.Rollups]
	return out, c.metrics(ctx, of, written, &out)
}

func printBill(w io.Writer, b *charges.Bill) error {
	fmt.Fprintf(w, "%s, %s of throughput and storage, list prices; counted up to %s by %d processes\n\n", b.Month,
		hoursText(b.Hours), through(b.Through), b.Counters)
	rows := [][]string{{"tenant", "RU", "GB-months", "usage", "idle", "floors", "storage", "total"}}
	line := func(name string, t charges.TenantBill) {
		d := t.Dollars
		rows = append(rows, []string{name, report.Thousands(int64(t.RUs)), gbMonths(t.GBMonths),
			dollars(d.Usage), dollars(d.Idle), dollars(d.Floors), dollars(d.Storage), dollars(d.Total)})
	}
	for _, t := range b.Tenants {
		line(t.Tenant, t)
	}
	line("nobody", b.Nobody)
	if err := report.List(w, rows); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	fmt.Fprintf(w, "\nin all %s\n", dollars(b.Dollars))
	if s := b.Store; s != nil {
		fmt.Fprintf(w, "by then the account had charged %s RU; %s RU are unattributed (%.2f %%)\n",
			report.Thousands(int64(s.Charged)), report.Thousands(int64(s.Unattributed)), s.Percent)
	} else {
		fmt.Fprintln(w, "what the account has charged is not known: give it by --charged")
	}
	return nil
}

func printTenantCost(w io.Writer, t charges.TenantCost) error {
	d := t.Dollars
	rows := [][]string{
		{"tenant", t.Tenant}, {"month", t.Month + ", " + hoursText(t.Hours) + " of throughput and storage"},
		{"counted up to", through(t.Through)}, {"request units", report.Thousands(int64(t.RUs))},
	}
	for _, k := range charges.Kinds {
		if rus, ok := t.ByKind[k]; ok {
			rows = append(rows, []string{"  " + string(k), report.Thousands(int64(rus))})
		}
	}
	rows = append(rows, []string{"GB-months", gbMonths(t.GBMonths)},
		[]string{"usage", dollars(d.Usage)}, []string{"idle", dollars(d.Idle)}, []string{"floors", dollars(d.Floors)},
		[]string{"storage", dollars(d.Storage)}, []string{"total", dollars(d.Total)})
	if err := report.List(w, rows); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	stored := [][]string{{"stored in", "data, GB-months", "index", "dollars", "RU/s that it forces"}}
	for _, x := range t.Stored {
		stored = append(stored, []string{x.Container, gbMonths(x.Data), gbMonths(x.Index), dollars(x.Dollars),
			report.Thousands(int64(x.LeastRUs))})
	}
	for _, x := range t.Retention {
		keeps, saves := "kept without end", ""
		if x.Days > 0 {
			keeps, saves = fmt.Sprintf("kept %g days", x.Days), "half saves "+dollars(x.Saves)
		}
		stored = append(stored, []string{keeps, gbMonths(x.GB), "", saves})
	}
	if len(stored) > 1 {
		fmt.Fprintln(w)
		if err := report.List(w, stored); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	lists := map[string][]charges.Dearest{"devices": t.Devices, "metrics (of writes)": t.Metrics,
		"dashboards": t.Queries.Dashboards, "queries": t.Queries.Queries,
		"callers": t.Queries.Callers, "user agents": t.Queries.Agents}
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		if len(lists[name]) == 0 {
			continue
		}
		rows := [][]string{{name, "RU"}}
		for _, x := range lists[name] {
			row := []string{strings.ReplaceAll(x.Name, "\n", " "), strconv.FormatFloat(x.RUs, 'f', 2, 64)}
			if x.GB > 0 {
				row = append(row, gbMonths(x.GB)+" GB-months")
			}
			rows = append(rows, row)
		}
		fmt.Fprintln(w)
		if err := report.List(w, rows); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	return nil
}

// dollars prints a sum, below a dollar to a hundredth of a cent.
func dollars(x float64) string {
	if x != 0 && x < 1 {
		return fmt.Sprintf("$%.4f", x)
	}
	return "$" + report.Dollars(x)
}

// gbMonths prints GB-months to three digits.
func gbMonths(x float64) string { return strconv.FormatFloat(x, 'g', 3, 64) }

func hoursText(hours float64) string { return strconv.FormatFloat(hours, 'f', 0, 64) + " hours" }

func through(t time.Time) string {
	if t.IsZero() {
		return "no time"
	}
	return t.UTC().Format(time.RFC3339)
}
