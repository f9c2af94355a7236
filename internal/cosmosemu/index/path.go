package index

import (
	"strings"

	"binnacle/internal/cosmosemu/sql"
)

// AnyElement is the step into every element of an array.
const AnyElement = "[]"

// SplitPath cuts a path of a policy or a partition key at its slashes; a step may be quoted.
func SplitPath(text string) ([]string, bool) {
	var steps []string
	for text != "" {
		if text[0] != '/' {
			return nil, false
		}
		text = text[1:]
		var step string
		if strings.HasPrefix(text, `"`) || strings.HasPrefix(text, `'`) {
			end := strings.IndexByte(text[1:], text[0])
			if end < 0 {
				return nil, false
			}
			step, text = text[1:end+1], text[end+2:]
		} else {
			end := strings.IndexByte(text, '/')
			if end < 0 {
				end = len(text)
			}
			step, text = text[:end], text[end:]
		}
		if step == "" {
			return nil, false
		}
		steps = append(steps, step)
	}
	return steps, true
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
