package emulator

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"binnacle/internal/lab/emulator/fault"
	"binnacle/internal/lab/emulator/refusal"
	"binnacle/internal/wire/jsonbody"
)

// Faults returns the rules by which the Server fails on purpose; there are none at first. They may be changed at any
// time. Close removes them.
func (s *Server) Faults() *fault.Set { return &s.faults }

// errDropped ends a connection without an answer.
var errDropped = errors.New("the connection was dropped on purpose")

// drop ends the connection without an answer.
func drop(w http.ResponseWriter) {
	if m, ok := w.(*memoryWriter); ok {
		m.dropped = true
		return
	}
	panic(http.ErrAbortHandler) // net/http takes this for the wish to close the connection
}

// fail serves a request to which a rule does something.
func (x *exchange) fail(e fault.Effect, serve handler) (rep reply, err error) {
	// net/http notices that a client has gone only once the body has been read.
	body, err := x.readBody(nil)
	if err != nil {
		return reply{}, err
	}
	x.request = x.request.WithContext(x.request.Context()) // a copy: the client's own may be used again
	x.request.Body = io.NopCloser(bytes.NewReader(body))
	if e.Applied {
		rep, err = x.do(serve)
	}
	gone := x.request.Context().Done()
	if e.Latency > 0 {
		late := time.NewTimer(e.Latency)
		defer late.Stop()
		select {
		case <-late.C:
		case <-e.Changed:
		case <-gone:
		}
	}
	if e.Hang {
		select {
		case <-e.Changed:
		case <-gone:
		}
	}
	switch {
	case e.Drop || e.Hang || x.request.Context().Err() != nil:
		return reply{}, errDropped
	case e.Status != 0:
		return reply{}, &refusal.Error{
			Status: e.Status, Substatus: e.Substatus, RetryAfter: time.Duration(e.RetryAfterMs) * time.Millisecond,
			Message: "the emulator fails on purpose, by its rule " + e.Name,
		}
	case e.Applied:
		return rep, err
	}
	x.now = x.cfg.Now()
	return x.do(serve)
}

func (x *exchange) operation() string {
	h := x.request.Header
	if x.route.kind != "docs" {
		return fault.Metadata
	}
	switch x.request.Method {
	case http.MethodPut:
		return fault.Replace
	case http.MethodPatch:
		return fault.Patch
	case http.MethodDelete:
		return fault.Delete
	case http.MethodGet:
		switch {
		case !x.route.feed:
			return fault.Read
		case h.Get("A-Im") != "":
			return fault.Changes
		}
		return fault.Query
	}
	switch {
	case isQuery(h):
		return fault.Query
	case isTrue(h.Get(hBatch)):
		return fault.Batch
	case isTrue(h.Get(hUpsert)):
		return fault.Upsert
	}
	return fault.Create
}

// faultsPath is where clients on the same machine set rules, if Config.Faults lets them.
const faultsPath = overviewPath + "/faults"

// maxFaultsBytes bounds the body of a request that sets rules.
const maxFaultsBytes = 1 << 20

// serveFaults shows, sets or removes the rules.
func (s *Server) serveFaults(w http.ResponseWriter, r *http.Request) {
	switch {
	case !local(r.RemoteAddr):
		http.Error(w, "faults are set by clients on the machine of the emulator", http.StatusForbidden)
	case !s.cfg.Faults:
		http.Error(w, "faults are off: start the emulator with --faults", http.StatusForbidden)
	case r.Method == http.MethodGet:
		writeJSON(w, s.faults.State())
	case r.Method == http.MethodPut:
		if err := s.putFaults(r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		writeJSON(w, s.faults.State())
	case r.Method == http.MethodDelete:
		s.faults.Clear()
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Allow", "GET, PUT, DELETE")
		http.Error(w, "faults are read with GET, set with PUT, removed with DELETE", http.StatusMethodNotAllowed)
	}
}

func (s *Server) putFaults(r *http.Request) error {
	in := struct {
		Seed  uint64       `json:"seed"`
		Rules []fault.Rule `json:"rules"`
	}{Seed: rand.Uint64N(1 << 53)} // a number that every JSON reader keeps
	if r.Body == nil {
		r.Body = http.NoBody
	}
	if err := jsonbody.Read(io.LimitReader(r.Body, maxFaultsBytes), &in); err != nil {
		return errors.New("the body is not an object with rules and perhaps a seed: " + err.Error())
	}
	return s.faults.Replace(in.Seed, in.Rules...)
}
