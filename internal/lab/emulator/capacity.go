package emulator

import (
	"fmt"
	"io"
	"net/http"

	"binnacle/internal/lab/emulator/engine"
	"binnacle/internal/wire/jsonbody"
)

// capacityPath is where clients on the same machine read the mode of the account, and make a serverless one
// provisioned.
const capacityPath = overviewPath + "/capacity"

// capacityJSON is the mode of an account as it is read and set.
type capacityJSON struct {
	Mode string `json:"mode"`
}

// Capacity returns the mode of the account: provisioned or serverless.
func (s *Server) Capacity() string { return s.account.Capacity.Mode() }

// BecomeProvisioned changes a serverless account in place, for good: each container has manual throughput of 5,000 RU/s
// for each of its physical partitions from then on. On a provisioned account it does nothing.
func (s *Server) BecomeProvisioned() error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.closing.RUnlock()
	return s.account.Capacity.BecomeProvisioned(s.cfg.Now())
}

// serveCapacity shows the mode, or changes it.
func (s *Server) serveCapacity(w http.ResponseWriter, r *http.Request) {
	switch {
	case !local(r.RemoteAddr):
		http.Error(w, "the capacity mode is for clients on the machine of the emulator", http.StatusForbidden)
		return
	case r.Method == http.MethodPut:
		if err := s.putCapacity(r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", "GET, PUT")
		http.Error(w, "the capacity mode is read with GET, set with PUT", http.StatusMethodNotAllowed)
		return
	}
	writeJSON(w, capacityJSON{s.Capacity()})
}

func (s *Server) putCapacity(r *http.Request) error {
	var in capacityJSON
	if err := jsonbody.Read(io.LimitReader(r.Body, maxFaultsBytes), &in); err != nil {
		return fmt.Errorf("the body is not an object with a mode, provisioned or serverless: %w", err)
	}
	switch {
	case in.Mode == engine.Provisioned:
		return s.account.Capacity.BecomeProvisioned(s.cfg.Now())
	case in.Mode != s.Capacity() || in.Mode != engine.Serverless:
		return fmt.Errorf("the mode %q: a serverless account may become %s, and nothing else is allowed", in.Mode,
			engine.Provisioned)
	}
	return nil
}
