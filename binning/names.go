package binning

// Names gives the metrics of many Rows numbers, so that each name is in memory once. One goroutine owns it; what Rows
// have of it may be read by others.
type Names struct {
	list  []string // never changed, only appended to
	index map[string]uint32
	bytes int
}

// NewNames makes Names without one.
func NewNames() *Names { return &Names{index: map[string]uint32{}} }

// nameBytes is the memory of a name without its characters: in the list and in the index, both about half full.
const nameBytes = 96

func (n *Names) number(metric string) uint32 {
	i, ok := n.index[metric]
	if !ok {
		i = uint32(len(n.list))
		n.list = append(n.list, metric)
		n.index[metric] = i
		n.bytes += nameBytes + allocated(len(metric))
	}
	return i
}

// Bytes returns about how much memory the names take.
func (n *Names) Bytes() int { return n.bytes }

// allocated returns about how much memory the runtime takes for n bytes: its sizes are an eighth apart.
func allocated(n int) int {
	if n <= 128 {
		return (n + 15) &^ 15
	}
	return n + n/16
}
