package prom_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/query/httpapi"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// tsbsEnd is the end of the 6 hours of the sample, which is generated data where the file is not there.
const (
	tsbsFile = "../../../shared/data/tsbs-iot-20x6h.lp.gz"
	tsbsEnd  = 1767592800
)

// Each question of the guide has the answer that a computation over the lines has.
func TestTSBSQueries(t *testing.T) {
	for name, lines := range map[string][]string{"generated": tsbsLines(), "sample": tsbsSample(t)} {
		t.Run(name, func(t *testing.T) {
			if lines == nil || name == "sample" && testing.Short() {
				t.Skip("the sample is not there, or takes too long")
			}
			s := newServer(t, nil)
			s.world.Log.Set(1 << 20)
			publish(t, s, lines)
			fleet := newFleet(t, lines)
			var empty []string
			asked := 0
			for question, text := range tsbsQuestions(t) {
				want, known := tsbsAnswers[question]
				require.True(t, known, question)
				var got map[string]float64
				if strings.HasPrefix(text, "/") {
					got = s.places(t, text)
				} else {
					r := s.ask(t, "/api/v1/query", "query", text, "time", strconv.Itoa(tsbsEnd), "lookback_delta", "10s")
					require.Equal(t, 200, r.status, "%s: %s", question, r.Error)
					got = vectorOf(t, r.Data)
				}
				sameAnswer(t, question, want(fleet), got)
				if asked++; len(got) == 0 {
					empty = append(empty, question)
				}
			}
			require.Equal(t, 13, asked)
			if name == "generated" {
				require.Empty(t, empty, "an empty answer proves nothing")
			}
			require.LessOrEqual(t, len(empty), 3, "%v", empty)
		})
	}
}

func sameAnswer(t *testing.T, question string, want, got map[string]float64) {
	t.Helper()
	names := func(m map[string]float64) (out []string) {
		for name := range m {
			out = append(out, name)
		}
		sort.Strings(out)
		return out
	}
	require.Equal(t, names(want), names(got), question)
	for name, w := range want {
		if g := got[name]; !(math.IsNaN(w) && math.IsNaN(g)) {
			require.InDelta(t, w, g, 1e-9*max(1, math.Abs(w)), "%s of %s", question, name)
		}
	}
}

// tsbsQuestions are the requests of the guide, by name.
func tsbsQuestions(t *testing.T) map[string]string {
	text, err := os.ReadFile("../../docs/reference/promql.md")
	require.NoError(t, err)
	out := make(map[string]string)
	for _, part := range strings.Split(string(text), "\n### ")[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		_, rest, _ = strings.Cut(rest, "```")
		_, rest, _ = strings.Cut(rest, "\n")
		request, _, ended := strings.Cut(rest, "\n```")
		require.True(t, ended, name)
		out[name] = request
	}
	return out
}

func tsbsSample(t *testing.T) (lines []string) {
	f, err := os.Open(tsbsFile)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	defer f.Close()
	r, err := gzip.NewReader(f)
	require.NoError(t, err)
	all, err := io.ReadAll(r)
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(all)), "\n")
}

// tsbsLines are lines in the form of the sample, with a seed: trucks that drive and rest, break down, lose fields, tags
// and rows, and send some again.
func tsbsLines() (lines []string) {
	rnd := rand.New(rand.NewPCG(7, 7))
	for at := int64(tsbsEnd - 6*3600); at < tsbsEnd; at += 10 {
		for i := range 8 {
			tags := fmt.Sprintf("name=truck_%d,fleet=%s,driver=D%d,model=M%d", i, []string{"South", "West"}[i%2], i%3, i%4)
			if rnd.IntN(100) == 0 {
				tags, _, _ = strings.Cut(tags, ",fleet")
			}
			phase := (at - tsbsEnd + int64(i)*977) / 600
			velocity := map[bool]float64{true: float64(rnd.IntN(100)), false: 0}[(phase+int64(i))%int64(3+i) != 0 && i != 7]
			status := map[bool]int{true: 0, false: rnd.IntN(6)}[phase%int64(5+i) == 0]
			if i == 2 {
				status = 0
			}
			capacity := 1000 * (1 + i%4)
			for _, line := range []string{
				fmt.Sprintf("readings,%s load_capacity=%d,nominal_fuel_consumption=%d,latitude=%g,longitude=%g,velocity=%g,"+
					"fuel_consumption=%g %d", tags, capacity, 10+i, float64(rnd.IntN(900))/10, float64(rnd.IntN(900))/10, velocity,
					float64(rnd.IntN(500))/10, at*1e9),
				fmt.Sprintf("diagnostics,%s load_capacity=%d,fuel_state=%g,current_load=%d,status=%di %d", tags, capacity,
					float64(i)/20, (8-i)*capacity/8, status, at*1e9),
			} {
				if rnd.IntN(12) > 0 {
					lines = append(lines, line)
				}
			}
			if i == 5 && rnd.IntN(10) == 0 && len(lines) > 100 { // what was sent some minutes ago, again
				lines = append(lines, lines[len(lines)-1-rnd.IntN(100)])
			}
		}
	}
	return lines
}

// publish decodes lines as ingesters do, and puts two thirds of each device into chunks, the rest into a head.
func publish(t *testing.T, s server, lines []string) {
	d := decode.New(decode.Options{Tenant: "acme", Lines: decode.Lines{DeviceTag: "name", TenantTag: "tenant",
		Tags: []string{"fleet", "driver", "model", "device_version"}, Metric: "full"}})
	chains := make(map[string][]querytest.Record)
	tags := make(map[string]map[string]string)
	for i, line := range lines {
		decoded := d.Decode(decode.Record{Value: []byte(line)})
		require.Len(t, decoded.Readings, map[bool]int{true: 1, false: 0}[strings.Contains(line, ",name=")], "%s: %v", line,
			decoded.Bad)
		for _, r := range decoded.Readings {
			r.Fields = slices.Clone(r.Fields)
			if tags[r.Device] == nil {
				tags[r.Device] = make(map[string]string)
			}
			for _, l := range r.Tags {
				tags[r.Device][l.Name] = l.Value
			}
			chains[r.Device] = append(chains[r.Device], querytest.Record{
				Position: telemetry.Position{Stream: 1, Offset: int64(i)}, Reading: r})
		}
	}
	var open []querytest.Record
	for device, all := range chains {
		s.world.Catalog.AddPage("acme", storetest.Entry(device, tags[device]))
		stored := len(all) * 2 / 3
		for part := range slices.Chunk(all[:stored], 700) {
			s.world.Chunk(part...)
		}
		open = append(open, all[stored:]...)
	}
	s.world.Heads.Set(store.PartitionHead{Stream: 1, Position: 1 << 20}, open...)
}

// places asks the native API for latest values.
func (s server) places(t *testing.T, path string) map[string]float64 {
	h, err := httpapi.New(httpapi.Config{Querier: s.query, Now: func() time.Time { return s.world.Now }})
	require.NoError(t, err)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.RemoteAddr = "127.0.0.1:1"
	r.Header.Set(httpapi.TenantHeader, "acme")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(t, 200, w.Code, w.Body)
	var body struct {
		Latest []struct {
			Device, Metric string
			Value          float64
		}
	}
	require.NoError(t, json.NewDecoder(bufio.NewReader(w.Body)).Decode(&body))
	out := make(map[string]float64)
	for _, l := range body.Latest {
		out[l.Device+" "+l.Metric] = l.Value
	}
	return out
}

// vectorOf is an answer of PromQL by the labels that the questions tell apart.
func vectorOf(t *testing.T, data json.RawMessage) map[string]float64 {
	var body struct {
		ResultType string
		Result     []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
	require.NoError(t, json.Unmarshal(data, &body))
	require.Equal(t, "vector", body.ResultType)
	out := make(map[string]float64)
	for _, x := range body.Result {
		var name []string
		for _, label := range []string{"device", "fleet", "model", "__name__"} {
			if label != "fleet" && label != "model" || x.Metric["device"] == "" {
				name = append(name, x.Metric[label])
			}
		}
		v, err := strconv.ParseFloat(x.Value[1].(string), 64)
		require.NoError(t, err)
		out[strings.Join(strings.Fields(strings.Join(name, " ")), " ")] = v
	}
	return out
}
