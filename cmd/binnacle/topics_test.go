package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"binnacle/internal/telemetry"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// made makes a topic of two partitions.
func (d *dev) made(topic string) {
	d.t.Helper()
	client := &kafka.Client{Addr: kafka.TCP(d.kafka), Transport: &kafka.Transport{}}
	res, err := client.CreateTopics(context.Background(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{
		{Topic: topic, NumPartitions: 2, ReplicationFactor: 1}}})
	require.NoError(d.t, err)
	require.NoError(d.t, res.Errors[topic])
}

// publishTo sends a table to a topic, of a tenant or of none that is named.
func (d *dev) publishTo(topic, tenant string, all table) {
	d.t.Helper()
	var messages []kafka.Message
	for r, values := range all {
		m := message(tenant, r, values)
		m.Value = []byte(strings.Replace(string(m.Value), `"tenant":"",`, "", 1))
		messages = append(messages, m)
	}
	for len(messages) > 0 {
		messages = unsentTo(messages, d.kafka, topic)
	}
}

// rows are some readings of devices of a name.
func rows(name string) table {
	all := table{}
	for i := range 20 {
		all[row{device: fmt.Sprintf("%s-%d", name, i%3), ts: noon() + int64(i)}] = map[string]any{"v": float64(i)}
	}
	return all
}

// Every role is a process and reads several topics: named ones, those that fit a pattern, and one that is made while
// they run. Each pattern's topic belongs to the tenant of its name. What is acknowledged is answered, whichever of two
// ingesters is killed, and a topic that is deleted takes nothing of others with it.
func TestTopicsBoundToTenants(t *testing.T) {
	t.Parallel()
	dir, topics := t.TempDir(), "--topic=telemetry,/line-(.+)/=$1"
	broker := start(t, "broker", "--kafka=127.0.0.1:0", "--data-dir="+dir+"/kafka", "--partitions=2",
		"--topics=telemetry,telemetry.dlq,telemetry.journal")
	emulator := start(t, "emulator", "--cosmos=127.0.0.1:0", "--data-dir="+dir+"/cosmos", "--unlimited")
	d := &dev{kafka: broker.printed(`(?m)^ +kafka +(\S+)`),
		cosmos: emulator.printed(`(?m)^ +endpoint +http://([^/\s]+)`), api: freePort(t)}
	servers := []string{"--kafka=" + d.kafka, "--cosmos=" + d.cosmos}
	role := func(args ...string) *process { return start(t, append(args, servers...)...) }
	d.process = broker
	d.made("line-acme")
	role("provision", "--every=1s", "--journal-of=telemetry,/line-.+/")
	check := func(what string) *process { return role("ingest", "--check", what) }
	soon(t, time.Minute, func() bool { return check(topics).wait(time.Minute) == 0 }, "provision makes all")
	checked := check("--topic=telemetry,nowhere,/none.*/")
	require.Equal(t, 1, checked.wait(time.Minute))
	require.Contains(t, checked.stdout.String(), "missing  kafka      topic nowhere does not exist\n")
	require.Contains(t, checked.stdout.String(), "missing  kafka      no topic matches /none.*/\n")

	ports := []string{freePort(t), freePort(t)}
	var ingesters []*process
	ingest := func(port string) *process {
		return role("ingest", "--register", topics, "--session-timeout=6s", "--heads-listen="+port, "--admin=127.0.0.1:0")
	}
	for _, port := range ports {
		ingesters = append(ingesters, ingest(port))
	}
	d.process = role("query", "--api="+d.api, "--admin=127.0.0.1:0", "--heads="+strings.Join(ports, ","),
		"--trusted-proxies=127.0.0.1", topics)
	d.printed(`(?m)^ +api +http://(\S+)`)

	acme := rows("truck")
	d.publishTo("telemetry", "acme", acme)
	line := rows("line")
	d.publishTo("line-acme", "", line)
	for r, values := range line {
		acme[r] = values
	}
	mislabelled := rows("intruder")
	d.publishTo("line-acme", "globex", mislabelled)
	d.made("line-globex")
	globex := rows("press")
	d.publishTo("line-globex", "globex", globex)
	all := func(what string) {
		t.Helper()
		for tenant, want := range map[string]table{"acme": acme, "globex": globex} {
			soon(t, 2*time.Minute, func() bool {
				got, complete := d.everythingOf(tenant)
				if complete {
					require.Len(t, got, len(want), "%s: a complete answer for %s", what, tenant)
				}
				for r, values := range got {
					require.True(t, sameValues(want[r], values), "%s: %v of %s is %v, want %v", what, r, tenant, values, want[r])
				}
				return complete
			}, "%s: an answer for %s is complete", what, tenant)
		}
	}
	all("at first")

	var fixed *process
	soon(t, time.Minute, func() bool { // complete answers do not wait for dead letters
		fixed = run(t, time.Minute, "replay", "--from-dlq", topics, "--kafka="+d.kafka, "--reason=other-tenant")
		return fixed.code != 0
	}, "the dead letters are published")
	require.Equal(t, 1, fixed.code)
	require.Contains(t, fixed.stdout.String(), "they would be refused again: other-tenant")
	fixed = run(t, time.Minute, "replay", "--from-dlq", topics, "--kafka="+d.kafka, "--reason=other-tenant",
		"--set=tenant=acme")
	require.Zero(t, fixed.code, fixed.stderr.String())
	for r, values := range mislabelled {
		acme[r] = values
	}
	all("mended")

	ingesters[0].kill()
	ingesters[0] = ingest(ports[0])
	more := rows("again")
	d.publishTo("line-globex", "", more)
	for r, values := range more {
		globex[r] = values
	}
	all("after a kill")
	for _, p := range ingesters {
		p.printed(`(?m)^ +heads +(\S+)`) // before that, a signal may end it at once
		p.stop(syscall.SIGTERM)
	}
	for i, port := range ports {
		ingesters[i] = role("ingest", "--register", topics, "--session-timeout=6s", "--heads-listen="+port,
			"--admin=127.0.0.1:0", "--hold=100ms")
	}
	all("after a restart")
	day := telemetry.DayOf(noon()).String()
	soon(t, time.Minute, func() bool {
		audit := role("audit", "--from="+day, topics, "--log", "--max-rus=0")
		code := audit.wait(60 * time.Second)
		if strings.Contains(audit.stderr.String(), "nothing of the log was looked at") {
			return false // nothing is committed yet
		}
		require.Zero(t, code, audit.stdout.String()+audit.stderr.String())
		return true
	}, "the log was audited")
}

// everythingOf asks strictly for all readings of a tenant, and reports whether the answer says that it is complete.
func (d *dev) everythingOf(tenant string) (got table, complete bool) {
	req, err := http.NewRequest(http.MethodGet, "http://"+d.api+"/api/v1/readings?limit=100000&"+everything, nil)
	require.NoError(d.t, err)
	req.Header.Set("X-Scope-OrgID", tenant)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, false
	}
	defer resp.Body.Close()
	var all struct {
		Readings            []reading
		Complete, Truncated bool
	}
	decoder := json.NewDecoder(resp.Body)
	decoder.UseNumber()
	if resp.StatusCode != http.StatusOK || decoder.Decode(&all) != nil || all.Truncated {
		return nil, false
	}
	got = table{}
	for _, g := range all.Readings {
		got[row{g.Device, g.TS, labelled(g.Labels)}] = g.Values
	}
	return got, all.Complete
}

// unsentTo is unsent for any topic.
func unsentTo(messages []kafka.Message, broker, topic string) []kafka.Message {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	w := writer(broker, topic)
	defer w.Close()
	if w.WriteMessages(ctx, messages...) == nil {
		return nil
	}
	return messages
}
