package rejected_test

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/ingest/write"
	"binnacle/internal/erasure"
	"binnacle/internal/kafka"
	"binnacle/internal/lab/broker"
	"binnacle/internal/stream/topics"
	"binnacle/internal/telemetry"
	"binnacle/query/diagnose/gaps"
	"binnacle/query/diagnose/rejected"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ever = telemetry.Range{From: 0, To: telemetry.MaxMillis}

func topicsOf(texts ...string) topics.Set {
	set, err := topics.Parse(texts, "")
	if err != nil {
		panic(err)
	}
	return set
}

// record is a letter as it lies in its topic, refused at a time.
func record(at int64, offset int64, index int, reason decode.Reason, value string, own ...admit.Header) *kafka.Record {
	l := write.DeadLetter{Topic: "telemetry", Partition: 3, Record: admit.Record{Offset: offset, Time: at - 1,
		Key: []byte("victim/v1"), Value: []byte(value), Headers: own}, Bad: decode.Bad{Index: index, Reason: reason}}
	r := &kafka.Record{Time: at, Key: l.Record.Key, Value: l.Record.Value}
	for _, h := range l.Headers() {
		r.Headers = append(r.Headers, kafka.Header(h))
	}
	return r
}

func newIndex(c rejected.Config) *rejected.Index {
	if c.Topics.String() == "" {
		c.Topics = topicsOf("telemetry")
	}
	x := rejected.New(c)
	rejected.CaughtUp(x)
	return x
}

// The payload decides the tenant of a dead letter, and a tenant sees of it what is its own. Each payload that is not
// its alone holds the word secret.
func TestClassify(t *testing.T) {
	const ours = `{"tenant":"acme","device":"m1","ts":1763640000000,"values":{"v":1}}`
	const theirs = `{"tenant":"globex","device":"secret","ts":2000,"values":{"secret":2}}`
	const wrong = `{"tenant":"acme","device":"m1","ts":1763640000000,"values":{"v":[]}}`
	const flat = "application/json; format=flat"
	kind := func(k string) admit.Header { return admit.Header{Key: "content-type", Value: []byte(k)} }
	point := func(tenant, name string) string {
		return `{"resource":{"attributes":[{"key":"tenant","value":{"stringValue":"` + tenant +
			`"}},{"key":"device","value":{"stringValue":"m1"}}]},"scopeMetrics":[{"metrics":[{"name":"` + name +
			`","gauge":{"dataPoints":[{"timeUnixNano":"1763640000000000000","asDouble":1}]}}]}]}`
	}
	for name, c := range map[string]struct {
		index   int
		value   string
		headers []admit.Header
		tenant  string // empty is nobody's
		payload string
	}{
		"a reading":                    {0, ours, nil, "acme", ours},
		"one of two":                   {0, "[" + ours + "," + theirs + "]", nil, "acme", ours},
		"both":                         {whole, "[" + ours + "," + theirs + "]", nil, "", ""},
		"both of one":                  {whole, "[" + ours + "," + ours + "]", nil, "acme", "[" + ours + "," + ours + "]"},
		"one, and what is wrong":       {whole, "[" + ours + `,{"secret":1}]`, nil, "", ""},
		"a value that is none":         {0, wrong, nil, "acme", wrong},
		"the same beside another":      {1, "[" + theirs + "," + wrong + "]", nil, "acme", wrong},
		"without a tenant":             {0, `{"device":"m1","ts":1763640000000,"values":{"secret":1}}`, nil, "", ""},
		"two names":                    {0, `{"tenant":"acme","tenantId":"globex","values":{"secret":[]}}`, []admit.Header{kind(flat)}, "", ""},
		"no name":                      {0, `{"tenant":"ACME","values":{"secret":1}}`, nil, "", ""},
		"no JSON":                      {whole, `{"tenant":"acme","secret`, nil, "", ""},
		"an element that is not there": {7, "[" + theirs + "]", nil, "", ""},
		"a resource of two": {1, `{"resourceMetrics":[` + point("acme", "v") + "," + point("globex", "secret") + `]}`, nil,
			"globex", `{"tenant":"globex","device":"m1","ts":1763640000000,"values":{"secret":1}}`},
		"resources under a name": {1, `{"tenant":"acme","resourceMetrics":[` + point("globex", "secret") + `]}`, nil, "", ""},
		"through a hub": {0, `{"tenant":"acme","values":{"secret":[]}}`, []admit.Header{
			{Key: "iothub-connection-device-id", Value: []byte("m9")}, {Key: "tenant", Value: []byte("globex")}}, "", ""},
		"not JSON by its header": {0, `{"tenant":"acme","secret":1}`, []admit.Header{kind("application/senml+json")}, "", ""},
		"a key and headers that claim": {whole, `secret`, []admit.Header{{Key: "tenant", Value: []byte("acme")},
			{Key: "binnacle-tenant", Value: []byte("acme")}}, "", ""},
		"line protocol": {1,
			"m,tenant=globex,device=m1 secret=1 1000000\nm,tenant=acme,device=m1 v=1 1763640000000000000", nil,
			"acme", `{"tenant":"acme","device":"m1","ts":1763640000000,"values":{"m_v":1}}`},
	} {
		tags := decode.Lines{DeviceTag: "device", TenantTag: "tenant"}
		x := newIndex(rejected.Config{Messages: decode.Options{Lines: tags}})
		rejected.Take(x, 0, record(5000, 17, c.index, decode.Value, c.value, c.headers...))
		for _, tenant := range []string{"acme", "globex", "victim"} {
			got := x.Rejected(rejected.Request{Tenant: tenant, Range: ever, Samples: 5})
			require.True(t, got.Complete)
			if tenant != c.tenant {
				require.Empty(t, got.Groups, "%s, asked by %s", name, tenant)
				continue
			}
			require.Len(t, got.Groups, 1, name)
			require.Equal(t, 1, got.Groups[0].Count)
			s := got.Groups[0].Samples[0]
			if c.payload != "" {
				require.Equal(t, c.payload, s.Payload, name)
				require.True(t, tenant == "globex" || !strings.Contains(s.Payload, "secret"), name)
				require.EqualValues(t, 1763640000000, *s.Time, name)
			}
			require.Equal(t, "m1", s.Device, name)
			require.Empty(t, s.Tenant, "only operators see tenants")
			require.EqualValues(t, 5000, s.At)
		}
		all := x.Rejected(rejected.Request{Range: ever, Samples: 5})
		require.Equal(t, 1, all.Groups[0].Count, name)
		if c.tenant == "" {
			require.Equal(t, c.value, all.Groups[0].Samples[0].Payload, name)
		}
	}
}

const whole = decode.Whole

// Text that is nearly JSON is its tenant's if it names one alone; what may be another's is shown to nobody, and of what
// only the key names, its tenant learns that it was refused. All that is not acme's alone holds the word secret.
func TestClassifyBrokenJSON(t *testing.T) {
	const python = `{"tenant": "acme", "device": "m1", "ts": 1763640000000, "values": {"v": NaN}}`
	for name, c := range map[string]struct {
		value, tenant string
		shown         bool
	}{
		"Python's NaN":             {python, "acme", true},
		"cut off":                  {`{"tenant":"acme","device":"m1","values":{"v`, "acme", true},
		"the tenant at the end":    {`{"device":"m1","values":{"v":Infinity},"tenant":"acme"}`, "acme", true},
		"an array of one tenant":   {"[" + python + `,{"secret":1}]`, "acme", false},
		"two tenants":              {"[" + python + `,{"tenant":"globex","secret":1}]`, "", false},
		"two names":                {`{"tenant":"acme","tenantId":"globex","secret":NaN}`, "", false},
		"a mention in a text":      {`{"tenant":"acme","note":"\"tenant\":\"globex\"","secret":NaN, "x" "tenant"}`, "", false},
		"a quotation mark missing": {`{"tenant":"acme","note":"secret,"tenant":"globex"}`, "", false},
		"an escaped name":          {`{"tenant":"acme","t\u0065nant":"globex","secret":NaN}`, "", false},
		"no text":                  {`{"tenant":7,"secret":NaN}`, "", false},
		"no tenant's name":         {`{"tenant":"ACME!","secret":NaN}`, "", false},
		"the key alone":            {`{"device":"secret","values":{"v":NaN}}`, "victim", false},
		"an envelope":              {`{"Body":{"device":"secret","values":{"v":NaN}}}`, "", false},
		"no JSON by its look":      {`secret`, "", false},
	} {
		x := newIndex(rejected.Config{})
		rejected.Take(x, 0, record(5000, 17, whole, decode.Undecodable, c.value))
		for _, tenant := range []string{"acme", "globex", "victim"} {
			got := x.Rejected(rejected.Request{Tenant: tenant, Range: ever, Samples: 5})
			if tenant != c.tenant {
				require.Empty(t, got.Groups, "%s, asked by %s", name, tenant)
				continue
			}
			require.Len(t, got.Groups, 1, name)
			s := got.Groups[0].Samples[0]
			require.NotContains(t, s.Payload+s.Detail, "secret", name)
			require.Equal(t, c.shown, s.Payload == c.value, name)
			require.Equal(t, !c.shown, s.Truncated, name)
		}
		require.Len(t, x.Rejected(rejected.Request{Range: ever}).Groups, 1, name)
	}
	x := newIndex(rejected.Config{Messages: decode.Options{Tenant: "globex"}})
	rejected.Take(x, 0, record(5000, 1, whole, decode.Undecodable, `{"device":"m1","values":{"v":NaN}}`))
	rejected.Take(x, 0, record(5000, 2, whole, decode.Undecodable, "["+python+`,{"device":"x"}]`))
	require.Len(t, x.Rejected(rejected.Request{Tenant: "globex", Range: ever}).Groups, 1, "the default tenant")
	require.Empty(t, x.Rejected(rejected.Request{Tenant: "acme", Range: ever}).Groups, "one element is another's")
}

// A dead letter for many elements is decoded once: the first ones are kept each, and of the rest how many each tenant
// has.
func TestManyElements(t *testing.T) {
	var value strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&value, `,{"tenant":"%s","device":"m%d","ts":%d,"values":{"v":1}},0`, []string{"acme", "globex"}[i%2], i,
			1763640000000+i)
	}
	r := record(5000, 17, 0, decode.Past, "["+value.String()[1:]+"]")
	r.Headers = append(r.Headers, kafka.Header{Key: "binnacle-elements", Value: []byte("0-1999")})
	x := newIndex(rejected.Config{})
	for range 2 {
		rejected.Take(x, 0, r)
	}
	count := func(tenant string) (n, samples int) {
		for _, g := range x.Rejected(rejected.Request{Tenant: tenant, Range: ever, Samples: 100}).Groups {
			n, samples = n+g.Count, samples+len(g.Samples)
		}
		return n, samples
	}
	for _, tenant := range []string{"acme", "globex"} {
		n, samples := count(tenant)
		require.Equal(t, 500, n)
		require.Equal(t, 16, samples)
	}
	n, _ := count("")
	require.Equal(t, 2000, n)
	refusals, _, _ := x.Of("acme", "m2", ever)
	require.Len(t, refusals, 1)
}

// A record that is read again after a crash may be refused otherwise. Each element counts once.
func TestElementsRefusedAgain(t *testing.T) {
	x, reading := newIndex(rejected.Config{}), `{"tenant":"acme","device":"m1","ts":1763640000000,"values":{"v":1}}`
	for i, elements := range []string{"1-2", "0-1", "0-3", "2-3"} {
		r := record(5000+int64(i), 17, int(elements[0]-'0'), decode.Limit, "["+strings.Repeat(reading+",", 3)+reading+"]")
		r.Time = 5000
		r.Headers = append(r.Headers, kafka.Header{Key: "binnacle-elements", Value: []byte(elements)},
			kafka.Header{Key: "binnacle-timestamp", Value: []byte("4999")})
		rejected.Take(x, 0, r)
		require.Equal(t, []int{2, 3, 4, 4}[i], x.Rejected(rejected.Request{Tenant: "acme", Range: ever}).Groups[0].Count)
	}
}

// What names nobody is the default tenant's; what names another one somewhere within is not, also where it is no
// reading.
func TestClassifyWithDefaultTenant(t *testing.T) {
	hub := `"Body":{"device":"m1","ts":1763640000000,"values":{"v":[]}}}`
	for name, c := range map[string]struct{ value, tenant string }{
		"names nobody":         {`{"device":"m1","ts":1763640000000,"values":{"v":[]}}`, "acme"},
		"names another":        {`{"tenant":"globex","device":"m1","ts":1763640000000,"values":{"v":[]}}`, "globex"},
		"an envelope":          {`{"Properties":{"tenant":"globex"},` + hub, ""},
		"an envelope, turned":  {`{"SystemProperties":{},"Properties":{"tenantId":"globex"},` + hub, ""},
		"one in base64":        {`{"SystemProperties":{},"Body":"eyJ0ZW5hbnQiOiJnbG9iZXgiLCJ2IjpbXX0="}`, ""},
		"a metric of Telegraf": {`{"fields":{"v":[]},"name":"m","tags":{"tenant":"globex"},"timestamp":1}`, ""},
		"far within":           {`{"device":"m1","about":[{"owner":{"tenant_id":"globex"}}],"values":{"v":[]}}`, ""},
		"by its path":          {`{"device":"m1","who":{"owns":"globex"},"values":{"v":[]}}`, ""},
		"by a longer path":     {`{"device":"m1","who":[{"owns":{"it":"globex"}}],"values":{"v":[]}}`, ""},
	} {
		x := newIndex(rejected.Config{Messages: decode.Options{Tenant: "acme",
			Lines:  decode.Lines{DeviceTag: "device", TenantTag: "tenant"},
			Object: decode.ObjectNames{Tenant: []string{"tenant", "tenantId", "tenant_id", "who_owns", "who_owns_it"}}}})
		rejected.Take(x, 0, record(5000, 17, 0, decode.Value, c.value))
		for _, tenant := range []string{"acme", "globex"} {
			got := x.Rejected(rejected.Request{Tenant: tenant, Range: ever, Samples: 5})
			require.Equal(t, tenant == c.tenant, len(got.Groups) == 1, "%s, asked by %s: %v", name, tenant, got.Groups)
		}
	}
}

// A dead letter with a long name above many others takes memory by its bytes, not by names that are joined.
func TestLongNameAboveMany(t *testing.T) {
	var many strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&many, `"%x":1,`, i)
	}
	x := newIndex(rejected.Config{Messages: decode.Options{Tenant: "acme"}})
	letter := record(5000, 17, 0, decode.Value, fmt.Sprintf(`{"%s":{%s"v":1},"device":"m1","ts":1763640000000,"values":{"v":[]}}`,
		strings.Repeat("x", 100_000), many.String()))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	rejected.Take(x, 0, letter)
	runtime.ReadMemStats(&after)
	require.Len(t, x.Rejected(rejected.Request{Tenant: "acme", Range: ever}).Groups, 1)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20))
}

// Letters count once, by reason, within a range, of a device; the newest are shown.
func TestRejected(t *testing.T) {
	x := newIndex(rejected.Config{})
	const began = 1763640000000
	reading := func(i int64) string {
		return fmt.Sprintf(`{"tenant":"acme","device":"m%d","ts":%d,"values":{"v":1}}`, i%2, began+i)
	}
	for range 2 { // at least once
		for i := range int64(10) {
			reason := decode.Past
			if i >= 7 {
				reason = decode.Future
			}
			rejected.Take(x, 0, record(100+i, i, 0, reason, reading(i)))
		}
	}
	ask := func(q rejected.Request) []rejected.Group {
		q.Tenant, q.Samples = "acme", 2
		return x.Rejected(q).Groups
	}
	all := ask(rejected.Request{Range: ever})
	require.Len(t, all, 2)
	require.Equal(t, decode.Past, all[0].Reason)
	require.Equal(t, 7, all[0].Count)
	require.EqualValues(t, 100, all[0].First)
	require.EqualValues(t, 106, all[0].Last)
	require.Len(t, all[0].Samples, 2)
	require.EqualValues(t, 6, all[0].Samples[0].Offset)
	require.EqualValues(t, 5, all[0].Samples[1].Offset)
	require.Equal(t, 3, ask(rejected.Request{Range: ever, Reasons: []string{"future"}})[0].Count)
	require.Equal(t, 3, ask(rejected.Request{Range: ever, Devices: []string{"m1", "m3"}})[0].Count)
	require.Equal(t, 2, ask(rejected.Request{Range: telemetry.Range{From: 103, To: 105}})[0].Count)

	refusals, nameless, why := x.Of("acme", "m1", telemetry.Range{From: began + 3, To: began + 8})
	require.Empty(t, why)
	require.Empty(t, nameless)
	require.Len(t, refusals, 3)
	require.Equal(t, decode.Future, refusals[2].Reason)
}

// Dead letters that an order of erasure covers are left out, of the device's own and of its key.
func TestErasedLettersAreLeftOut(t *testing.T) {
	orders := map[string]erasure.List{}
	x := newIndex(rejected.Config{Erasures: func(tenant string) erasure.List { return orders[tenant] }})
	for i, device := range []string{"m0", "m1"} {
		value := fmt.Sprintf(`{"tenant":"acme","device":%q,"ts":1763640000000,"values":{"v":1}}`, device)
		rejected.Take(x, 0, record(100+int64(i), int64(i), 0, decode.Past, value))
	}
	ask := func() (n int) {
		for _, g := range x.Rejected(rejected.Request{Tenant: "acme", Range: ever}).Groups {
			n += g.Count
		}
		return n
	}
	require.Equal(t, 2, ask())
	whole := erasure.Order{Tenant: "acme", Device: "m0", To: erasure.EveryDay, At: time.UnixMilli(1 << 50)}
	orders["acme"] = erasure.List{&whole}
	require.Equal(t, 2, ask(), "it is not acknowledged")
	orders["acme"] = erasure.List{whole.Acknowledged([]erasure.Position{{}})}
	require.Equal(t, 1, ask())
	refusals, _, _ := x.Of("acme", "m0", ever)
	require.Empty(t, refusals)
	refused, _ := x.Steps("acme", ever, 1<<40)
	require.NotContains(t, refused, "m0")
	early := whole
	early.At = time.UnixMilli(1)
	orders["acme"] = erasure.List{early.Acknowledged([]erasure.Position{{}})}
	require.Equal(t, 2, ask(), "they were published later")
	days := whole
	days.To = telemetry.DayOf(1763640000000)
	orders["acme"] = erasure.List{days.Acknowledged([]erasure.Position{{}})}
	require.Equal(t, 2, ask(), "it is about earlier days")
}

// A record that says nothing of its tenant counts for the device of its key, without what is in it; one without such a
// key may be anybody's.
func TestRefusalsWithoutTenant(t *testing.T) {
	x := newIndex(rejected.Config{})
	rejected.Take(x, 0, record(100, 1, whole, decode.Undecodable, "secret"))
	nobodys := record(200, 2, whole, decode.Undecodable, "secret")
	nobodys.Key = nil
	rejected.Take(x, 0, nobodys)
	refusals, nameless, _ := x.Of("victim", "v1", ever)
	require.Equal(t, []gaps.Refusal{{Time: -1, Published: 99, Reason: decode.Undecodable, Topic: "telemetry", Partition: 3,
		Offset: 1}}, refusals)
	require.Equal(t, []int64{199}, nameless)
	refusals, nameless, _ = x.Of("acme", "v1", ever)
	require.Empty(t, refusals)
	require.Equal(t, []int64{199}, nameless)
	require.Empty(t, x.Rejected(rejected.Request{Tenant: "victim", Range: ever}).Groups)
}

// Memory is bounded: the oldest go, and it is said that they are missing.
func TestIndexEvictsOldest(t *testing.T) {
	x := newIndex(rejected.Config{MaxBytes: 100 << 10})
	long := strings.Repeat("x", 3000)
	for i := range int64(1000) {
		rejected.Take(x, 0, record(1000+i, i, 0, decode.Past,
			`{"tenant":"acme","device":"m1","ts":1,"values":{"v":"`+long+strconv.FormatInt(i, 10)+`"}}`))
	}
	got := x.Rejected(rejected.Request{Tenant: "acme", Range: ever, Samples: 1})
	require.False(t, got.Complete)
	require.Contains(t, got.Incomplete, "only a part")
	n := got.Groups[0].Count
	require.InDelta(t, 80, n, 10)
	require.True(t, got.Groups[0].Samples[0].Truncated)
	require.Len(t, got.Groups[0].Samples[0].Payload, 1<<10)
	newest := x.Rejected(rejected.Request{Tenant: "acme", Range: telemetry.Range{From: got.Groups[0].First, To: 5000}})
	require.True(t, newest.Complete)
	require.Equal(t, n, newest.Groups[0].Count)
}

// The topic is followed: what is there, what comes, and a topic that is not there at first.
func TestIndexFollowsTopic(t *testing.T) {
	b, err := broker.Open(broker.Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0", Partitions: 2,
		Topics: []string{"telemetry.dlq"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	client, err := kafka.New(kafka.Config{Brokers: []string{b.Addr()}})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	bury := func(from, to int64) {
		var all []write.DeadLetter
		for i := from; i < to; i++ {
			all = append(all, write.DeadLetter{Topic: "telemetry", Record: admit.Record{Offset: i, Time: i,
				Key:   fmt.Appendf(nil, "%d", i),
				Value: fmt.Appendf(nil, `{"tenant":"acme","device":"m1","ts":%d,"values":{"v":1}}`, i)},
				Bad: decode.Bad{Reason: decode.Past}})
		}
		require.NoError(t, ingest.NewTopicDeadLetterWriter(client.Topic("telemetry.dlq")).Publish(t.Context(), all))
	}
	bury(0, 20)
	run := func(letters string) *rejected.Index {
		x := rejected.New(rejected.Config{DeadLetters: client.Topic(letters), Topics: topicsOf("telemetry"),
			Every: time.Millisecond})
		require.Equal(t, "the dead letters are being read", x.Rejected(rejected.Request{}).Incomplete)
		done := make(chan struct{})
		ctx := t.Context()
		go func() { defer close(done); _ = x.Run(ctx) }()
		t.Cleanup(func() { <-done })
		return x
	}
	x, none := run("telemetry.dlq"), run("nowhere")
	count := func(x *rejected.Index) (n int) {
		for _, g := range x.Rejected(rejected.Request{Tenant: "acme", Range: ever}).Groups {
			n += g.Count
		}
		return n
	}
	soon := func(ok func() bool) {
		t.Helper()
		require.Eventually(t, ok, time.Minute, time.Millisecond)
	}
	soon(func() bool { return x.Rejected(rejected.Request{Range: ever}).Complete })
	require.Equal(t, 20, count(x))
	bury(20, 25)
	soon(func() bool { return count(x) == 25 })
	soon(func() bool { return none.Rejected(rejected.Request{Range: ever}).Complete })
	require.Zero(t, count(none))
}

// Of a topic with more letters than there is room for, the newest of each partition are known after a start, and what
// is shown is in the order of time, not partition by partition.
func TestStartReadsEndOfEachPartition(t *testing.T) {
	b, err := broker.Open(broker.Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0", Partitions: 4,
		Topics: []string{"telemetry.dlq"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	client, err := kafka.New(kafka.Config{Brokers: []string{b.Addr()}})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	const n = 400
	long := strings.Repeat("x", 1000)
	for i := range int64(n) {
		l := record(1_000_000+i, i, 0, decode.Past,
			fmt.Sprintf(`{"tenant":"acme","device":"m%d","ts":1,"values":{"v":%q}}`, i%4, long))
		_, err := client.Topic("telemetry.dlq").Produce(t.Context(), int(i%4), []kafka.Message{
			{Time: time.UnixMilli(l.Time), Key: l.Key, Value: l.Value, Headers: l.Headers}})
		require.NoError(t, err)
	}
	x := rejected.New(rejected.Config{DeadLetters: client.Topic("telemetry.dlq"), Topics: topicsOf("telemetry"),
		MaxBytes: 100 << 10, Every: time.Millisecond})
	done := make(chan struct{})
	ctx := t.Context()
	go func() { defer close(done); _ = x.Run(ctx) }()
	t.Cleanup(func() { <-done })
	newest := telemetry.Range{From: 1_000_000 + n - 40, To: telemetry.MaxMillis}
	require.Eventually(t, func() bool { return x.Rejected(rejected.Request{Range: newest}).Complete }, time.Minute,
		time.Millisecond)
	got := x.Rejected(rejected.Request{Tenant: "acme", Range: newest, Samples: 100})
	require.Len(t, got.Groups, 1)
	require.Equal(t, 40, got.Groups[0].Count)
	for i, s := range got.Groups[0].Samples {
		require.EqualValues(t, n-1-i, s.Offset, "the newest first")
	}
	require.False(t, x.Rejected(rejected.Request{Range: ever}).Complete)
}

// What is refused in a topic that belongs to a tenant is that tenant's, whomever it names and whatever it is: nobody
// can put it into another's list. Letters of different topics are different, and those of topics that nobody reads
// don't count.
func TestClassifyTopicBoundToTenant(t *testing.T) {
	x := newIndex(rejected.Config{Topics: topicsOf("telemetry", "/line-(.+)/=$1")})
	put := func(topic string, offset int64, index int, reason decode.Reason, value string) {
		r := record(1000, offset, index, reason, value)
		for i := range r.Headers {
			if r.Headers[i].Key == "binnacle-topic" {
				r.Headers[i].Value = []byte(topic)
			}
		}
		rejected.Take(x, 0, r)
	}
	const named = `{"tenant":"globex","device":"m1","ts":1763640000000,"values":{"v":1}}`
	put("line-acme", 1, 0, decode.OtherTenant, named)
	put("line-acme", 2, whole, decode.Undecodable, `{"tenant":"globex","`)
	put("telemetry", 1, 0, decode.Limit, named)
	put("elsewhere", 1, 0, decode.Limit, named)
	of := func(tenant string) (all []string) {
		for _, g := range x.Rejected(rejected.Request{Tenant: tenant, Range: ever, Samples: 5}).Groups {
			for _, s := range g.Samples {
				all = append(all, fmt.Sprint(s.Topic, " ", s.Offset, " ", g.Reason, " ", s.Device))
			}
		}
		return all
	}
	require.ElementsMatch(t, []string{"line-acme 1 other-tenant m1", "line-acme 2 undecodable "}, of("acme"))
	require.Equal(t, []string{"telemetry 1 limit m1"}, of("globex"))
	require.Len(t, of(""), 3)
}
