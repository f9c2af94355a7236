package index

import (
	"cmp"
	"regexp"
	"strings"

	"binnacle/internal/lab/emulator/sql"
)

// AnyElement is the step into every element of an array.
const AnyElement = "[]"

// stepPattern is one step of a path, which may be quoted.
var stepPattern = regexp.MustCompile(`/(?:"([^"]+)"|'([^']+)'|([^/"'][^/]*))`)

// SplitPath cuts a path of a policy or a partition key at its slashes; a step may be quoted.
func SplitPath(text string) (steps []string, ok bool) {
	for _, m := range stepPattern.FindAllStringSubmatch(text, -1) {
		step, whole := cmp.Or(m[1], m[2], m[3]), m[0]
		if text, ok = strings.CutPrefix(text, whole); !ok {
			return nil, false
		}
		steps = append(steps, step)
	}
	return steps, text == ""
}

// Steps returns a path of a query as the indexing policy names it.
func Steps(p sql.Path) []string {
	out := make([]string, len(p))
	for i, s := range p {
		out[i] = s.Name
		if s.Element {
			out[i] = AnyElement
		}
	}
	return out
}
