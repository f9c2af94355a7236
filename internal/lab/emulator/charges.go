package emulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator/refusal"
)

// chargesPath is what the account has charged by month, as Azure Monitor's metric TotalRequestUnits is for an account.
const chargesPath = "/_emulator/charges"

// chargesFile has them in the directory of the data.
const chargesFile = "charges.json"

// Charges is the request units that were charged, modelled: by month, such as 2026-11, and by container. Requests that
// are about no container, and its metadata, are under "".
type Charges struct {
	Months map[string]map[string]float64 `json:"months"`
	Recent []RecentCharge                `json:"recent,omitempty"` // part of Months, the oldest first
}

// RecentCharge is the request units that were charged in a tenth of a second.
type RecentCharge struct {
	At  int64   `json:"at"` // its begin, ms since 1970
	RUs float64 `json:"rus"`
}

// How long recent charges are kept, and the time that one covers, in ms.
const (
	recentFor  = 150_000
	recentStep = 100
)

// chargeCount counts what is charged. It is safe for concurrent use.
type chargeCount struct {
	// path is the file's path; "" without a file.
	path string

	mu      sync.Mutex
	charges Charges // guarded by mu
	dirty   bool    // guarded by mu: not in the file yet
}

// openCharges reads the counts in a directory; "": it starts from zero, without a file.
func openCharges(dir string) (*chargeCount, error) {
	c := &chargeCount{charges: Charges{Months: map[string]map[string]float64{}}}
	if dir == "" {
		return c, nil
	}
	c.path = filepath.Join(dir, chargesFile)
	raw, err := os.ReadFile(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &c.charges)
	}
	if err != nil {
		return nil, fmt.Errorf("emulator: charges of earlier runs: %w", err)
	}
	if c.charges.Months == nil {
		c.charges.Months = map[string]map[string]float64{}
	}
	return c, nil
}

func (x *exchange) countCharge(rep reply, err error) {
	rus := rep.charge
	if err != nil {
		f := refusal.Of(err)
		rus = f.Charge
		if f.Range == "" && !f.Account {
			return
		}
	}
	if rus = ru.Shown(rus); rus == 0 || rep.gateway {
		return
	}
	x.charges.add(x.now.UTC(), x.route.container, rus)
}

func (c *chargeCount) add(now time.Time, container string, rus float64) {
	month := now.Format("2006-01")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addRecent(now.UnixMilli(), rus)
	of := c.charges.Months[month]
	if of == nil {
		of = map[string]float64{}
		c.charges.Months[month] = of
	}
	of[container] += rus
	c.dirty = true
}

// addRecent counts a charge among the recent ones. mu is held.
func (c *chargeCount) addRecent(now int64, rus float64) {
	all, at := c.charges.Recent, now-now%recentStep
	if n := len(all); n > 0 && all[n-1].At >= at {
		all[n-1].RUs += rus
		return
	}
	for len(all) > 0 && all[0].At < at-recentFor {
		all = all[1:]
	}
	c.charges.Recent = append(all, RecentCharge{at, rus})
}

// rounded returns a copy of the counts, in hundredths as charges are. mu is held.
func (c *chargeCount) rounded() Charges {
	out := Charges{map[string]map[string]float64{}, slices.Clone(c.charges.Recent)}
	for month, of := range c.charges.Months {
		out.Months[month] = make(map[string]float64, len(of))
		for name, rus := range of {
			out.Months[month][name] = math.Round(rus*100) / 100
		}
	}
	return out
}

// save writes the counts to the file. Those of the seconds before a kill are lost.
func (c *chargeCount) save() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dirty || c.path == "" {
		return nil
	}
	raw, err := json.Marshal(c.rounded())
	if err == nil {
		err = os.WriteFile(c.path+".new", raw, 0o600)
	}
	if err == nil {
		err = os.Rename(c.path+".new", c.path)
	}
	if err != nil {
		return fmt.Errorf("emulator: save charges: %w", err)
	}
	c.dirty = false
	return nil
}

// serveCharges serves the counts. Like the overview, they are for those on the same machine.
func (s *Server) serveCharges(w http.ResponseWriter, r *http.Request) {
	if !local(r.RemoteAddr) {
		http.Error(w, "charges are for clients on the machine of the emulator: read them there", http.StatusForbidden)
		return
	}
	s.charges.mu.Lock()
	counts := s.charges.rounded()
	s.charges.mu.Unlock()
	writeJSON(w, counts)
}
