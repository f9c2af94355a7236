package engine

import (
	"sync"

	"github.com/valyala/fastjson"

	"binnacle/internal/lab/emulator/schema"
)

// document is an item on its way through a request, with the buffers that it needs there. It is reused
// from request to request.
type document struct {
	schema.Item
	// keys parses the partition key in the request.
	keys fastjson.Parser

	// tail is where in JSON, at a comma, the members begin that patches have added; 0: nowhere.
	tail int

	names, weightName, logName, head, value []byte
}

var documents = sync.Pool{New: func() any { return new(document) }}
