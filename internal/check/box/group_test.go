package box_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
	"github.com/segmentio/kafka-go/protocol/heartbeat"
	"github.com/segmentio/kafka-go/protocol/joingroup"
	"github.com/segmentio/kafka-go/protocol/leavegroup"
	"github.com/segmentio/kafka-go/protocol/syncgroup"
)

// grouped are ingesters that a consumer group gives their partitions. One that is cut off from the log, or stands
// still, keeps them until it hears of the next generation.
const grouped = "group"

// pickGroup picks whether ingesters are members of a group. There is one partition, since two of one process act in the
// same instants, in an order that no seed decides. Runs about limits know which process has it.
func (b *box) pickGroup() bool {
	r, p := rand.New(rand.NewPCG(b.opts.seed, 48)), &b.profile
	is := b.has(grouped, r.IntN(6) == 0 && b.about == "" && b.opts.years == 0 && !b.limiting.on && b.copies.west == nil)
	if is {
		p.partitions = 1
	}
	if is && b.opts.with != "" {
		p.act, p.pace, p.think = max(0.05, p.act), min(p.pace, 2*time.Second), 5*time.Second
	}
	return is
}

// actGrouped cuts an ingester off from the log for longer than its session, so that another member takes its partition,
// and gives it back to a process that has its bins. It reports whether it did.
func (b *box) actGrouped() bool {
	s := b.slots[b.rnd.IntN(len(b.slots))]
	isCutOff := func(s *slot) bool { return len(s.lives) == 0 || time.Now().Before(s.lives[0].paused.until) }
	if b.rnd.IntN(10) > 0 || slices.ContainsFunc(b.slots, isCutOff) || b.opts.without["pauses"] {
		return false
	}
	b.pause(s.lives[0].actor, pause{time.Now().Add(session + b.duration(time.Second, time.Minute)), true})
	return true
}

// session is for how long a group awaits a member that it does not hear of.
const session = 10 * time.Second

// group is the consumer group of the log. A generation begins when all members have joined again, or the time of those
// that have not is over.
type group struct {
	generation int32
	members    map[string]*groupMember
	born       int
	// since is when the next generation was called for, zero for never.
	since time.Time
	// shares are the assignments of the members. They are nil until the leader has sent them.
	shares map[string][]byte
}

// groupMember is one process in the group.
type groupMember struct {
	id       string
	metadata []joingroup.RequestProtocol
	seen     time.Time
	session  time.Duration
	joins    bool // it waits for the next generation
}

// touch removes members that were not heard of for their session, and returns the one with an id.
func (g *group) touch(id string) *groupMember {
	for _, m := range g.members {
		if !m.joins && time.Since(m.seen) > m.session {
			g.leave(m.id)
		}
	}
	m := g.members[id]
	if m != nil {
		m.seen = time.Now()
	}
	return m
}

func (g *group) leave(id string) {
	if g.members[id] != nil {
		delete(g.members, id)
		g.call()
	}
}

// call calls for another generation.
func (g *group) call() {
	if g.since.IsZero() {
		g.since = time.Now()
	}
}

// refuses returns why a member may not act in a generation, 0 if it may.
func (g *group) refuses(id string, generation int32) kafkago.Error {
	switch {
	case g.touch(id) == nil:
		return kafkago.UnknownMemberId
	case generation != g.generation:
		return kafkago.IllegalGeneration
	}
	return 0
}

// refusesCommit returns why a commit counts for nothing, 0 if it counts. Without a member it does only while the group
// has none.
func (g *group) refusesCommit(id string, generation int32) kafkago.Error {
	why := g.refuses(id, generation)
	switch {
	case generation < 0 && len(g.members) == 0:
		return 0
	case why == 0 && g.shares == nil:
		return kafkago.RebalanceInProgress
	}
	return why
}

// isReady reports whether the next generation can begin.
func (g *group) isReady() bool {
	late := false
	for _, m := range g.members {
		late = late || !m.joins && time.Since(m.seen) <= m.session && time.Since(g.since) <= m.session
	}
	return !late
}

// begin begins the next generation.
func (g *group) begin() {
	maps.DeleteFunc(g.members, func(_ string, m *groupMember) bool { return !m.joins })
	g.generation, g.shares, g.since = g.generation+1, nil, time.Time{}
	for _, m := range g.members {
		m.joins, m.seen = false, time.Now()
	}
}

func (x carrier) join(ctx context.Context, r *joingroup.Request) (*joingroup.Response, error) {
	g, id, res := x.a.b.log.group, r.MemberID, &joingroup.Response{}
	err := x.a.ask(ctx, &call{kind: "join", toLog: true, what: r.MemberID, isWrite: true, apply: func(view) {
		m := g.touch(r.MemberID)
		if m == nil && id != "" {
			res.ErrorCode = int16(kafkago.UnknownMemberId)
			return
		}
		if m == nil {
			g.born++
			id = fmt.Sprintf("%s-%d", x.a.name, g.born)
			m = &groupMember{id: id, session: time.Duration(r.SessionTimeoutMS) * time.Millisecond}
			g.members[id] = m
		}
		m.metadata, m.joins, m.seen = r.Protocols, true, time.Now()
		g.call()
	}})
	if err != nil || res.ErrorCode != 0 {
		return res, err
	}
	err = x.a.ask(ctx, &call{kind: "joined", toLog: true, what: id,
		isReady: func() bool { m := g.members[id]; return m == nil || !m.joins || g.isReady() },
		apply: func(view) {
			if m := g.members[id]; m != nil && m.joins {
				g.begin()
			}
			all := slices.Sorted(maps.Keys(g.members))
			if g.touch(id) == nil {
				res.ErrorCode = int16(kafkago.UnknownMemberId)
				return
			}
			res.GenerationID, res.MemberID, res.LeaderID = g.generation, id, all[0]
			res.ProtocolName = r.Protocols[0].Name
			if id == all[0] {
				for _, id := range all {
					res.Members = append(res.Members, joingroup.ResponseMember{MemberID: id,
						Metadata: g.members[id].metadata[0].Metadata})
				}
			}
		}})
	return res, err
}

func (x carrier) sync(ctx context.Context, r *syncgroup.Request) (*syncgroup.Response, error) {
	g, res := x.a.b.log.group, &syncgroup.Response{}
	what := fmt.Sprintf("%s of generation %d", r.MemberID, r.GenerationID)
	if len(r.Assignments) > 0 {
		err := x.a.ask(ctx, &call{kind: "share", toLog: true, what: what, isWrite: true, apply: func(view) {
			if g.refuses(r.MemberID, r.GenerationID) == 0 && g.shares == nil {
				g.shares = map[string][]byte{}
				for _, s := range r.Assignments {
					g.shares[s.MemberID] = s.Assignment
				}
			}
		}})
		if err != nil {
			return res, err
		}
	}
	return res, x.a.ask(ctx, &call{kind: "sync", toLog: true, what: what,
		isReady: func() bool { return g.shares != nil || !g.since.IsZero() || g.generation != r.GenerationID },
		apply: func(view) {
			why := g.refuses(r.MemberID, r.GenerationID)
			if why == 0 && g.shares == nil {
				why = kafkago.RebalanceInProgress
			}
			if res.ErrorCode = int16(why); why == 0 {
				res.Assignments = g.shares[r.MemberID]
			}
		}})
}

func (x carrier) beat(ctx context.Context, r *heartbeat.Request) (*heartbeat.Response, error) {
	g, res := x.a.b.log.group, &heartbeat.Response{}
	return res, x.a.ask(ctx, &call{kind: "heartbeat", toLog: true, what: r.MemberID, apply: func(view) {
		why := g.refuses(r.MemberID, r.GenerationID)
		if why == 0 && !g.since.IsZero() {
			why = kafkago.RebalanceInProgress
		}
		res.ErrorCode = int16(why)
	}})
}

func (x carrier) leave(ctx context.Context, r *leavegroup.Request) (*leavegroup.Response, error) {
	return &leavegroup.Response{}, x.a.ask(ctx, &call{kind: "leave", toLog: true, what: r.MemberID, isWrite: true,
		apply: func(view) { x.a.b.log.group.leave(r.MemberID) }})
}

// versions are those of the requests that a member sends.
func versions() *apiversions.Response {
	res := &apiversions.Response{}
	for key, v := range map[protocol.ApiKey]int16{protocol.JoinGroup: 1, protocol.Metadata: 6} {
		res.ApiKeys = append(res.ApiKeys, apiversions.ApiKeyResponse{ApiKey: int16(key), MaxVersion: v})
	}
	return res
}

// line is the connection of a member to its group. Bytes that were written are a request once the answer is read.
type line struct {
	net.Conn // nil: a member does nothing else
	of       carrier
	ctx      context.Context
	hangUp   context.CancelFunc
	exchange *exchange
	deadline time.Time
}

// dial returns a connection to the log.
func (x carrier) dial(context.Context, string, string) (net.Conn, error) {
	ctx, hangUp := context.WithCancel(context.Background())
	return &line{of: x, ctx: ctx, hangUp: hangUp}, nil
}

// Write implements net.Conn.
func (l *line) Write(p []byte) (int, error) {
	if l.exchange == nil || l.exchange.answer != nil {
		l.exchange = &exchange{of: l.of}
	}
	return l.exchange.Write(p)
}

// Read implements net.Conn.
func (l *line) Read(p []byte) (int, error) {
	ctx, end := context.WithDeadline(l.ctx, cmp.Or(l.deadline, time.Now().Add(time.Minute)))
	defer end()
	l.exchange.ctx = ctx
	return l.exchange.Read(p)
}

// Close implements net.Conn.
func (l *line) Close() error {
	l.hangUp()
	return nil
}

// SetReadDeadline implements net.Conn.
func (l *line) SetReadDeadline(t time.Time) error {
	l.deadline = t
	return nil
}

// SetWriteDeadline implements net.Conn.
func (l *line) SetWriteDeadline(time.Time) error { return nil }

// answerGroup answers a request of a member, nil for a request that is none.
func (x carrier) answerGroup(ctx context.Context, msg protocol.Message) (protocol.Message, error) {
	switch r := msg.(type) {
	case *apiversions.Request:
		return versions(), nil
	case *findcoordinator.Request:
		return &findcoordinator.Response{NodeID: 1, Host: "box", Port: 9092}, nil
	case *joingroup.Request:
		return x.join(ctx, r)
	case *syncgroup.Request:
		return x.sync(ctx, r)
	case *heartbeat.Request:
		return x.beat(ctx, r)
	case *leavegroup.Request:
		return x.leave(ctx, r)
	}
	return nil, errNotSupported
}

// comesBack is why faults of partitions that come back to a process are missed.
const comesBack = "none of 25 runs found it in which a partition comes back to a process that has its bins"

// plantedGroups are faults that show when a partition goes to another member, and comes back.
var plantedGroups = []planted{
	{name: "W7 a member commits without its generation", with: grouped, file: "ingest/groupconns.go",
		old: "Group: t.group, Generation: t.id,", new: "Group: t.group, Generation: kafka.NoGeneration,"},
	{name: "W8 rows that others have stored stay", with: grouped, file: "ingest/worker/worker.go",
		old: "w.bins.Index.Below(a.Position)", new: "w.bins.Index.Below(0)",
		missed: "the next lookup drops them; TestResumeDropsStaleRows finds it"},
	{name: "W8 tails are not looked up again", with: grouped, file: "ingest/worker/worker.go",
		old: "\tw.bins.Generation++\n", new: "",
		missed: "the next create meets the other owner's chunk, and rule W6 takes its tail: it costs a refused create"},
	{name: "R1 a partition that comes back is caught up at once", with: grouped, file: "ingest/takeover.go",
		old: "\t\tp.settle(t.read, commit)\n\t\tp.worker.Resume", new: "\t\tp.worker.Resume",
		missed: comesBack},
	{name: "R8 what others have stored is explained", with: string(unasked) + "," + grouped,
		file: "ingest/worker/worker.go",
		old:  "\tw.bins.Stored.Unexplained()\n", new: "",
		missed: comesBack},
	{name: "J8 a partition that comes back takes no times", with: string(journaled) + "," + grouped,
		file: "ingest/takeover.go",
		old:  "if err := p.loadTimes(ctx, commit.Metadata); err != nil {", new: "if err := ctx.Err(); err != nil {",
		missed: comesBack},
}
