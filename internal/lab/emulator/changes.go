package emulator

import (
	"net/http"
	"strconv"
	"strings"

	"binnacle/internal/lab/emulator/engine"
	"binnacle/internal/lab/emulator/refusal"
)

// readChanges serves a page of the change feed in latest version mode.
func (x *exchange) readChanges(co *engine.Container) (reply, error) {
	h := x.request.Header
	if mode := h.Get("A-Im"); !strings.EqualFold(mode, "Incremental Feed") {
		return reply{}, refusal.Unsupported("the change feed mode %q", mode)
	}
	limit, err := x.pageRows()
	if err != nil {
		return reply{}, err
	}
	f := engine.Feed{Scope: x.scope(), Limit: limit}
	if err := since(h, &f); err != nil {
		return reply{}, err
	}
	page, err := co.Changes(x.request.Context(), x.call(), f)
	if err != nil {
		return reply{}, err
	}
	rep := x.pageReply(co, page)
	if page.Count == 0 {
		rep.status, rep.body = http.StatusNotModified, nil
	}
	return rep, nil
}

// since reads where the client wants to go on in the change feed.
func since(h http.Header, f *engine.Feed) (err error) {
	switch etag := h.Get("If-None-Match"); etag {
	case "":
		if text := h.Get("If-Modified-Since"); text != "" {
			f.Since, err = parseSince(text)
		}
	case "*":
		f.FromNow = true
	default:
		f.Above, err = strconv.ParseUint(strings.Trim(strings.TrimPrefix(etag, "W/"), `"`), 10, 64)
		if err != nil {
			return refusal.BadRequest("If-None-Match %s is not an ETag of a change feed", etag)
		}
	}
	return err
}

// parseSince reads If-Modified-Since. The Go SDK writes the zone as UTC.
func parseSince(text string) (int64, error) {
	t, err := http.ParseTime(strings.Replace(text, " UTC", " GMT", 1))
	if err != nil {
		return 0, refusal.BadRequest("If-Modified-Since %q is not a time", text)
	}
	return t.Unix(), nil
}
