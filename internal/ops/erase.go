package ops

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"binnacle/ingest"
	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/erasure"
	"binnacle/internal/kafka"
	"binnacle/internal/ops/erase"
	"binnacle/internal/retry"
	"binnacle/internal/stream"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/internal/text/duration"
	"binnacle/internal/text/report"
)

// EraseConfig is what `binnacle tenant erase` works with.
type EraseConfig struct {
	Tenant string `arg:"" help:"Name of the tenant."`

	Account AccountConfig `kong:"embed,group='Cosmos DB'"`
	Kafka   kafka.Config  `kong:"embed,group='Kafka'"`

	Device            string `help:"Id of the device. Default: all devices of the tenant."`
	From              string `help:"First UTC day of event times to erase. Default: the first of all." placeholder:"YYYY-MM-DD"`
	To                string `help:"UTC day after the last one to erase. Default: without end." placeholder:"YYYY-MM-DD"`
	Confirmation      `kong:"embed"`
	Wait              bool   `help:"Wait until chunks are swept and rollups cleared: 13 minutes or longer. --certificate implies it."`
	JSON              bool   `name:"json" help:"Print JSON."`
	Group             string `help:"Consumer group of the ingesters. All must be of a version that knows orders of erasure." default:"binnacle" group:"Kafka"`
	CertificateConfig `kong:"embed"`
	OrdersConfig      `kong:"embed,group='Kafka'"`
	Gone              []string `name:"gone-cluster" help:"Ids of Kafka clusters that nobody publishes to or reads from any more." placeholder:"ID" group:"Kafka"`
}

// wholeDays returns the UTC days that the flags --from and --to cover, which are empty or the starts of days.
func wholeDays(from, to string) (telemetry.Range, error) {
	now := time.Now()
	for _, text := range []string{from, to} {
		if _, begins, err := duration.ParseDayOf(text, now); text != "" && err == nil && !begins {
			return telemetry.Range{}, fmt.Errorf("%q lies within a UTC day: whole days are erased", text)
		}
	}
	return days(from, to, now)
}

// days returns the UTC days in which the flags --from and --to lie: times or empty.
func days(from, to string, now time.Time) (telemetry.Range, error) {
	first, end := telemetry.Day(0), erasure.EveryDay
	for _, f := range []struct {
		flag, text string
		day        *telemetry.Day
	}{{"--from", from, &first}, {"--to", to, &end}} {
		if f.text == "" {
			continue
		}
		day, begins, err := duration.ParseDayOf(f.text, now)
		if err != nil {
			return telemetry.Range{}, fmt.Errorf("%s %q is neither a day such as 2026-11-22, nor a time such as -2d or "+
				"2026-11-22T10:00:00Z", f.flag, f.text)
		}
		if *f.day = day; f.day == &end && !begins {
			end++ // the day in which it lies is covered
		}
	}
	if first >= end {
		return telemetry.Range{}, fmt.Errorf("--from %s is not before --to %s: --to is the day after the last one", from, to)
	}
	return telemetry.Range{From: first.Start(), To: end.Start()}, nil
}

func (cfg *EraseConfig) order() (o erasure.Order, err error) {
	o = erasure.Order{Tenant: cfg.Tenant, Device: cfg.Device, By: ProcessIdentity("")}
	covered, err := wholeDays(cfg.From, cfg.To)
	o.From, o.To = telemetry.DayOf(covered.From), telemetry.DayOf(covered.To)
	switch {
	case err != nil:
		return o, err
	case cfg.DryRun && (cfg.Wait || cfg.Certificate != ""):
		return o, errors.New("--dry-run changes nothing: leave out --wait and --certificate")
	}
	return o, nil
}

func eraseSays(o erasure.Order) []string {
	devices, days := "all devices", "all days"
	if o.Device != "" {
		devices = "the device " + o.Device
	}
	switch {
	case o.From > 0 && o.To < erasure.EveryDay:
		days = "the days from " + dayText(o.From) + " to " + dayText(o.To-1)
	case o.From > 0:
		days = "the days from " + dayText(o.From) + " on"
	case o.To < erasure.EveryDay:
		days = "the days up to " + dayText(o.To-1)
	}
	return []string{fmt.Sprintf("This erases for good what %s of %s has published of %s.", devices, o.Tenant, days)}
}

// Run orders the erasure of readings of a tenant. From the order on no query answers them.
func (cfg EraseConfig) Run(ctx context.Context, env Env) error {
	order, err := cfg.order()
	if err != nil {
		return err
	}
	e, v, err := openEraser(ctx, cfg, env)
	if err != nil {
		return err
	}
	defer e.close()
	e.actions = ActionsOf(e.client, "", env.Logger)
	if _, known := v.Tenant(cfg.Tenant); !known {
		return fmt.Errorf("tenant %s: %w", cfg.Tenant, tenant.ErrNoTenant)
	}
	if cfg.DryRun {
		return e.dryRun(ctx, order)
	}
	signKey, err := cfg.signKey()
	if err != nil {
		return err
	}
	goes := eraseSays(order)
	if env.Ask != nil && cfg.Confirm == "" {
		places, err := e.survey(ctx, order)
		if err != nil {
			return err
		}
		var sum erasure.Swept
		for _, p := range places {
			sum.Chunks, sum.Rows = sum.Chunks+p.Chunks, sum.Rows+p.Rows
		}
		goes = append(goes, fmt.Sprintf("Stored are %s chunks with %s rows of it.", report.Thousands(sum.Chunks),
			report.Thousands(sum.Rows)))
	}
	if err := cfg.consent(env, cfg.Tenant)(goes); err != nil {
		return err
	}
	return e.run(ctx, order, signKey)
}

// eraser gives one order.
type eraser struct {
	cfg       EraseConfig
	client    *cosmos.Client
	cluster   *kafka.Client
	directory *control.Directory
	orders    *erasure.Orders
	actions   *control.Actions // nil: it gives none
	env       Env
}

// openEraser connects to the account and to Kafka, and returns the tenants' documents. It gives no actions.
func openEraser(ctx context.Context, cfg EraseConfig, env Env) (*eraser, *control.Snapshot, error) {
	client, err := cfg.Account.Connect(env.Logger)
	if err != nil {
		return nil, nil, err
	}
	e := &eraser{cfg: cfg, client: client, env: env,
		directory: DirectoryOf(client, control.DirectoryConfig{Logger: env.Logger}), orders: OrdersOf(client)}
	if e.cluster, err = kafka.New(cfg.Kafka); err != nil {
		client.Close()
		return nil, nil, err
	}
	v, err := e.directory.Refresh(ctx)
	if err != nil {
		e.close()
	}
	return e, v, err
}

func (e *eraser) close() {
	e.cluster.Close()
	e.client.Close()
}

// ClusterID implements erase.Log.
func (e *eraser) ClusterID(ctx context.Context) (string, error) { return e.cluster.ClusterID(ctx) }

// LogEnds implements erase.Log.
func (e *eraser) LogEnds(ctx context.Context, topic string) (map[int32]int64, error) {
	ends, err := e.cluster.Topic(topic).LogEnds(ctx)
	if kafka.IsUnknownTopic(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := make(map[int32]int64, len(ends))
	for _, end := range ends {
		out[end.Partition] = end.End
	}
	return out, nil
}

func (e *eraser) giver() *erase.Giver {
	return &erase.Giver{Orders: e.orders, Streams: stream.NewStreams(e.client.Documents()), Log: e, Gone: e.cfg.Gone,
		Catalog: e.client.Catalog(), Keep: e.keep, Drop: e.drop, Logger: e.env.Logger}
}

func (e *eraser) sweeper() *erase.Sweeper {
	return erase.NewSweeper(erase.Config{Chunks: e.client.Chunks().At(cosmos.Priority{Low: true}), Orders: e.orders,
		Snapshot: e.directory.Refresh, By: ProcessIdentity(""), Logger: e.env.Logger})
}

func (e *eraser) dryRun(ctx context.Context, order erasure.Order) error {
	places, err := e.survey(ctx, order)
	if err != nil {
		return err
	}
	if e.cfg.JSON {
		return json.NewEncoder(e.env.Stdout).Encode(map[string]any{"places": append([]erasure.Swept{}, places...)})
	}
	return printPlaces(e.env.Stdout, "would be erased from chunks", places)
}

func (e *eraser) survey(ctx context.Context, order erasure.Order) ([]erasure.Swept, error) {
	v, err := e.directory.Refresh(ctx)
	if err != nil {
		return nil, err
	}
	positions, err := erase.Positions(ctx, stream.NewStreams(e.client.Documents()), e, e.cfg.Gone...)
	if err != nil {
		return nil, err
	}
	return e.sweeper().Survey(ctx, v, order.Acknowledged(positions))
}

func (e *eraser) order(ctx context.Context, order erasure.Order) (given *erasure.Order, err error) {
	if err := e.checkIngesters(ctx); err != nil {
		return nil, err
	}
	detail := map[string]string{"device": order.Device, "from": e.cfg.From, "to": e.cfg.To}
	a := control.Action{Verb: "tenant erase", Tenant: order.Tenant, Detail: detail}
	return given, e.actions.Do(ctx, a, func(a *control.Action) (err error) {
		given, err = e.giver().Give(ctx, order)
		if given != nil {
			a.Object = given.ID
		}
		return err
	})
}

// run gives the order, and waits for the end of its sweep if that is asked for.
func (e *eraser) run(ctx context.Context, order erasure.Order, signKey []byte) error {
	given, err := e.order(ctx, order)
	if err != nil {
		return err
	}
	if !e.cfg.JSON {
		fmt.Fprintf(e.env.Stdout, "%s: queries leave the readings out within 5 seconds; provision sweeps what is stored\n",
			given.ID)
	}
	if e.cfg.Wait || e.cfg.Certificate != "" {
		if given, err = e.wait(ctx, given); err != nil {
			return err
		}
	}
	if e.cfg.Certificate != "" {
		if err := e.certify(ctx, given, &e.cfg.CertificateConfig, signKey); err != nil {
			return err
		}
	}
	return printErasures(e.env.Stdout, erasure.List{given}, e.cfg.JSON)
}

// errOldIngester says that an ingester would store again what an order erases.
var errOldIngester = errors.New("upgrade all ingesters first")

// checkIngesters returns an error if an ingester's release does not know orders: it would store again what they
// erase.
func (e *eraser) checkIngesters(ctx context.Context) error {
	members, err := e.cluster.Members(ctx, e.cfg.Group)
	if err != nil {
		return err
	}
	for _, m := range members {
		if !ingest.KnowsErasures(m.Data) {
			return fmt.Errorf("member %s at %s of the consumer group %s does not know orders of erasure: %w",
				m.ClientID, m.Host, e.cfg.Group, errOldIngester)
		}
	}
	return nil
}

// wait returns the order when chunks are swept and rollups cleared.
func (e *eraser) wait(ctx context.Context, given *erasure.Order) (*erasure.Order, error) {
	const every = 10 * time.Second
	for {
		v, err := e.directory.Refresh(ctx)
		if err != nil {
			return given, err
		}
		if o := v.Erasures(given.Tenant).Find(given.ID); o != nil && !o.ClearedAt.IsZero() {
			return o, nil
		}
		e.env.Logger.Info("the erasure has not ended", "erasure", given.ID, "for",
			time.Since(given.At).Truncate(time.Second), "least", erase.SettledAfter+erase.ClearAfter)
		if err := retry.Pause(ctx, every); err != nil {
			return given, errors.New("interrupted: the order stays, and provision goes on with its sweep")
		}
	}
}

// ListErasures is what `binnacle tenant erasures` works with.
type ListErasures OfTenants

// Run prints the orders of a tenant, or of all with an empty name.
func (cfg ListErasures) Run(ctx context.Context, client *cosmos.Client, env Env) error {
	list, err := listErasures(ctx, cfg.on(client, env).directory(), cfg.Tenant)
	if err != nil {
		return err
	}
	return printErasures(env.Stdout, list, cfg.JSON)
}

// listErasures returns the orders of a tenant, or of all with an empty name, the oldest first.
func listErasures(ctx context.Context, directory *control.Directory, tenant string) (list erasure.List, err error) {
	v, err := directory.Refresh(ctx)
	if err != nil {
		return nil, err
	}
	if tenant == "" {
		return v.AllErasures(), nil
	}
	return v.Erasures(tenant), nil
}

// byID orders orders by their ids: the oldest comes first.
func byID(a, b *erasure.Order) int { return strings.Compare(a.ID, b.ID) }

// erasureLine is an order as it is printed.
type erasureLine struct {
	ID      string             `json:"id"`
	Tenant  string             `json:"tenant"`
	Device  string             `json:"device,omitempty"`
	From    string             `json:"from,omitempty"`
	To      string             `json:"to,omitempty"`
	By      string             `json:"by"`
	At      time.Time          `json:"at"`
	State   string             `json:"state"`
	Sweep   *erasure.Progress  `json:"sweep,omitempty"`
	Swept   *time.Time         `json:"swept,omitempty"`
	Cleared *time.Time         `json:"cleared,omitempty"`
	Through []erasure.Position `json:"positions,omitempty"`
	Places  []erasure.Swept    `json:"places,omitempty"`
}

func lineOf(o *erasure.Order) erasureLine {
	l := erasureLine{ID: o.ID, Tenant: o.Tenant, Device: o.Device, By: o.By, At: o.At, State: "announced",
		Through: o.Positions(), Places: o.Places}
	if o.From > 0 {
		l.From = dayText(o.From)
	}
	if o.To < erasure.EveryDay {
		l.To = dayText(o.To)
	}
	if o.IsAcknowledged() {
		l.State, l.Sweep = "hidden", o.Progress
	}
	if at := o.SweptAt; !at.IsZero() {
		l.State, l.Sweep, l.Swept = "swept", nil, &at
	}
	if at := o.ClearedAt; !at.IsZero() {
		l.State, l.Cleared = "cleared", &at
	}
	return l
}

func dayText(d telemetry.Day) string { return time.UnixMilli(d.Start()).UTC().Format(time.DateOnly) }

func linesOf(list erasure.List) []erasureLine {
	lines := make([]erasureLine, len(list))
	for i, o := range list {
		lines[i] = lineOf(o)
	}
	return lines
}

func printErasures(out io.Writer, list erasure.List, asJSON bool) error {
	lines := linesOf(list)
	if asJSON {
		return json.NewEncoder(out).Encode(lines)
	}
	rows := [][]string{{"erasure", "tenant", "device", "from", "to", "by", "state", "chunks", "rows", "fences"}}
	for _, l := range lines {
		var sum erasure.Swept
		for _, p := range l.Places {
			sum.Chunks, sum.Rows, sum.Fences = sum.Chunks+p.Chunks, sum.Rows+p.Rows, sum.Fences+p.Fences
		}
		row := []string{l.ID, l.Tenant, cmp.Or(l.Device, "all"), cmp.Or(l.From, "first"), cmp.Or(l.To, "without end"), l.By,
			l.State, "", "", ""}
		if p := l.Sweep; p != nil {
			row[6] += fmt.Sprintf(", %d of %d containers swept", p.Containers, p.Of)
			row[7], row[8] = fmt.Sprint(p.Chunks), fmt.Sprint(p.Rows)
		}
		if l.Swept != nil {
			row[7], row[8], row[9] = fmt.Sprint(sum.Chunks), fmt.Sprint(sum.Rows), fmt.Sprint(sum.Fences)
		}
		rows = append(rows, row)
	}
	return report.List(out, rows)
}

func printPlaces(out io.Writer, title string, places []erasure.Swept) error {
	rows := [][]string{{"container", "tenant and shard", "chunks", "rows"}}
	for _, p := range places {
		rows = append(rows, []string{p.Container, p.TenantShard, fmt.Sprint(p.Chunks), fmt.Sprint(p.Rows)})
	}
	fmt.Fprintf(out, "%s:\n", title)
	return report.List(out, rows)
}
