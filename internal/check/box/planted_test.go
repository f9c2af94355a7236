package box_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	boxPlanted = flag.String("box.planted", "", "plant faults whose names match, and make runs until each is found")
	boxMissed  = flag.Bool("box.missed", false, "look for faults that are known to be missed, too")
	boxPatient = flag.Duration("box.patient", 3*time.Minute, "how long TestPlanted looks for a fault")
	boxUsual   = flag.Int("box.usual", 0, "look for planted faults in so many runs as `go test` makes, of every kind: "+
		"not for slow ones, unless -box.missed is given")
)

// planted is a fault that the box must find: in a file of the product, one text stands for another one.
type planted struct {
	name     string // the rule that it breaks, and how
	file     string // in the project
	old, new string
	with     string // the only kinds of rarer actors, or the rule, of runs that look for it; "" for whichever a seed picks
	missed   string // why the box does not find it yet; "" for one that it finds
	slow     bool   // the runs of `go test` do not find it, others do
}

// everyPlanted returns the faults of all tables.
func everyPlanted() []planted {
	return slices.Concat(plantedFaults, plantedJournal, plantedServices, plantedErasures, plantedLimits, plantedRetention,
		plantedCopies, plantedSetbacks, plantedAnswers, plantedGroups)
}

// project is the top of the tree.
const project = "../../.."

// apply returns the file with the fault.
func (p *planted) apply() (string, error) {
	source, err := os.ReadFile(filepath.Join(project, p.file))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(source), p.old); n != 1 {
		return "", fmt.Errorf("the text to replace stands %d times in %s instead of once: %s", n, p.file, p.old)
	}
	return strings.Replace(string(source), p.old, p.new, 1), nil
}

// TestPlantedFaultsApply holds that each planted fault still has its place, and a name of its own.
func TestPlantedFaultsApply(t *testing.T) {
	names := map[string]bool{}
	for _, p := range everyPlanted() {
		_, err := p.apply()
		require.NoError(t, err, p.name)
		require.False(t, names[p.name], p.name)
		names[p.name] = true
	}
}

// TestPlanted builds the box with one fault after another, and makes runs until one fails. `go build` reads the faulty
// file in the place of the product's, so the product has no switch for it.
func TestPlanted(t *testing.T) {
	if *boxPlanted == "" {
		t.Skip("make box-planted runs it")
	}
	wanted, err := regexp.Compile(*boxPlanted)
	require.NoError(t, err)
	for _, p := range everyPlanted() {
		switch {
		case !wanted.MatchString(p.name):
			continue
		case p.missed != "" && !*boxMissed:
			fmt.Printf("%s: missed: %s\n", p.name, p.missed)
			continue
		case p.slow && *boxUsual > 0 && !*boxMissed:
			fmt.Printf("%s: slow\n", p.name)
			continue
		}
		found, cpu, err := p.search(t.TempDir())
		switch {
		case err != nil:
			t.Errorf("%s: %v", p.name, err)
		case found != "":
			fmt.Printf("%s: found after %s, %.1f s of CPU\n", p.name, found, cpu.Seconds())
		default:
			fmt.Printf("%s: missed: no run failed within %s\n", p.name, *boxPatient)
			t.Errorf("%s is not found", p.name)
		}
	}
}

// before finds how many events and runs there were until a run failed.
var before = regexp.MustCompile(`(?m)^(events \d+)\n(runs \d+),`)

// search returns after how many events and runs, and how much of a processor, a run failed; "" if none did.
func (p *planted) search(dir string) (found string, cpu time.Duration, err error) {
	source, err := p.apply()
	if err != nil {
		return "", 0, err
	}
	top, err := filepath.Abs(project)
	if err != nil {
		return "", 0, err
	}
	faulty, overlay, box := filepath.Join(dir, "faulty.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "box")
	replaced, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(top, p.file): faulty}})
	if err != nil {
		return "", 0, err
	}
	err = errors.Join(os.WriteFile(faulty, []byte(source), 0o600), os.WriteFile(overlay, replaced, 0o600))
	if err != nil {
		return "", 0, err
	}
	build := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", box, ".")
	if out, err := build.CombinedOutput(); err != nil {
		return "", 0, fmt.Errorf("%w: %s", err, out)
	}
	ctx, cancel := context.WithTimeout(context.Background(), *boxPatient+time.Minute)
	defer cancel()
	search := exec.CommandContext(ctx, box, "-test.run", "^TestBox$", "-test.timeout", "0", "-box.twice=false",
		"-box.shrink=false", "-box.duration", boxPatient.String(), fmt.Sprintf("-box.runs=%d", *boxUsual))
	if *boxUsual == 0 {
		search.Args = append(search.Args, "-box.with", p.with)
	}
	out, err := search.CombinedOutput()
	if search.ProcessState != nil {
		cpu = search.ProcessState.UserTime() + search.ProcessState.SystemTime()
	}
	m := before.FindSubmatch(out)
	switch {
	case err == nil:
		return "", cpu, nil
	case m != nil:
		return fmt.Sprintf("%s, %s", m[1], m[2]), cpu, nil
	case ctx.Err() == nil: // a fault may end the process
		return "some events", cpu, nil
	}
	return "", cpu, fmt.Errorf("the runs did not end: %w", err)
}
