package main_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

var upgradeFrom = flag.String("upgrade.from", "", "binary of an earlier release; empty: the tests of an upgrade skip")

// upgrade is a system with roles of both releases. The earlier one runs its broker and its account, so that neither
// depends on how this release keeps them.
type upgrade struct {
	*chaos
	dir, secret string
	members     map[string]*member // by name: provision, rollups, and ingesters by their ordinal
	queriers    map[string]*dev    // of each release: before and after
	tables      map[string]table   // what is published and not erased, by tenant
	token       string             // of the tenant fleet
	today       int64              // when the day began at the start
}

// The names of the releases.
const (
	before = "before"
	after  = "after"
)

// release returns the binary of a release.
func release(name string) string {
	if name == before {
		return *upgradeFrom
	}
	return program
}

// The account and the log of an earlier release go on with this one: chunks, open bins in the journal and in the spill
// file of ingesters that are killed, rollups, erasures, limits, retention and placements answer the same in all bits.
// Then ingesters of both releases run side by side, in turn, while devices publish, queriers of both ask them all the
// time, and each release reads what the other one has written: so going back works, too.
func TestUpgrade(t *testing.T) {
	if *upgradeFrom == "" {
		t.Skip("it needs an earlier release: see make upgrade-it")
	}
	t.Parallel()
	u := newUpgrade(t)
	u.settings()
	for i := range ingesters {
		u.launchIngester(before, i)
	}
	u.launchQuerier(before)
	u.publishAll()
	u.makeRollups(before)
	u.eraseDevices()
	known, spilled := u.asked(before), u.held("binnacle_ingest_spilled_bytes")
	t.Logf("%d questions are recorded, with %.0f MB in spill files", len(known), spilled/1e6)
	require.Positive(t, spilled)
	soon(t, time.Minute, func() bool { return u.held("binnacle_ingest_unjournaled_records") <= loudReadings },
		"all is in the journal but what waits for a limit")

	for i := range ingesters {
		u.ingester(i).kill()
	}
	for i := range ingesters {
		u.launchIngester(after, i)
	}
	u.launchRole(after, "provision")
	u.launchQueriers()
	u.sameAnswers(known)
	// Of more than 30,000 records those are read again that wait for a limit.
	require.Less(t, u.held("binnacle_ingest_records_total"), 10_000.0, "open bins come from the journal")
	u.sweeps()
	u.lifts()

	u.rolls(known)
	u.corrects(before)
	u.corrects(after)
	u.audited()
	u.apiAt = u.queriers[after].api
	v := u.judge()
	for _, example := range v.examples {
		t.Log(example)
	}
	t.Log(v.line(0))
	require.True(t, v.good(), v.line(0))
	u.sameAnswers(u.withoutPanel(known))
}

// ingesters is how many of them share the partitions.
const ingesters = 2

// newUpgrade starts broker, account and provision of the earlier release.
func newUpgrade(t *testing.T) *upgrade {
	kafkaAt := freePort(t)
	c := &chaos{t: t, rnd: rand.New(rand.NewPCG(1, 2)), storeAt: freePort(t), truth: newTruth()}
	u := &upgrade{chaos: c, dir: t.TempDir(), secret: file(t, "secret", headsSecret+"\n"),
		members: map[string]*member{}, queriers: map[string]*dev{}, tables: map[string]table{},
		today: noon() + telemetry.DayMillis/2}
	u.brokerAt.Store(&kafkaAt)
	for range ingesters {
		u.headsAt = append(u.headsAt, freePort(t))
	}
	u.add(before, nil, "broker", "broker", "--kafka="+kafkaAt, "--data-dir="+u.dir+"/kafka", "--partitions=4").
		printed(`(?m)^ +kafka +(\S+)`)
	u.add(before, nil, "emulator", "emulator", "--cosmos="+u.storeAt, "--data-dir="+u.dir+"/cosmos", "--unlimited").
		printed(`(?m)^ +endpoint +http://([^/\s]+)`)
	u.add(before, nil, "provision", "BINNACLE_EVERY=1s", "provision", "--cosmos="+u.storeAt)
	check := append([]string{"ingest", "--check"}, u.servers()...)
	soon(t, time.Minute, func() bool { return runRelease(t, time.Minute, *upgradeFrom, check...).code == 0 },
		"provision makes what is missing")
	return u
}

// servers are the flags with the addresses of broker and account.
func (u *upgrade) servers() []string {
	return []string{"--kafka=" + *u.brokerAt.Load(), "--cosmos=" + u.storeAt}
}

// add starts a process of a release, under a name.
func (u *upgrade) add(of string, holds []string, name string, args ...string) *member {
	m := &member{name: name, args: args, holds: holds, release: release(of)}
	u.chaos.launch(m)
	u.chaos.members = append(u.chaos.members, m)
	u.members[name] = m
	return m
}

// launchRole starts a role that has ended, of a release.
func (u *upgrade) launchRole(of, name string) {
	u.members[name].release = release(of)
	u.chaos.launch(u.members[name])
}

// ingester returns an ingester by its ordinal.
func (u *upgrade) ingester(i int) *member { return u.members[fmt.Sprintf("ingest %d", i)] }

// restartIngesters stops all ingesters, and starts those of a release with a hold.
func (u *upgrade) restartIngesters(of, hold string) {
	for i := range ingesters {
		u.ingester(i).stop(syscall.SIGTERM)
		u.ingester(i).holds = []string{hold}
		u.launchIngester(of, i)
	}
}

// launchIngester starts an ingester of a release, with little memory and, the first time, a short hold.
func (u *upgrade) launchIngester(of string, i int) {
	name := fmt.Sprintf("ingest %d", i)
	if u.members[name] == nil {
		u.add(of, []string{"300ms"}, name, append([]string{"BINNACLE_SESSION_TIMEOUT=6s", "BINNACLE_MEMORY_MB=16",
			"BINNACLE_REGISTER=true", "BINNACLE_HEADS_SECRET_FILE=" + u.secret, "ingest", "--admin=127.0.0.1:0",
			"--heads-listen=" + u.headsAt[i], fmt.Sprintf("--data-dir=%s/ingest-%d", u.dir, i)}, u.servers()...)...)
	} else {
		u.launchRole(of, name)
	}
	u.members[name].printed(`(?m)^ +heads +(\S+)`)
}

// launchQuerier starts a querier of a release, instead of the one that runs.
func (u *upgrade) launchQuerier(of string) {
	name := "query " + of
	if m := u.members[name]; m != nil {
		m.stop(syscall.SIGTERM)
		u.launchRole(of, name)
	} else {
		u.add(of, nil, name, append([]string{"BINNACLE_HEADS_SECRET_FILE=" + u.secret,
			"BINNACLE_TRUSTED_PROXIES=127.0.0.1", "BINNACLE_QUERY_MAX_RUS=100000000", "query", "--api=127.0.0.1:0",
			"--admin=127.0.0.1:0", "--heads=" + strings.Join(u.headsAt, ",")}, u.servers()...)...)
	}
	m := u.members[name]
	u.queriers[of] = &dev{process: m.process, kafka: *u.brokerAt.Load(), cosmos: u.storeAt,
		api: m.printed(`(?m)^ +api +http://(\S+)`), admin: m.printed(`(?m)^ +admin +http://(\S+)`)}
}

// launchQueriers starts queriers of both releases, which have kept no answers.
func (u *upgrade) launchQueriers() {
	u.launchQuerier(before)
	u.launchQuerier(after)
}

// command runs a command of a release on the account, which must succeed, and returns what it prints.
func (u *upgrade) command(of string, args ...string) string {
	p := runRelease(u.t, time.Minute, release(of), append(args, "--cosmos="+u.storeAt)...)
	require.Zero(u.t, p.code, "%s: %s", args, p.stderr.String())
	return p.stdout.String()
}

// held returns the sum of a metric over all ingesters.
func (u *upgrade) held(metric string) float64 {
	all := costs{}
	for i := range ingesters {
		all.add(1, u.metrics(u.ingester(i)))
	}
	return all.sum(metric)
}

// rolls replaces one ingester after the other by one of the other release, and back, while devices publish: first by a
// signal, then by kill -9. Queriers of both releases answer the same, and never say that an answer is
// complete which lacks what was acknowledged.
func (u *upgrade) rolls(known map[question]string) {
	ctx, cancel := context.WithCancel(u.t.Context())
	defer cancel()
	var producers sync.WaitGroup
	for i := range 2 {
		producers.Go(func() { u.truth.produce(ctx, i, &u.brokerAt, rand.New(rand.NewPCG(1, uint64(i)))) })
	}
	u.truth.pause = 20 * time.Millisecond
	for round, of := range []string{before, after} {
		u.launchQueriers()
		for i := range ingesters {
			if of == after {
				u.ingester(i).kill()
			} else {
				u.ingester(i).stop(syscall.SIGTERM)
			}
			u.launchIngester(of, i)
			u.publishMore(fmt.Sprintf("%s-%d-%d", of, round, i))
			u.sameAnswers(known)
			for name, q := range u.queriers {
				u.apiAt = q.api
				soon(u.t, time.Minute, func() bool { return u.look(ctx, "") }, "release %s answers", name)
			}
		}
	}
	cancel()
	producers.Wait()
}

// audited checks the chunks of three days by the commands of both releases.
func (u *upgrade) audited() {
	day := telemetry.DayOf(u.today)
	for _, of := range []string{before, after} {
		p := runRelease(u.t, time.Minute, release(of), append([]string{"audit", "--from=" + (day - 2).String(),
			"--to=" + (day + 1).String(), "--max-rus=0"}, u.servers()...)...)
		require.Zero(u.t, p.code, "%s: %s%s", of, p.stdout.String(), p.stderr.String())
		require.NotRegexp(u.t, `(?m)^chains +0$`, p.stdout.String())
	}
}

// dev of each release goes on with what the other one leaves in a data directory, or refuses the directory with its
// name and the reason, and changes nothing, so that the release that has written it goes on.
func TestUpgradeOfDev(t *testing.T) {
	if *upgradeFrom == "" {
		t.Skip("it needs an earlier release: see make upgrade-it")
	}
	for writer, reader := range map[string]string{before: after, after: before} {
		t.Run("written "+writer, func(t *testing.T) {
			t.Parallel()
			dir, want := t.TempDir(), table{}
			for round, of := range []string{writer, reader, writer} {
				d, refusal := devOf(t, of, dir)
				if refusal != "" {
					require.Equal(t, reader, of, refusal)
					require.Regexp(t, `^binnacle: .*open data directory `+dir+`.*format`, refusal)
					if of == after {
						require.Contains(t, refusal, "--data-dir", "what to do")
					}
					t.Log(refusal)
					continue
				}
				d.answersInAllFormats("acme", want)
				more := mixed(fmt.Sprintf("round-%d", round), noon())
				d.publishTable("acme", more)
				want = both(want, more)
				d.answers("acme", want, everything)
				if round == 0 {
					d.kill()
				} else {
					d.stop(syscall.SIGTERM)
				}
			}
		})
	}
}

// devOf starts dev of a release on a data directory. It returns what dev has logged if that has ended by itself.
func devOf(t *testing.T, of, dir string) (d *dev, refusal string) {
	d = &dev{process: startRelease(t, release(of), append(free(""), "--data-dir="+dir, "--fleet=0")...)}
	soon(t, time.Minute, func() bool {
		select {
		case <-d.ended:
			return true
		default:
			return strings.Contains(d.stdout.String(), "Ctrl-C")
		}
	}, "dev starts or ends")
	if !strings.Contains(d.stdout.String(), "Ctrl-C") {
		require.NotZero(t, d.code)
		return d, d.stderr.String()
	}
	d.listensAt()
	d.becomesReady()
	return d, ""
}
