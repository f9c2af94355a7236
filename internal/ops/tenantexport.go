package ops

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"binnacle/internal/ops/queryclient"
	"binnacle/internal/retry"
	"binnacle/internal/telemetry"
	"binnacle/internal/text/progress"
)

// ExportConfig is what `binnacle tenant export` works with.
type ExportConfig struct {
	Tenant string `arg:"" help:"Name of the tenant."`

	Out       string   `help:"Directory of the files; it is made." required:"" placeholder:"DIR"`
	API       string   `name:"api" help:"Address of the query API, host:port or URL." default:"127.0.0.1:7070"`
	TokenFile string   `help:"File with a bearer token of the tenant, with the scope read. Default: none." placeholder:"FILE"`
	Device    []string `help:"Ids of devices. Default: all of the tenant." placeholder:"ID"`
	From      string   `help:"Start: a UTC day of event times such as 2026-11-20, or a time in it, such as -2d; days are whole. Default: the first reading." placeholder:"TIME"`
	To        string   `help:"End, exclusive; the day of a time such as now is included. Default: without end." placeholder:"TIME"`
	Format    string   `help:"Format of readings: ${enum}. ndjson has messages that \"binnacle replay\" publishes." enum:"ndjson,parquet" default:"ndjson"`
	Resume    bool     `help:"Leave out the files that an earlier export into the same directory has finished."`
	JSON      bool     `name:"json" help:"Print the contents of export.json."`

	Pause time.Duration `kong:"-"` // before a request is first tried again, 1 s
}

const (
	exportPage     = 50_000 // devices that the API lists at once
	exportNames    = 10_000 // devices that a request may name
	exportAttempts = 8
)

var (
	// errSplit says that a request is about more than one answer may have.
	errSplit = errors.New("more than one answer may have")
	// errBrokeOff says that an answer has no end. That may be because it was too much.
	errBrokeOff = errors.New("the answer broke off")
)

// exporter exports once.
type exporter struct {
	ExportConfig
	api     queryclient.Querier
	tagged  map[string][]byte // tags of devices, as JSON, until the first reading of each is written
	devices []exportDevice
	days    telemetry.Range
	list    exportManifest
	reached bool // the API has answered
	env     Env
}

// exportDevice is a device as the API lists it.
type exportDevice struct {
	Device string          `json:"device"`
	Tags   json.RawMessage `json:"tags"`
	First  int64           `json:"first"`
	Last   int64           `json:"last"`
}

// Run writes the readings of a tenant into files, a day each, as its own users read them: from chunks and
// ingesters, without what an erasure or a retention hides. It fails where an answer is not complete.
func (cfg ExportConfig) Run(ctx context.Context, env Env) error {
	covered, err := days(cfg.From, cfg.To, time.Now())
	if err != nil {
		return err
	}
	x := &exporter{ExportConfig: cfg, env: env, tagged: make(map[string][]byte), days: covered,
		api: queryclient.Querier{Tenant: cfg.Tenant, At: cfg.API, TokenFile: cfg.TokenFile}}
	x.Pause = cmp.Or(x.Pause, time.Second)
	if err := x.open(); err != nil {
		return err
	}
	if err := x.run(ctx); err != nil {
		return fmt.Errorf("export %s: %w", cfg.Tenant, err)
	}
	if cfg.JSON {
		return json.NewEncoder(env.Stdout).Encode(x.list)
	}
	return x.print(env.Stdout)
}

func (x *exporter) run(ctx context.Context) error {
	if err := x.listDevices(ctx); err != nil {
		return err
	}
	if err := x.annotations(ctx); err != nil {
		return err
	}
	days := x.daysOfDevices()
	bar := progress.New(x.env.Progress, "days", int64(len(days)))
	defer bar.Clear()
	for _, day := range days {
		if err := x.day(ctx, day); err != nil {
			return fmt.Errorf("%s: %w", dayText(day), err)
		}
		bar.Add(1)
	}
	now := time.Now().UTC().Truncate(time.Second)
	x.list.Finished = &now
	return x.save()
}

// listDevices writes the file of devices, with their tags and times.
func (x *exporter) listDevices(ctx context.Context) error {
	after := ""
	for {
		type devicesPage struct {
			Devices    []json.RawMessage
			Next       string
			Incomplete []string
		}
		var page devicesPage
		ask := url.Values{"limit": {strconv.Itoa(exportPage)}}
		if len(x.Device) == 1 {
			ask.Set("match", "device="+x.Device[0])
		}
		if after != "" {
			ask.Set("after", after)
		}
		err := x.attempt(ctx, func() error {
			page = devicesPage{}
			err := x.json(ctx, "/api/v1/devices", ask, &page)
			if err == nil && len(page.Incomplete) > 0 {
				err = fmt.Errorf("the list of devices is not complete: %s", strings.Join(page.Incomplete, "; "))
			}
			return err
		})
		if err != nil {
			return err
		}
		for _, raw := range page.Devices {
			var d exportDevice
			if err := json.Unmarshal(raw, &d); err != nil {
				return fmt.Errorf("read the list of devices: %w", err)
			}
			if len(x.Device) > 0 && !slices.Contains(x.Device, d.Device) {
				continue
			}
			if len(d.Tags) > 2 { // not {}
				x.tagged[d.Device] = d.Tags
			}
			x.devices = append(x.devices, d)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	for _, name := range x.Device {
		if !slices.ContainsFunc(x.devices, func(d exportDevice) bool { return d.Device == name }) {
			return fmt.Errorf("tenant %s has no device %q", x.Tenant, name)
		}
	}
	if len(x.devices) == 0 {
		return errors.New("the tenant has no devices")
	}
	f, err := x.write(devicesFile, func(w io.Writer) (int64, error) {
		lines := json.NewEncoder(w)
		for _, d := range x.devices {
			if err := lines.Encode(d); err != nil {
				return 0, err
			}
		}
		return int64(len(x.devices)), nil
	})
	if err != nil {
		return err
	}
	return x.add(f)
}

func (x *exporter) annotations(ctx context.Context) error {
	var body json.RawMessage
	if err := x.attempt(ctx, func() error { return x.json(ctx, "/api/v1/annotations", nil, &body) }); err != nil {
		return err
	}
	f, err := x.write(annotationsFile, func(w io.Writer) (int64, error) {
		_, err := w.Write(body)
		return 0, err
	})
	if err != nil {
		return err
	}
	return x.add(f)
}

// daysOfDevices returns the days on which a device may have readings.
func (x *exporter) daysOfDevices() (days []telemetry.Day) {
	seen := make(map[telemetry.Day]bool)
	for _, d := range x.devices {
		first, last := max(d.First, x.days.From), min(d.Last, x.days.To-1)
		for day := telemetry.DayOf(first); day.Start() <= last; day++ {
			seen[day] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// day writes the files of a day: one, unless its devices have more readings than one answer may have. They are listed
// together, so that an export that goes on has all of a day or begins it again.
func (x *exporter) day(ctx context.Context, day telemetry.Day) error {
	date := dayText(day)
	if slices.ContainsFunc(x.list.Files, func(f exportFile) bool { return f.Day == date }) {
		return nil
	}
	name := x.Tenant + "-" + date
	if err := x.removeParts(name); err != nil {
		return err
	}
	var names []string
	for _, d := range x.devices {
		if d.First < day.End() && d.Last >= day.Start() {
			names = append(names, d.Device)
		}
	}
	var files []exportFile
	isAll := len(x.Device) == 0
	for pending := [][]string{names}; len(pending) > 0; {
		some := pending[0]
		a := exportPart{name: name, ask: url.Values{"from": {date}, "to": {dayText(day + 1)}, "strict": {"true"}},
			canSplit: len(some) > 1}
		if len(files) > 0 {
			a.name = fmt.Sprintf("%s-%d", name, len(files)+1)
		}
		err := errSplit
		if isAll || len(some) <= exportNames {
			if !isAll {
				a.ask["device"] = some
			}
			var f exportFile
			f, err = x.part(ctx, a)
			f.Day = date
			if err == nil {
				files, pending = append(files, f), pending[1:]
				continue
			}
		}
		if !errors.Is(err, errSplit) {
			return err
		}
		half := len(some) / 2
		pending, isAll = append([][]string{some[:half], some[half:]}, pending[1:]...), false
	}
	return x.add(files...)
}

// exportPart is a day of some devices, or of all.
type exportPart struct {
	name     string // file name, without an extension
	ask      url.Values
	canSplit bool
}

func (x *exporter) part(ctx context.Context, a exportPart) (f exportFile, err error) {
	a.ask.Set("format", x.Format)
	if a.name += ".parquet"; x.Format == "ndjson" {
		a.name = strings.TrimSuffix(a.name, ".parquet") + ".ndjson.gz"
		a.ask.Set("layout", "message")
	}
	broken := 0
	var given []string // devices with their tags in the file
	err = x.attempt(ctx, func() (err error) {
		f, err = x.write(a.name, func(w io.Writer) (rows int64, err error) {
			err = x.ask(ctx, "/api/v1/readings", a.ask, func(resp *http.Response) error {
				given, rows, err = x.rows(w, resp)
				return err
			})
			return rows, err
		})
		if errors.Is(err, errBrokeOff) {
			broken++
		}
		refused, isRefused := errors.AsType[*queryclient.StatusError](err)
		isTooMuch := isRefused && (refused.Status == http.StatusUnprocessableEntity ||
			refused.Status == http.StatusGatewayTimeout)
		if a.canSplit && (isTooMuch || broken > 1) {
			err = fmt.Errorf("%w: %w", errSplit, err)
		}
		return err
	})
	for _, name := range given {
		if err == nil {
			delete(x.tagged, name)
		}
	}
	return f, err
}

// rows copies an answer that is whole and complete, as messages does.
func (x *exporter) rows(w io.Writer, resp *http.Response) (given []string, rows int64, err error) {
	if x.Format == "ndjson" {
		given, rows, err = x.messages(w, resp.Body)
	} else {
		_, err = io.Copy(w, resp.Body)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", errBrokeOff, err)
	}
	switch resp.Trailer.Get("Binnacle-Complete") {
	case "true":
		return given, rows, nil
	case "":
		return nil, 0, errBrokeOff
	}
	return nil, 0, errors.New("the answer is not complete: an ingester or a part of the store does not answer")
}

// messages copies messages, a line each. A device's first one gets its tags; messages returns the devices that got
// them.
func (x *exporter) messages(to io.Writer, from io.Reader) (given []string, rows int64, err error) {
	gz := gzip.NewWriter(to)
	w := bufio.NewWriterSize(gz, 1<<16)
	r := bufio.NewReaderSize(from, 1<<16)
	prefix, _ := json.Marshal(x.Tenant)
	prefix = append(append([]byte(`{"tenant":`), prefix...), `,"device":`...)
	for {
		line, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long := bytes.Clone(line)
			var rest []byte
			if rest, err = r.ReadBytes('\n'); err == nil {
				line = append(long, rest...)
			}
		}
		if errors.Is(err, io.EOF) && len(line) == 0 {
			break
		}
		if err != nil {
			return nil, 0, err
		}
		if name, isNew := x.deviceOf(line, prefix); isNew && !slices.Contains(given, name) {
			given = append(given, name)
			line = append(append(append(bytes.Clone(line[:len(line)-2]), `,"tags":`...), x.tagged[name]...), '}', '\n')
		}
		if _, err := w.Write(line); err != nil {
			return nil, 0, err
		}
		rows++
	}
	if err := errors.Join(w.Flush(), gz.Close()); err != nil {
		return nil, 0, err
	}
	return given, rows, nil
}

// deviceOf returns the device of a message, and whether its tags are still to be written.
func (x *exporter) deviceOf(line, prefix []byte) (name string, isNew bool) {
	if len(x.tagged) == 0 || !bytes.HasPrefix(line, prefix) {
		return "", false
	}
	line = line[len(prefix):]
	end := bytes.Index(line, []byte(`","ts":"`)) // quotes of a device are escaped
	if end < 0 || json.Unmarshal(line[:end+1], &name) != nil {
		return "", false
	}
	_, isNew = x.tagged[name]
	return name, isNew
}

// attempt tries something again that may succeed later.
func (x *exporter) attempt(ctx context.Context, do func() error) error {
	pauses := (retry.Policy{First: x.Pause, Max: 30 * x.Pause}).Begin()
	for {
		err := do()
		refused, isRefused := errors.AsType[*queryclient.StatusError](err)
		if dial := (*net.OpError)(nil); !x.reached && errors.As(err, &dial) && dial.Op == "dial" {
			return fmt.Errorf("%w: --api is the address of the query API", err)
		}
		if err == nil || ctx.Err() != nil || errors.Is(err, errSplit) || pauses.Count()+1 >= exportAttempts ||
			isRefused && refused.Status < http.StatusInternalServerError && refused.Status != http.StatusTooManyRequests {
			return err
		}
		x.env.Logger.Warn("the export asks again", "tenant", x.Tenant, "error", err)
		if waited := pauses.Wait(ctx); waited != nil {
			return err
		}
	}
}

func (x *exporter) json(ctx context.Context, path string, ask url.Values, into any) error {
	return x.ask(ctx, path, ask, func(resp *http.Response) error { return json.NewDecoder(resp.Body).Decode(into) })
}

// ask sends a request and has its answer read.
func (x *exporter) ask(ctx context.Context, path string, ask url.Values, read func(*http.Response) error) error {
	err := x.api.Do(ctx, path, ask, func(resp *http.Response) error {
		x.reached = true
		return read(resp)
	})
	_, isRefused := errors.AsType[*queryclient.StatusError](err)
	x.reached = x.reached || isRefused
	return err
}
