package engine

import (
	"sync"

	"github.com/valyala/fastjson"

	"binnacle/internal/cosmosemu/schema"
)

// document is an item on its way through a request, with the buffers that it needs there. It is reused
// from request to request.
type document struct {
	schema.Item
	keys fastjson.Parser // of the partition key in the request

	names, weightName, bodyName, logName, head, value []byte
}

var documents = sync.Pool{New: func() any { return new(document) }}
