package cosmos

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/store"
	"binnacle/sharding/epk"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// Measurement is one operation of an examination: its time and its charge, with the model's.
type Measurement struct {
	Operation string        `json:"operation"`
	Kind      string        `json:"kind"`     // factor of the model: read, write or query; "" for none
	Requests  int           `json:"requests"` // how many the operation sent
	Took      time.Duration `json:"took"`     // the fastest attempt
	Charged   float64       `json:"charged"`  // RU
	Modelled  float64       `json:"modelled"` // RU
	Problem   string        `json:"problem,omitempty"`
}

// Factor returns what the model's charge has to be multiplied with.
func (m Measurement) Factor() float64 {
	if m.Modelled == 0 {
		return 1
	}
	return m.Charged / m.Modelled
}

// FactorsOf returns what the model has to be multiplied with so that it charges what was measured, by kind of
// operation: all that was charged through all that was modelled. Operations that the service refused tell nothing.
func FactorsOf(all []Measurement) (f ru.Factors) {
	for kind, factor := range map[string]*float64{"read": &f.Read, "write": &f.Write, "query": &f.Query} {
		var charged, modelled float64
		for _, m := range all {
			if m.Kind == kind && m.Problem == "" {
				charged, modelled = charged+m.Charged, modelled+m.Modelled
			}
		}
		if charged > 0 && modelled > 0 {
			*factor = charged / modelled
		}
	}
	return f
}

// Examination is what is found out about an account.
type Examination struct {
	Skew     time.Duration `json:"skew"` // difference of the service's clock, in whole seconds
	Measured []Measurement `json:"measured"`
}

// scratch is the container that an examination makes and drops.
const scratch = "doctor"

// scratchThroughput is the least that is sold.
var scratchThroughput = store.Throughput{RUs: 400}

// ScratchDollars returns the list price of an examination: the throughput of a container is paid for by the hour.
func ScratchDollars() float64 {
	return ru.Price(ru.Priced{RUs: float64(scratchThroughput.RUs)}).Most / ru.HoursPerMonth
}

// Ranges returns how many physical partitions a container has.
func (c *Client) Ranges(ctx context.Context, container string) (int, error) {
	spans, err := c.readRanges(ctx, container)
	return len(spans), err
}

// RangesOf returns the physical partitions of a container, in their order, as they are now.
func (c *Client) RangesOf(ctx context.Context, container string) ([]epk.Range, error) {
	spans, err := c.readRanges(ctx, container)
	if is(err, http.StatusNotFound) || asError(err) != nil && asError(err).Status == http.StatusNotFound {
		err = store.ErrNoContainer
	}
	slices.SortFunc(spans, func(a, b epk.Range) int { return epk.Compare(a.Min, b.Min) })
	return spans, err
}

// Examine measures some thirty operations on a container that it makes, in the layout of chunks, and drops again. It
// calls each with every measurement.
func (c *Client) Examine(ctx context.Context, model ru.Model, each func(Measurement)) (out Examination, err error) {
	if err := c.Containers().CreateAs(ctx, chunkLayout(scratch), scratchThroughput); err != nil {
		return out, fmt.Errorf("make the container %s: %w", scratch, err)
	}
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, c.Containers().Delete(bounded, scratch))
	}()
	x := &examiner{c: c, model: model, run: fmt.Sprintf("x%d", c.cfg.Now().UnixNano())}
	for _, o := range x.operations() {
		m, err := x.measure(ctx, o)
		if err != nil {
			return out, err
		}
		each(m)
		out.Measured = append(out.Measured, m)
	}
	out.Skew = x.skew
	return out, nil
}

type examiner struct {
	c     *Client
	model ru.Model
	run   string // part of all ids: one examination cut short does not disturb the next
	next  int
	made  []string // ids, counted by next, of documents that exist
	skew  time.Duration
	mark  string // continuation of the change feed
}

// index is what a chunk has in the index: two levels of its key, from, to and id.
const index = 5 * ru.Scalar

// operation is a measured operation: attempts that do the same. The fastest one counts.
type operation struct {
	name     string
	kind     string // factor of the model
	modelled float64
	attempts int
	do       attempt
}

type attempt func(ctx context.Context, container *azcosmos.ContainerClient) (azcosmos.Response, error)

const (
	small1  = 1 << 10
	medium4 = 4 << 10
	full32  = 32 << 10
	large64 = 64 << 10 // where published tables differ most
)

// Two keys: examined is of the documents that are measured, inTurn of chunks that are written between those.
var (
	examined = []string{"doctor~0", "m1"}
	inTurn   = []string{"doctor~0", "m2"}
)

func (x *examiner) document(id string, bytes int) []byte { return documentOf(examined, id, bytes) }

func documentOf(key []string, id string, bytes int) []byte {
	head := fmt.Sprintf(`{"id":%q,"tenantShard":%q,"device":%q,"from":1,"to":2,"time":"`, id, key[0], key[1])
	raw := make([]byte, bytes)
	for i := range raw {
		raw[i] = byte(i * 131)
	}
	return []byte(head + base64.StdEncoding.EncodeToString(raw)[:bytes-len(head)-2] + `"}`)
}

func (x *examiner) id(name string) string { return x.run + "." + name }

// operations returns the operations to measure, each after the operations that it depends on.
func (x *examiner) operations() []operation {
	return slices.Concat(x.writesAndReads(), x.changes(), x.queries(), x.feeds())
}

// between are sizes near rows of the table of sizes: whether charges step from row to row, or slope, they tell.
var between = []int{31 << 10, 33 << 10, 36 << 10, 63 << 10, 65 << 10}

func (x *examiner) writesAndReads() []operation {
	m := x.model
	out := []operation{
		{"create, 1 KB", "write", m.Write(small1, index), 3, x.create(small1)},
		{"create, 4 KB", "write", m.Write(medium4, index), 3, x.create(medium4)},
		{"create, 32 KB", "write", m.Write(full32, index), 3, x.create(full32)},
		{"create, 64 KB", "write", m.Write(large64, index), 3, x.create(large64)},
		{"read, 1 KB", "read", m.Read(small1), 5, x.read("first", small1)},
		{"read, 32 KB", "read", m.Read(full32), 5, x.read("large", full32)},
		{"read, 64 KB", "read", m.Read(large64), 5, x.read("larger", large64)},
	}
	for _, bytes := range between {
		size := fmt.Sprintf("%d KB", bytes>>10)
		out = append(out,
			operation{"create, " + size, "write", m.Write(bytes, index), 2, x.create(bytes)},
			operation{"read, " + size, "read", m.Read(bytes), 2, x.read(size, bytes)})
	}
	return out
}

func (x *examiner) changes() []operation {
	m := x.model
	return []operation{
		{"replace, 1 KB", "write", m.Replace(small1, small1, 0), 3, x.replace("first", small1)},
		{"replace by ETag, 1 KB", "write", m.Replace(small1, small1, 0), 3, x.replaceUnchanged("first", small1)},
		{"upsert of what is not there, 1 KB", "write", m.Write(small1, index), 3, x.upsert(small1)},
		{"delete, 1 KB", "write", m.Delete(small1, index), 3, x.remove},
		{"create, 1 KB, of two devices in turn", "write", m.Write(small1, index), 2 * scattered, x.inTurn(small1)},
	}
}

// scattered is how many chunks of one device are created between chunks of the other.
const scattered = 10

func (x *examiner) queries() []operation {
	m := x.model
	key := partitionKey(examined)
	work := func(seeks int, sizes ...int) ru.QueryWork {
		w := ru.QueryWork{Seeks: seeks}
		for _, s := range sizes {
			w.Add(s)
		}
		return w
	}
	apart := work(3, slices.Repeat([]int{small1}, scattered)...)
	apart.Scattered = scattered - 3
	const byKey = ` WHERE c.tenantShard = "doctor~0" AND c.device = "m1"`
	large := ` AND c.id = "` + x.id("large") + `"`
	return []operation{
		{"query of a key, nothing", "query", m.Query(work(4)), 5, x.query("SELECT * FROM c"+byKey+` AND c["from"] > 5`, key)},
		{"query of a key, a chunk of 1 KB", "query", m.Query(work(4, small1)), 5,
			x.query("SELECT * FROM c"+byKey+` AND c.id = "`+x.id("first")+`"`, key)},
		{"query of a key, a chunk of 32 KB", "query", m.Query(work(4, full32)), 5,
			x.query("SELECT * FROM c"+byKey+large, key)},
		{"query of a key in order, a chunk of 32 KB", "query", m.Query(work(4, full32)), 5,
			x.query("SELECT * FROM c"+byKey+large+` ORDER BY c["from"]`, key)},
		{"query of a key, ten scattered chunks of 1 KB", "query", m.Query(apart), 5,
			x.query(`SELECT * FROM c WHERE c.tenantShard = "doctor~0" AND c.device = "m2"`, partitionKey(inTurn))},
		{"query of a prefix, a chunk of 32 KB", "query", m.Query(work(2, full32)), 5,
			x.query(`SELECT * FROM c WHERE c.tenantShard = "doctor~0"`+large, partitionKey(nil))},
		{"query of all, nothing", "query", m.Query(work(1)), 5,
			x.query(`SELECT * FROM c WHERE c.tenantShard = "doctor~1"`, partitionKey(nil))},
	}
}

func (x *examiner) feeds() []operation {
	return []operation{
		{"change feed, nothing new", "query", x.model.Feed(ru.QueryWork{}), 5, x.feed},
		{"change feed, a new chunk of 1 KB", "query", x.model.Feed(ru.QueryWork{Docs: 1}), 3, x.feedOfOne(small1)},
	}
}

// measure makes the attempts at an operation. That the service refuses one is a finding, and no error.
func (x *examiner) measure(ctx context.Context, o operation) (Measurement, error) {
	m := Measurement{Operation: o.name, Kind: o.kind, Modelled: o.modelled}
	for range o.attempts {
		var charge float64
		began := x.c.cfg.Now()
		to := call{operation: "examine", container: scratch, changes: final}
		_, err := x.c.inContainer(ctx, to, func(ctx context.Context,
			container *azcosmos.ContainerClient) (azcosmos.Response, error) {
			began = x.c.cfg.Now() // overwritten until an attempt is not throttled
			resp, err := o.do(ctx, container)
			charge = chargeOf(resp.RawResponse)
			x.clock(resp.RawResponse, began)
			return resp, err
		})
		took := x.c.cfg.Now().Sub(began)
		m.Requests++
		if ctx.Err() != nil {
			return m, ctx.Err()
		}
		if err != nil {
			m.Problem = strings.ReplaceAll(err.Error(), "\n", " ")
			return m, nil
		}
		if m.Requests == 1 || took < m.Took {
			m.Took = took
		}
		m.Charged = charge
	}
	return m, nil
}

// clock compares the service's clock with this one: an answer has a whole second, at some time between the request and
// now. What can be explained by that is no skew.
func (x *examiner) clock(raw *http.Response, began time.Time) {
	at := dateOf(raw, nil)
	if at.IsZero() {
		return
	}
	switch now := x.c.cfg.Now(); {
	case at.After(now):
		x.skew = at.Sub(now)
	case at.Add(time.Second).Before(began):
		x.skew = at.Add(time.Second).Sub(began)
	default:
		x.skew = 0
	}
}

// Verdict is how an account charges sizes between two rows of the table of sizes.
type Verdict struct {
	Sizes     string  `json:"sizes"` // step, slope, or neither
	Writes    string  `json:"writes"`
	Reads     string  `json:"reads"`
	Tolerance float64 `json:"tolerance"` // share of a charge
}

// tolerance is how far a charge may be from a model's to count as its: a unit of a create is less than half of it.
const tolerance = 0.03

// Neither is the verdict on charges that fit neither model.
const Neither = "neither"

// VerdictOf compares creates and reads near the rows of 32 and 64 KB with both models. Charges are taken as multiples
// of that at 31 KB, on which both agree, so that an account that charges everything double has a verdict too.
func VerdictOf(all []Measurement) (v Verdict, ok bool) {
	v = Verdict{Tolerance: tolerance}
	f := findings(all)
	if v.Writes, ok = f.model("create", func(m ru.Model, bytes int) float64 { return m.Write(bytes, index) }); !ok {
		return v, false
	}
	v.Reads, ok = f.model("read", ru.Model.Read)
	if v.Sizes = Neither; v.Writes == v.Reads {
		v.Sizes = v.Writes
	}
	return v, ok
}

// findings are measurements that the service has answered.
type findings []Measurement

func (f findings) charged(operation string) (rus float64, ok bool) {
	i := slices.IndexFunc(f, func(m Measurement) bool { return m.Operation == operation && m.Problem == "" })
	if i < 0 {
		return 0, false
	}
	return f[i].Charged, true
}

// model returns the model by which operations are charged that are named after their size.
func (f findings) model(operation string, charge func(ru.Model, int) float64) (name string, ok bool) {
	base, ok := f.charged(fmt.Sprintf("%s, %d KB", operation, between[0]>>10))
	if !ok || base == 0 {
		return "", false
	}
	fits := []ru.Model{ru.Stepped, ru.Sloped}
	for _, bytes := range between[1:] {
		rus, ok := f.charged(fmt.Sprintf("%s, %d KB", operation, bytes>>10))
		if !ok {
			return "", false
		}
		fits = slices.DeleteFunc(fits, func(m ru.Model) bool {
			want := base * charge(m, bytes) / charge(m, between[0])
			return math.Abs(rus/want-1) > tolerance
		})
	}
	if len(fits) == 0 {
		return Neither, true
	}
	return fits[0].String(), true
}
