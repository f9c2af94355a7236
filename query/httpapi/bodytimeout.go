package httpapi

import (
	"io"
	"net/http"
	"time"
)

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
