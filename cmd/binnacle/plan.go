package main

import (
	"fmt"
	"os"
	"path/filepath"

	"binnacle/internal/lab/planner"
)

type planCommand struct {
	Workload string   `arg:"" help:"YAML file with the workload." placeholder:"WORKLOAD.yaml"`
	Out      string   `help:"Directory to write cosmosdb_requirements.md, cosmosdb_data_model.md and plan.json to. Default: a summary is printed." placeholder:"DIR"`
	Set      []string `help:"What if: PATH=VALUE in place of a value of the file, such as fleets.pumps.devices=5000. May be repeated." sep:"none" placeholder:"PATH=VALUE"`
	Futures  int      `help:"Number of simulated futures, 20 to 100000." default:"1000"`
	Seed     uint64   `help:"Seed of the futures." default:"1"`
	JSON     bool     `name:"json" help:"Print the plan as JSON."`
}

func (c *planCommand) Run(e *env) error {
	if c.Futures < 20 || c.Futures > 100_000 {
		return fmt.Errorf("--futures %d: 20 to 100000 are allowed", c.Futures)
	}
	w, err := planner.Read(c.Workload, c.Set)
	if err != nil {
		return err
	}
	plan, err := planner.New(w, c.Seed, c.Futures)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Workload, err)
	}
	if c.Out != "" {
		if err := writePlan(c.Out, plan); err != nil {
			return err
		}
	}
	switch {
	case c.JSON:
		return printJSON(e.stdout, plan)
	case c.Out != "":
		return nil
	}
	return plan.Print(e.stdout)
}

// writePlan writes the documents of a plan into a directory.
func writePlan(dir string, plan *planner.Plan) error {
	requirements, err := plan.Requirements()
	if err != nil {
		return err
	}
	model, err := plan.Model()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	for name, text := range map[string]string{"cosmosdb_requirements.md": requirements, "cosmosdb_data_model.md": model} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("write the plan: %w", err)
		}
	}
	file, err := os.Create(filepath.Join(dir, "plan.json"))
	if err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	if err := printJSON(file, plan); err != nil {
		file.Close()
		return fmt.Errorf("write the plan: %w", err)
	}
	return file.Close()
}
