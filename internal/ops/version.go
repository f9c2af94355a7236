package ops

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"binnacle/binning/chunk"
	"binnacle/ingest/journal"
	"binnacle/internal/headhttp"
	"binnacle/internal/text/report"
)

// release is what a release was built as: go build -ldflags "-X binnacle/internal/ops.release=1.2.3".
var release = ""

// Version is what a binary is, and which formats and protocols it speaks.
type Version struct {
	Release  string         `json:"release"`            // "devel" unless it was built as a release
	Revision string         `json:"revision,omitempty"` // revision of the sources, as far as the build knows
	Go       string         `json:"go"`
	Platform string         `json:"platform"`
	Formats  map[string]int `json:"formats"` // the newest of each that it writes and reads; it reads all older ones
}

// ThisVersion returns the version of this binary.
func ThisVersion() Version {
	v := Version{
		Release: cmp.Or(release, "devel"), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Formats: map[string]int{"chunk": chunk.Version, "heads": headhttp.Version, "journal": journal.Version},
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			v.Revision = s.Value + v.Revision
		case s.Key == "vcs.modified" && s.Value == "true":
			v.Revision += "+changes"
		}
	}
	return v
}

// Print writes the version for people, or as JSON.
func (v Version) Print(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(v)
	}
	rows := [][]string{{"binnacle", v.Release}}
	if v.Revision != "" {
		rows = append(rows, []string{"revision", v.Revision})
	}
	return report.List(w, append(rows, []string{"go", v.Go}, []string{"platform", v.Platform},
		[]string{"chunk documents", fmt.Sprint("version ", v.Formats["chunk"])},
		[]string{"heads over HTTP", fmt.Sprint("version ", v.Formats["heads"])},
		[]string{"journal", fmt.Sprint("version ", v.Formats["journal"])}))
}
