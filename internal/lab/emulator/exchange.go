package emulator

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator/fault"
	"binnacle/internal/lab/emulator/jsonvalue"
	"binnacle/internal/lab/emulator/refusal"
)

// exchange is one request being served.
type exchange struct {
	*Server
	request *http.Request
	route   route
	now     time.Time

	advertise string // endpoint that the account document names; "": the one that the client has used
}

// reply is a successful answer.
type reply struct {
	status int
	body   []byte
	charge float64
	etag   string
	// rid is the container's resource id; "" without a container.
	rid string
	// path is the path by names, with rid.
	path string
	// rangeID is the physical partition that served the request; "" for metadata and fan-outs.
	rangeID string
	// lsn is the partition's sequence number for the session token; 0 for none.
	lsn uint64
	// itemLSN is the sequence number of an item's last write; 0 for none.
	itemLSN uint64
	// gateway marks an answer of the gateway: without a charge, or anything that partitions say.
	gateway      bool
	continuation string
	// items counts a feed's items; -1 for all else.
	items  int
	header http.Header
}

// ServeHTTP serves one request of the REST protocol.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.answer(w, r, s.cfg.Advertise) }

// answer serves one request through a gateway that advertises an endpoint, or what the client has used.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, advertise string) {
	if s.enter() != nil {
		writeRefusal(w, r, refusal.Unavailable("the emulator is closed"))
		return
	}
	defer s.closing.RUnlock()
	switch r.URL.Path {
	case overviewPath:
		s.serveOverview(w, r)
		return
	case faultsPath:
		s.serveFaults(w, r)
		return
	case chargesPath:
		s.serveCharges(w, r)
		return
	case capacityPath:
		s.serveCapacity(w, r)
		return
	}
	rep, err := s.serve(r, advertise)
	switch {
	case errors.Is(err, errDropped):
		drop(w)
	case err != nil:
		s.date(w)
		writeRefusal(w, r, refusal.Of(err))
	default:
		s.date(w)
		writeReply(w, r, rep)
	}
}

// date sets the Date header to the time of the clock that stamps documents.
func (s *Server) date(w http.ResponseWriter) {
	w.Header()["Date"] = []string{s.cfg.Now().UTC().Format(http.TimeFormat)}
}

func (s *Server) serve(r *http.Request, advertise string) (reply, error) {
	rt, err := parseRoute(r.URL)
	if err != nil {
		return reply{}, err
	}
	rt = s.named(rt)
	if err := s.signer.check(r, rt); err != nil {
		return reply{}, err
	}
	if err := s.checkOptions(r.Header); err != nil {
		return reply{}, err
	}
	serve, err := rt.handler(r.Method, r.Header)
	if err != nil {
		return reply{}, err
	}
	x := exchange{Server: s, request: r, route: rt, now: s.cfg.Now(), advertise: advertise}
	return x.attempt(serve)
}

// attempt serves the request, unless a fault hits it.
func (x *exchange) attempt(serve handler) (reply, error) {
	if x.faults.On() {
		q := fault.Request{Operation: x.operation(), Database: x.route.database, Container: x.route.container}
		if e, hit := x.faults.Match(q); hit {
			return x.fail(e, serve)
		}
	}
	return x.do(serve)
}

func (x *exchange) do(serve handler) (rep reply, err error) {
	defer func() { x.countCharge(rep, err) }()
	x.account.Complete(x.now)
	switch {
	case x.route.metadata():
		return x.serveMetadata(serve)
	case x.route.rid != "":
		if err := x.findItem(); err != nil {
			return reply{}, err
		}
	}
	return serve(x)
}

// readBody reads the whole body into buf, which grows as needed.
func (x *exchange) readBody(buf []byte) ([]byte, error) {
	const most = 2<<20 + 4096 // an item of the largest size passes
	large := func() error { return refusal.TooLarge("the request is larger than %d bytes", most) }
	if x.request.Body == nil {
		return nil, nil
	}
	n := x.request.ContentLength
	if n > int64(most) {
		return nil, large()
	}
	var err error
	if n >= 0 {
		buf = slices.Grow(buf[:0], int(n))[:n]
		_, err = io.ReadFull(x.request.Body, buf)
	} else {
		buf, err = io.ReadAll(io.LimitReader(x.request.Body, int64(most)+1))
	}
	if err != nil {
		return nil, refusal.BadRequest("the body cannot be read: %v", err)
	}
	if len(buf) > most {
		return nil, large()
	}
	return buf, nil
}

// minimal reports that the client does not want a written item back.
func (x *exchange) minimal() bool { return x.request.Header.Get("Prefer") == "return=minimal" }

// header names as net/http stores them, so that setting them costs no canonicalisation.
const (
	hCharge       = "X-Ms-Request-Charge"
	hActivity     = "X-Ms-Activity-Id"
	hSession      = "X-Ms-Session-Token"
	hSubstatus    = "X-Ms-Substatus"
	hRetryAfter   = "X-Ms-Retry-After-Ms"
	hContinuation = "X-Ms-Continuation"
	hItemCount    = "X-Ms-Item-Count"
	hRange        = "X-Ms-Documentdb-Partitionkeyrangeid"
	hLSN          = "Lsn"
	hItemLSN      = "X-Ms-Item-Lsn"
	hContent      = "X-Ms-Content-Path"
	hAltContent   = "X-Ms-Alt-Content-Path"
)

func writeReply(w http.ResponseWriter, r *http.Request, rep reply) {
	h := w.Header()
	common(h, r)
	if rep.gateway {
		delete(h, hActivity)
	} else {
		charged(h, rep.charge)
	}
	maps.Copy(h, rep.header)
	if rep.etag != "" {
		h["Etag"] = []string{rep.etag}
	}
	if rep.rangeID != "" {
		h[hRange] = []string{rep.rangeID}
	}
	if rep.rangeID != "" || rep.lsn > 0 {
		position(h, rep.rangeID, rep.lsn)
	}
	if rep.itemLSN > 0 {
		h[hItemLSN] = []string{strconv.FormatUint(rep.itemLSN, 10)}
	}
	if rep.rid != "" {
		h[hContent] = []string{rep.rid}
		h[hAltContent] = []string{rep.path}
	}
	if rep.continuation != "" {
		h[hContinuation] = []string{rep.continuation}
	}
	if rep.items >= 0 {
		h[hItemCount] = []string{strconv.Itoa(rep.items)}
	}
	send(w, rep.status, rep.body)
}

func writeRefusal(w http.ResponseWriter, r *http.Request, f *refusal.Error) {
	h := w.Header()
	common(h, r)
	if f.Range != "" || f.Account {
		charged(h, f.Charge)
	}
	if f.Validation {
		h["X-Ms-Request-Validation-Failure"] = []string{"1"}
	}
	if f.Substatus != 0 {
		h[hSubstatus] = []string{strconv.Itoa(f.Substatus)}
	}
	if f.RetryAfter > 0 {
		ms := (f.RetryAfter + time.Millisecond - 1) / time.Millisecond
		h[hRetryAfter] = []string{strconv.FormatInt(int64(ms), 10)}
	}
	if f.Range != "" {
		h[hRange] = []string{f.Range}
		position(h, f.Range, f.LSN)
	}
	body := append(jsonvalue.AppendString([]byte(`{"code":`), []byte(f.Code())), `,"message":`...)
	body = jsonvalue.AppendString(body, []byte(message(f, h.Get(hActivity))))
	if f.Info != "" {
		body = jsonvalue.AppendString(append(body, `,"additionalErrorInfo":`...), []byte(f.Info))
	}
	send(w, f.Status, append(body, '}'))
}

// message returns what a refusal says, in the form of the service: of a query by fault, then its source.
func message(f *refusal.Error, activity string) string {
	text := f.Message
	if f.Query != nil {
		type location struct {
			Start int `json:"start"`
			End   int `json:"end"`
		}
		type fault struct {
			Severity string   `json:"severity"`
			Location location `json:"location"`
			Code     string   `json:"code"`
			Message  string   `json:"message"`
		}
		q := f.Query
		faults, err := json.Marshal(map[string][]fault{
			"errors": {{"Error", location{q.Start, q.End}, cmp.Or(q.Code, "SC1001"), q.Error()}},
		})
		if err != nil {
			panic("emulator: encode a refusal: " + err.Error()) // strings and numbers
		}
		text = "Message: " + string(faults)
	}
	return text + "\r\nActivityId: " + activity + ", Microsoft.Azure.Documents.Common/2.14.0"
}

// position says up to where the partition has counted its writes.
func position(h http.Header, rangeID string, last uint64) {
	lsn := strconv.FormatUint(last, 10)
	h[hSession] = []string{cmp.Or(rangeID, "0") + ":-1#" + lsn}
	h[hLSN] = []string{lsn}
}

// charged names the charge. Whatever has one was answered by a partition.
func charged(h http.Header, rus float64) {
	h[hCharge] = []string{strconv.FormatFloat(ru.Shown(rus), 'f', -1, 64)}
	h["X-Ms-Serviceversion"] = []string{"version=2.14.0.0"}
}

func common(h http.Header, r *http.Request) {
	activity := r.Header[hActivity]
	if len(activity) == 0 {
		activity = []string{newActivity()}
	}
	h[hActivity] = activity
	h["Content-Type"] = []string{"application/json"}
	h["X-Ms-Gatewayversion"] = []string{"version=2.14.0"}
}

// send writes the answer. An answer without a body has no Content-Type.
func send(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	if len(body) == 0 {
		delete(h, "Content-Type")
	}
	if status != http.StatusNoContent && status != http.StatusNotModified {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	m, ok := w.(*memoryWriter)
	if !ok {
		lower(h)
	}
	w.WriteHeader(status)
	if ok {
		m.body = body
		return
	}
	if len(body) > 0 {
		_, _ = w.Write(body) // the client has gone: nothing is left to tell it
	}
}

// lower writes the names of headers as the service does: some clients keep them in maps that mind the case.
func lower(h http.Header) {
	for name, v := range h {
		if name == "Etag" || name == hLSN || strings.HasPrefix(name, "X-Ms-") {
			delete(h, name)
			h[strings.ToLower(name)] = v
		}
	}
}

func newActivity() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails: crypto/rand
	return fmt.Sprintf("%x-%x-%x-%x-%x", raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:])
}
