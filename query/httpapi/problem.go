package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/tenant/access"
	"binnacle/internal/text/duration"
	"binnacle/query"
)

// problem is an error as the client sees it (RFC 9457). Parameter names what of the request is wrong, if that is known.
type problem struct {
	Status    int
	Detail    string
	Parameter string
	challenge string // value of WWW-Authenticate
	retry     time.Duration
}

func writeProblem(w http.ResponseWriter, p problem) {
	body, err := json.Marshal(struct {
		Type      string `json:"type"`
		Title     string `json:"title"`
		Status    int    `json:"status"`
		Detail    string `json:"detail"`
		Parameter string `json:"parameter,omitempty"`
	}{"about:blank", http.StatusText(p.Status), p.Status, p.Detail, p.Parameter})
	if err != nil {
		panic(err) // strings and an int always encode
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if p.challenge != "" {
		h.Set("WWW-Authenticate", p.challenge)
	}
	if p.Status == http.StatusServiceUnavailable || p.Status == http.StatusGatewayTimeout {
		p.retry = time.Second
	}
	if p.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(int(p.retry.Seconds())))
	}
	w.WriteHeader(p.Status)
	// An error of Write means that the client has gone; net/http notices that too.
	_, _ = w.Write(append(body, '\n'))
}

// Refuse answers a request of an operator with an error, as the API does.
func Refuse(w http.ResponseWriter, status int, detail string) {
	writeProblem(w, problem{Status: status, Detail: detail})
}

// LogFailure logs why a request has failed: as an error where the service is at fault, as a warning where the store or
// the load is. It does not log mistakes of the caller.
func LogFailure(log *slog.Logger, status int, err error) {
	var notYet *query.NotYetError // mostly names records that were never published
	var late *query.TimeoutError  // package query logs a store that does not answer
	switch {
	case errors.As(err, &notYet) || errors.As(err, &late):
	case status == http.StatusInternalServerError:
		log.Error("query failed", "error", err)
	case status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout:
		log.Warn("query failed", "error", err)
	}
}

// errOldProtocol refuses what HTTP/1.0 can't carry: an answer there ends with its connection, so one that broke off
// looks whole; and it has no trailers to say that it is incomplete.
var errOldProtocol = errors.New("all formats but json need HTTP/1.1: " +
	"over HTTP/1.0 an answer that broke off looks whole; ask for format=json, or let the proxy speak " +
	"HTTP/1.1")

// StatusOf returns the status and the text that a client gets for an error.
func StatusOf(err error) (status int, detail string) {
	p := problemOf(err)
	return p.Status, p.Detail
}

// problemOf returns the problem that a client gets for an error. Errors of the store are not shown: they may name what
// is not the client's.
func problemOf(err error) *problem {
	var param *parameterError
	var limit *query.LimitError
	var denied *access.Denied
	var late *query.NotYetError
	var unknown *query.UnknownPartitionError
	var timeout *query.TimeoutError
	var quota *query.QuotaError
	var unmet *annotationError
	var damaged *store.DamagedError
	switch {
	case errors.As(err, &unmet):
		return &problem{Status: unmet.status, Detail: unmet.detail}
	case errors.As(err, &late):
		return &problem{Status: http.StatusGatewayTimeout, Detail: late.Error(), Parameter: AfterHeader}
	case errors.As(err, &unknown):
		return &problem{Status: http.StatusBadRequest, Detail: unknown.Error(), Parameter: AfterHeader}
	case errors.As(err, &denied):
		return &problem{Status: denied.Status, Detail: denied.Detail, Parameter: denied.Header, challenge: denied.Challenge}
	case errors.As(err, &param):
		return &problem{Status: http.StatusBadRequest, Detail: param.Error(), Parameter: param.name}
	case errors.As(err, &limit):
		return &problem{Status: http.StatusUnprocessableEntity, Detail: limit.Error()}
	case errors.As(err, &quota):
		return &problem{Status: http.StatusTooManyRequests, Detail: quota.Error(), retry: quota.RetryAfter}
	case errors.As(err, &timeout) && timeout.Read != "":
		return &problem{Status: http.StatusGatewayTimeout,
			Detail: fmt.Sprintf("the store has not answered within %s%s; try again", duration.String(timeout.After),
				query.FailureOf(err))}
	case errors.As(err, &timeout):
		return &problem{Status: http.StatusGatewayTimeout, Detail: fmt.Sprintf("the query takes longer than %s; ask for "+
			"less, or for more time: timeout, up to --query-timeout", duration.String(timeout.After))}
	case errors.Is(err, errOldProtocol):
		return &problem{Status: http.StatusHTTPVersionNotSupported, Detail: err.Error()}
	case errors.Is(err, query.ErrBusy):
		return &problem{Status: http.StatusServiceUnavailable, Detail: "too many queries are running or waiting; try again"}
	case errors.Is(err, query.ErrUnavailable):
		return &problem{Status: http.StatusServiceUnavailable,
			Detail: fmt.Sprintf("the store can't be read now%s; try again", query.FailureOf(err))}
	case errors.As(err, &damaged):
		return &problem{Status: http.StatusInternalServerError, Detail: fmt.Sprintf("the %s document %q, which the tenant's "+
			"answers depend on, is damaged: the operator has to mend it", damaged.Kind, damaged.ID)}
	case errors.Is(err, chunk.ErrCorrupt):
		return &problem{Status: http.StatusInternalServerError,
			Detail: "a stored chunk in this range can't be read; the service's log names it"}
	}
	return &problem{Status: http.StatusInternalServerError, Detail: "the query failed; the service's log says why"}
}

// bodyTime is how long a client may take to send the body of a request.
const bodyTime = 30 * time.Second

// LimitBodyTime gives the client of a POST time to send its body; reading it fails when that is over. A client that
// sends a byte now and then would otherwise hold a connection, and the memory of its body, for ever.
func LimitBodyTime(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.Body == nil {
		return
	}
	connection := http.NewResponseController(w)
	// What can't have a deadline is no connection.
	_ = connection.SetReadDeadline(time.Now().Add(bodyTime))
	r.Body = timedBody{r.Body, connection}
}

// timedBody is a body for which time runs until it has been read.
type timedBody struct {
	io.ReadCloser
	connection *http.ResponseController
}

// Read implements io.Reader.
func (b timedBody) Read(p []byte) (n int, err error) {
	if n, err = b.ReadCloser.Read(p); err != nil {
		_ = b.connection.SetReadDeadline(time.Time{}) // the answer may take longer, and a client that leaves be noticed
	}
	return n, err
}
