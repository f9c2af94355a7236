package httpapi

import (
	"bufio"
	"net/http"
	"sync"
	"time"

	"binnacle/internal/store"
	"binnacle/query"
)

// holdBack is how much of an answer waits before it is sent, so that an error up to then is still a clear one.
const holdBack = 64 << 10

// response is an answer that is being written. Nothing is sent before the first holdBack bytes, or finish.
type response struct {
	client  http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	buf     *bufio.Writer // over sender
	spent   *store.Meter  // counts the cost of the answer; nil: it costs nothing
	sent    bool
	unsent  bool  // only an error of it is sent, for which it is never too late
	broken  error // why the client can't be written to
}

func newResponse(w http.ResponseWriter, timeout time.Duration) *response {
	r := &response{client: w, control: http.NewResponseController(w), timeout: timeout}
	r.buf = buffers.Get().(*bufio.Writer)
	r.buf.Reset(sender{r})
	r.allow()
	return r
}

// buffers are buffers of responses that have ended, for later ones.
var buffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, holdBack) }}

func (w *response) release() {
	w.buf.Reset(nil)
	buffers.Put(w.buf)
}

// allow gives the client time to take what is written next. A client that takes nothing would keep its query, with its
// turn and its memory, for ever.
func (w *response) allow() {
	// What can't have a deadline is no connection.
	_ = w.control.SetWriteDeadline(time.Now().Add(w.timeout))
}

// sender notes that something was sent.
type sender struct{ *response }

func (s sender) Write(b []byte) (int, error) {
	s.sent = !s.unsent
	s.allow()
	n, err := s.client.Write(b)
	if err != nil {
		s.broken = err
	}
	return n, err
}

// Write buffers b.
func (w *response) Write(b []byte) (int, error) { return w.buf.Write(b) }

// begin sets the type of the answer, and the names of the trailers that will follow it.
func (w *response) begin(contentType string, trailers ...string) {
	h := w.client.Header()
	h.Set("Content-Type", contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	for _, t := range trailers {
		h.Add("Trailer", t)
	}
}

// beginJSON begins an answer in JSON. It is done where a parameter is wrong, and where only the header is asked for.
func (w *response) beginJSON(p *params) (done bool, err error) {
	if p.err != nil {
		return true, p.err
	}
	w.begin("application/json")
	return p.request.Method == http.MethodHead, nil
}

// trailer sets the value of a trailer. It goes out behind the body, whether the body was sent already or not.
func (w *response) trailer(name, value string) { w.client.Header().Set(http.TrailerPrefix+name, value) }

// finish sends the rest of the answer with its cost, in a header or, once the body has begun, in a trailer.
func (w *response) finish() error {
	if w.sent {
		w.trailer(query.SpentHeader, query.Spent(w.spent))
	}
	w.showSpent()
	w.allow() // also for what net/http still holds, and the trailers
	return w.buf.Flush()
}

// showSpent sets the header with the cost of the answer so far, unless it is too late for headers.
func (w *response) showSpent() {
	if w.spent != nil && !w.sent {
		w.client.Header().Set(query.SpentHeader, query.Spent(w.spent))
	}
}

// fail answers with a problem. If a part of the answer is out already it breaks the connection off instead, so that
// the client sees a transfer that failed and does not take the part for the whole.
func (w *response) fail(p problem) {
	if w.sent {
		panic(http.ErrAbortHandler)
	}
	w.client.Header().Del("Trailer")
	w.showSpent()
	w.allow()
	writeProblem(w.client, p)
}
