package ops

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"binnacle/ingest"
	"binnacle/internal/charges/ru"
	"binnacle/internal/control"
	"binnacle/internal/kafka"
	"binnacle/internal/provision"
	"binnacle/internal/retry"
	"binnacle/internal/store"
	"binnacle/internal/stream/topics"
	"binnacle/internal/telemetry"
)

// Backfills gives leave for readings from long ago, in the control documents of an account.
type Backfills struct {
	// Lasts is how long a grant is good for.
	Lasts time.Duration
	// Says gets what a backfill costs before it is granted.
	Says io.Writer
	// DryRun grants nothing and asks for no container.
	DryRun bool

	directory *control.Directory
	actions   *control.Actions
	close     func()
}

// NewBackfills connects to an account.
func NewBackfills(account AccountConfig, log *slog.Logger) (*Backfills, error) {
	client, err := account.Connect(log)
	if err != nil {
		return nil, err
	}
	dir := control.NewDirectory(control.DirectoryConfig{Documents: client.Documents(), Logger: log})
	return &Backfills{directory: dir, actions: ActionsOf(client, "", log), close: client.Close}, nil
}

// Allow prints the cost of a tenant's readings, asks for the containers that they lack, and returns the id of a new
// grant for them.
func (b *Backfills) Allow(ctx context.Context, w control.BackfillWork) (string, error) {
	v, err := b.directory.Refresh(ctx)
	if err != nil {
		return "", err
	}
	missing := missingContainers(v, w, time.Now())
	if w.Readings > 0 {
		tenant, _ := v.Tenant(w.Tenant)
		fmt.Fprintln(b.Says, costOf(w, missing, tenant.Retention))
	}
	if b.DryRun {
		return "", nil
	}
	var granted control.Backfill
	err = b.actions.Do(ctx, control.Action{Verb: "backfill grant", Tenant: w.Tenant, Detail: map[string]string{
		"from": telemetry.Instant(w.Range.From), "to": telemetry.Instant(w.Range.To), "for": b.Lasts.String(),
	}}, func(a *control.Action) (err error) {
		for _, name := range missing {
			if err := b.directory.AskMonth(ctx, name, ""); err != nil {
				return err
			}
		}
		granted, err = b.directory.GrantBackfill(ctx, w.Tenant, w.Range, b.Lasts)
		a.Object = granted.ID
		return err
	})
	return granted.ID, err
}

// groupSettles is how long a consumer group may share out its partitions before nothing can be learnt from it.
const groupSettles = 15 * time.Second

// Topic returns the topic that the readings are published to. If a member of the ingesters' group reads the topic of
// backfills that belongs to the given one, it creates and returns that topic, so that backfills wait for each other
// and not devices for them. Else it returns the given one, and says so.
func (b *Backfills) Topic(ctx context.Context, cluster kafka.Config, group, topic string) (string, error) {
	if b.DryRun || topics.IsBackfill(topic) {
		return topic, nil
	}
	client, err := kafka.New(cluster)
	if err != nil {
		return "", err
	}
	defer client.Close()
	name := topic + topics.BackfillSuffix
	apart := client.Topic(name)
	switch read, err := b.reads(ctx, client, group, name); {
	case err != nil:
		return "", err
	case !read:
		fmt.Fprintf(b.Says, "no ingester of the consumer group %s reads %s: "+
			"these readings go to %s, among those of devices\n", group, name, topic)
		return topic, nil
	}
	if err := apart.EnsureLike(ctx, client.Topic(topic)); err != nil {
		return "", err
	}
	return name, nil
}

// reads reports whether a member of a group reads a topic. Ingesters with fixed partitions are in no group: for them it
// counts that the topic is there.
func (b *Backfills) reads(ctx context.Context, client *kafka.Client, group, topic string) (bool, error) {
	until := time.Now().Add(groupSettles)
	members, err := client.Members(ctx, group)
	for err != nil && time.Now().Before(until) && retry.Pause(ctx, time.Second) == nil {
		members, err = client.Members(ctx, group)
	}
	if err != nil {
		return false, err
	}
	if len(members) == 0 {
		_, err := client.Topic(topic).Partitions(ctx)
		return err == nil, nil
	}
	return slices.ContainsFunc(members, func(m kafka.Member) bool { return ingest.Reads(m.Data, topic) }), nil
}

// missingContainers returns the containers that readings lack, as far as the tenant keeps them.
func missingContainers(v *control.Snapshot, w control.BackfillWork, now time.Time) (missing []string) {
	tenant, known := v.Tenant(w.Tenant)
	if !known && len(v.Periods()) == 0 { // its first reading will register it
		fresh, err := NewTenant(0)
		if err != nil {
			return nil
		}
		tenant = *fresh
	} else if !known {
		return nil // ingesters ask for the containers
	}
	for day := range w.Days {
		name := tenant.Placement.ContainerOn(day)
		if !tenant.Expired(day, now.UnixMilli()) && !v.HasContainer(name) && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return missing
}

// costOf describes what a backfill takes and costs: modelled, and by list prices, with containers as provision makes
// them by default.
func costOf(w control.BackfillWork, missing []string, kept time.Duration) string {
	policy, follow := provision.DefaultPolicy(), provision.DefaultFollow()
	policy.Follow = &follow
	each := policy.Late(kept)
	var made ru.Bill
	for range missing {
		made = made.Plus(ru.Price(provision.Priced(store.ContainerState{Throughput: each})))
	}
	gb := float64(w.Bytes) / (1 << 30)
	text := fmt.Sprintf("backfill of %s: %d readings of %d days from %s on are about %d chunks, %.1f MB and %.0f RU of "+
		"writes (modelled), %s at the %d RU/s of a container of long ago; the storage is $%.2f a month",
		w.Tenant, w.Readings, len(w.Days), telemetry.Instant(w.Range.From)[:len(time.DateOnly)], w.Chunks, 1024*gb, w.RUs,
		time.Duration(w.RUs/float64(each.RUs)*float64(time.Second)).Round(time.Second), each.RUs, gb*ru.StoragePerGB)
	if len(missing) > 0 {
		text += fmt.Sprintf("; %d containers are made, $%.2f a month together at rest: %s to %s", len(missing),
			made.Least, missing[0], missing[len(missing)-1])
	}
	return text
}

// Close ends the connection.
func (b *Backfills) Close() { b.close() }
