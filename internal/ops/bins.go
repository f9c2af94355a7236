package ops

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"binnacle/ingest"
	"binnacle/internal/headhttp"
	"binnacle/internal/store"
	"binnacle/internal/text/duration"
	"binnacle/internal/text/report"
)

// maxBinDevices is the most devices that are listed.
const maxBinDevices = 10_000

// BinsPath is the path of the open bins at the admin listener of an ingester.
const BinsPath = "/api/v1/bins"

// ServeBins serves the open bins of an ingester: of a tenant (tenant=), with a number of devices (devices=), the
// oldest or the largest first (by=age or by=bytes).
func ServeBins(in *ingest.Ingester) Endpoint {
	return func(r *http.Request) (int, any, error) {
		req, err := binsRequest(r.URL.Query())
		if err != nil {
			return 0, nil, err
		}
		held, err := in.Bins(r.Context(), req)
		return http.StatusOK, held, err
	}
}

// IngestersPath is the path of the open bins of all ingesters at the admin listener of a querier.
const IngestersPath = "/api/v1/ingesters"

// ServeIngesters serves what each ingester holds that the querier asks for heads. It takes what ServeBins takes.
func ServeIngesters(heads store.Heads) Endpoint {
	return func(r *http.Request) (int, any, error) {
		req, err := binsRequest(r.URL.Query())
		if err != nil {
			return 0, nil, err
		}
		var answer struct {
			Ingesters []headhttp.ProcessBins `json:"ingesters"`
			Error     string                 `json:"error,omitempty"` // why some may be missing
		}
		switch heads := heads.(type) {
		case *headhttp.Client:
			answer.Ingesters, err = heads.Bins(r.Context(), r.URL.Query())
		case *ingest.Ingester:
			answer.Ingesters, err = ownBins(r.Context(), heads, req)
		}
		if err != nil {
			answer.Error = err.Error()
		}
		return http.StatusOK, answer, nil
	}
}

// ownBins returns what the ingester of this process holds, as headhttp.Client has it of others.
func ownBins(ctx context.Context, in *ingest.Ingester, req ingest.BinsRequest) ([]headhttp.ProcessBins, error) {
	held, err := in.Bins(ctx, req)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(held)
	return []headhttp.ProcessBins{{Process: "this process", Bins: body}}, err
}

func binsRequest(q url.Values) (req ingest.BinsRequest, err error) {
	req = ingest.BinsRequest{Tenant: q.Get("tenant"), By: ingest.BinsOrder(cmp.Or(q.Get("by"), string(ingest.ByAge)))}
	if req.By != ingest.ByAge && req.By != ingest.ByBytes {
		return req, unfit("by=%s: %s and %s are known", req.By, ingest.ByAge, ingest.ByBytes)
	}
	if n := q.Get("devices"); n != "" {
		req.Devices, err = strconv.Atoi(n)
		if err != nil || req.Devices < 0 || req.Devices > maxBinDevices {
			return req, unfit("devices=%s: 0 to %d are allowed", n, maxBinDevices)
		}
	}
	return req, nil
}

// BinsConfig sets what `binnacle bins` asks for.
type BinsConfig struct {
	AdminClient `kong:"embed"`

	Devices int    `help:"Number of devices to list for each process." default:"0"`
	By      string `help:"Which devices come first: age, the oldest reading; bytes, the most memory." enum:"age,bytes" default:"age"`
}

// Run asks each process that ingests for its open bins, and prints them.
func (cfg BinsConfig) Run(ctx context.Context, env Env) error {
	return adminReport[ingest.Bins]{"bins", BinsPath, url.Values{
		"tenant": {cfg.Tenant}, "devices": {strconv.Itoa(cfg.Devices)}, "by": {cfg.By},
	}, printBins}.run(ctx, cfg.AdminClient, env)
}

func printBins(w io.Writer, admin string, b ingest.Bins) error {
	disk := "nothing on disk"
	if b.Memory.File > 0 {
		disk = fmt.Sprintf("%s on disk, in a file of %s", megabytes(b.Memory.Spilled), megabytes(b.Memory.File))
	}
	fmt.Fprintf(w, "%s: topics %s, hold %s, %s of %s of memory, %s\n\n", admin, b.Topics,
		duration.String(time.Duration(b.HoldSeconds*float64(time.Second))),
		megabytes(b.Memory.Held), megabytes(b.Memory.Bound), disk)
	if len(b.Partitions) == 0 {
		_, err := fmt.Fprintln(w, "  no partition is assigned")
		return err
	}
	if err := report.Grid(w, partitionRows(b.Partitions)); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if err := report.Grid(w, holdingRows("tenant", b.Tenants, b.Now)); err != nil {
		return err
	}
	if len(b.Devices) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return report.Grid(w, holdingRows("device", b.Devices, b.Now))
}

func partitionRows(all []ingest.BinsPartition) [][]string {
	rows := [][]string{
		{"", "", "", "log", "records not yet", "", "", "committed", "journal", "a restart", "", ""},
		{"topic", "partition", "bins", "end", "read", "journalled", "in chunks", "floor", "floor", "loads", "reads", "takes"},
	}
	for _, p := range all {
		takes := "?"
		if s := p.Replay.Seconds; s > 0 {
			takes = duration.String(max(time.Second, time.Duration(s*float64(time.Second)).Round(time.Second)))
		}
		state := strconv.Itoa(int(p.Partition))
		if p.Loading > 0 {
			state += fmt.Sprintf(" (%d to load)", p.Loading)
		} else if !p.CaughtUp {
			state += " (catching up)"
		}
		rows = append(rows, []string{
			p.Topic, state, report.Thousands(p.Bins), report.Thousands(p.End), report.Thousands(p.Unread()),
			report.Thousands(p.Unjournaled()), report.Thousands(p.Unstored()), report.Thousands(p.Floor),
			report.Thousands(p.Journaled), report.Thousands(p.Replay.Blocks), report.Thousands(p.Replay.Records), takes,
		})
	}
	return rows
}

func holdingRows(what string, all []ingest.BinsSummary, now time.Time) [][]string {
	head := []string{what, "devices", "bins", "readings", "values", "memory", "oldest reading", "age", "records behind"}
	if what == "device" {
		head[1] = "tenant"
	}
	rows := [][]string{head}
	for _, x := range all {
		name, second := x.Tenant, report.Thousands(x.Devices)
		if what == "device" {
			name, second = x.Device, x.Tenant
		}
		rows = append(rows, []string{
			name, second, report.Thousands(x.Bins), report.Thousands(x.Readings), report.Thousands(x.Values),
			megabytes(x.Bytes), x.From.UTC().Format("2006-01-02 15:04:05"),
			duration.String(max(0, now.Sub(x.From)).Round(time.Second)), report.Thousands(x.Behind),
		})
	}
	return rows
}

func megabytes(n int64) string {
	switch mb := float64(n) / (1 << 20); {
	case mb >= 99.95:
		return report.Thousands(n>>20) + " MB"
	case n >= 10<<10 && mb < 0.95:
		return report.Thousands(n>>10) + " KB"
	case mb < 0.95:
		return report.Thousands(n) + " B"
	default:
		return fmt.Sprintf("%.1f MB", mb)
	}
}
