package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/kafka"
	"binnacle/internal/ops"
	"binnacle/internal/store"
	"binnacle/internal/stream/topics"
)

const checkTimeout = 15 * time.Second

// needs are the topics that a role needs.
type needs struct {
	topics                topics.Set
	deadLetters, journals bool
}

// roleCheck checks that everything a role needs exists.
type roleCheck struct {
	account   ops.AccountConfig
	kafka     kafka.Config
	needs     *needs       // nil: the role has nothing to do with Kafka
	ingesters *HeadsConfig // nil: the role reads no heads of others
}

// checkStep checks one thing, and returns its finding.
type checkStep func(ctx context.Context) (string, error)

func (c roleCheck) run(ctx context.Context, env ops.Env) error {
	p := newProcess(env)
	defer p.close()
	missing := false
	step := func(what string, do checkStep) {
		bounded, cancel := context.WithTimeout(ctx, checkTimeout)
		defer cancel()
		found, err := do(bounded)
		if err != nil {
			missing = true
			fmt.Fprintf(p.Stdout, "missing  %-10s %v\n", what, err)
			return
		}
		fmt.Fprintf(p.Stdout, "ok       %-10s %s\n", what, found)
	}
	if c.needs != nil {
		if client, err := p.openKafka(c.kafka); err != nil {
			step("kafka", func(context.Context) (string, error) { return "", err })
		} else {
			c.needs.check(ctx, client, func(do checkStep) { step("kafka", do) })
		}
	}
	step("cosmos", func(ctx context.Context) (string, error) { return p.checkAccount(ctx, c.account) })
	if c.ingesters != nil {
		step("heads", func(ctx context.Context) (string, error) {
			heads, err := p.findHeads(*c.ingesters)
			if err != nil {
				return "", err
			}
			found, err := heads.Heads(ctx, store.HeadRequest{Tenant: "check", Devices: []string{}})
			return fmt.Sprintf("%d partitions answer", len(found)), err
		})
	}
	if missing {
		return errors.New("some checks failed: see the lines above that are not ok")
	}
	return nil
}

func (n needs) check(ctx context.Context, client *kafka.Client, step func(checkStep)) {
	bounded, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	l, err := client.Sources(n.topics).Layout(bounded)
	if err != nil {
		l.Faults = []error{err}
	}
	for _, fault := range l.Faults {
		step(func(context.Context) (string, error) { return "", fault })
	}
	names := l.Names()
	if n.deadLetters && err == nil {
		names = append(names, n.topics.DeadLetters())
	}
	for _, name := range names {
		step(func(ctx context.Context) (string, error) {
			id, partitions, err := client.Topic(name).Describe(ctx)
			if err != nil {
				return "", err
			}
			text := fmt.Sprintf("topic %s with %d partitions in cluster %s", name, len(partitions), id)
			if tenant := l.Tenants[name]; tenant != "" {
				text += ", of tenant " + tenant
			}
			return text, nil
		})
	}
	for _, name := range l.Names() {
		if n.journals {
			step(func(ctx context.Context) (string, error) {
				j := kafka.Journal{Source: client.Topic(name), Topic: client.Topic(kafka.JournalOf(name)),
					Keep: defaultJournalKeep / 2}
				return "journal of topic " + name, j.Check(ctx)
			})
		}
	}
}

func (p *process) checkAccount(ctx context.Context, at ops.AccountConfig) (string, error) {
	client, err := p.connect(at)
	if err != nil {
		return "", err
	}
	names, err := client.Containers().List(ctx)
	if err != nil {
		return "", err
	}
	for _, base := range []string{store.ControlContainer, store.CatalogContainer} {
		if !slices.Contains(names, base) {
			return "", fmt.Errorf("the database %s has no container %s: binnacle provision creates it", store.Database, base)
		}
	}
	snapshot, err := control.NewDirectory(control.DirectoryConfig{Documents: client.Documents()}).Refresh(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("database %s with %d containers and %d tenants", store.Database, len(names),
		len(snapshot.Tenants())), nil
}
