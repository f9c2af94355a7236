package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/kafka"
	"binnacle/internal/store"
	"binnacle/internal/topics"
)

// errMissing says that a check has found something missing.
var errMissing = errors.New("not all that the role needs is there")

// checkTimeout bounds each part of a check.
const checkTimeout = 15 * time.Second

// needs are the topics that a role needs.
type needs struct {
	topics                topics.Set
	deadLetters, journals bool
}

// check looks whether all is there that a role needs, prints what it finds, a line each, and fails if something is
// missing.
func check(ctx context.Context, env Env, at AccountConfig, cluster kafka.Config, need needs,
	ingesters *HeadsConfig) error {
	p := newProcess(env)
	defer p.close()
	missing := false
	look := func(what string, look func(ctx context.Context) (string, error)) {
		bounded, cancel := context.WithTimeout(ctx, checkTimeout)
		defer cancel()
		found, err := look(bounded)
		if err != nil {
			missing = true
			fmt.Fprintf(p.Stdout, "missing  %-10s %v\n", what, err)
			return
		}
		fmt.Fprintf(p.Stdout, "ok       %-10s %s\n", what, found)
	}
	if client, err := p.openKafka(cluster); err != nil {
		look("kafka", func(context.Context) (string, error) { return "", err })
	} else {
		need.check(ctx, client, func(do func(ctx context.Context) (string, error)) { look("kafka", do) })
	}
	look("cosmos", func(ctx context.Context) (string, error) { return p.checkAccount(ctx, at) })
	if ingesters != nil {
		look("heads", func(ctx context.Context) (string, error) {
			heads, err := p.findHeads(*ingesters)
			if err != nil {
				return "", err
			}
			found, err := heads.Heads(ctx, store.HeadRequest{Tenant: "check", Devices: []string{}})
			return fmt.Sprintf("%d partitions answer", len(found)), err
		})
	}
	if missing {
		return errMissing
	}
	return nil
}

// check looks whether the topics are there, one by one.
func (n needs) check(ctx context.Context, client *kafka.Client,
	look func(func(ctx context.Context) (string, error))) {
	bounded, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	l, err := client.Sources(n.topics).Layout(bounded)
	if err != nil {
		l.Faults = []error{err}
	}
	for _, fault := range l.Faults {
		look(func(context.Context) (string, error) { return "", fault })
	}
	there := func(name string) {
		look(func(ctx context.Context) (string, error) {
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
		there(name)
	}
	if n.deadLetters && err == nil {
		there(n.topics.DeadLetters())
	}
	for _, name := range l.Names() {
		if n.journals {
			look(func(ctx context.Context) (string, error) {
				j := kafka.Journal{Source: client.Topic(name), Topic: client.Topic(kafka.JournalOf(name)), Keep: defaultJournalKeep / 2}
				return "journal of topic " + name, j.Check(ctx)
			})
		}
	}
}

// checkAccount looks into the account.
func (p *process) checkAccount(ctx context.Context, at AccountConfig) (string, error) {
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
			return "", fmt.Errorf("the database %s has no container %s: binnacle provision makes it", store.Database, base)
		}
	}
	view, err := control.NewDirectory(control.DirectoryConfig{Documents: client.Documents()}).Refresh(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("database %s with %d containers and %d tenants", store.Database, len(names), len(view.Tenants())),
		nil
}
