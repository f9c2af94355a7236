package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"binnacle/ingest/decode"
	"binnacle/internal/kafka"
	"binnacle/internal/lab/planner"
	"binnacle/internal/lab/planner/measured"
)

type planCommand struct {
	Workload string   `arg:"" optional:"" help:"YAML file with the workload." placeholder:"WORKLOAD.yaml"`
	Out      string   `help:"Directory to write cosmosdb_requirements.md, cosmosdb_data_model.md and plan.json to. Default: a summary is printed." placeholder:"DIR"`
	Set      []string `help:"What if: PATH=VALUE in place of a value of the file, such as fleets.pumps.devices=5000. May be repeated." sep:"none" placeholder:"PATH=VALUE"`
	Futures  int      `help:"Number of simulated futures, 20 to 100000." default:"1000"`
	Seed     uint64   `help:"Seed of the futures." default:"1"`
	JSON     bool     `name:"json" help:"Print the plan as JSON."`

	FromTopic string `help:"Measure the workload of a sample of this topic instead of reading a file." placeholder:"TOPIC" group:"Measured workload"`
	Save      string `help:"Write the measured workload as YAML to FILE." placeholder:"FILE" group:"Measured workload"`
	Records   int    `help:"Number of newest records that --from-topic reads, of all partitions together." default:"100000" group:"Measured workload"`

	Kafka    kafka.Config   `kong:"embed,group='Kafka'"`
	Messages decode.Options `kong:"embed,group='Messages'"`
}

func (c *planCommand) Run(e *env) error {
	if c.Futures < 20 || c.Futures > 100_000 {
		return fmt.Errorf("--futures %d: 20 to 100000 are allowed", c.Futures)
	}
	w, err := c.workload(e)
	if err != nil {
		return err
	}
	plan, err := planner.New(w, c.Seed, c.Futures)
	if err != nil {
		return fmt.Errorf("%s: %w", cmp.Or(c.Workload, w.Name), err)
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

// workload reads the workload of the file, or measures it.
func (c *planCommand) workload(e *env) (planner.Workload, error) {
	switch {
	case (c.Workload == "") == (c.FromTopic == ""):
		return planner.Workload{}, errors.New("one of a workload file and --from-topic is needed")
	case c.Workload != "" && c.Save != "":
		return planner.Workload{}, errors.New("--save is for a workload that is measured")
	case c.Records < 1:
		return planner.Workload{}, errors.New("--records must be above 0")
	case c.Workload != "":
		return planner.Read(c.Workload, c.Set)
	}
	if err := c.Messages.Check(); err != nil {
		return planner.Workload{}, err
	}
	topic := measured.Topic{Kafka: c.Kafka, Name: c.FromTopic, Messages: c.Messages, Records: c.Records}
	found, err := topic.Read(e.ctx)
	if err != nil {
		return planner.Workload{}, err
	}
	for _, note := range found.Notes {
		fmt.Fprintln(e.stderr, note)
	}
	text, err := found.YAML()
	if err != nil {
		return planner.Workload{}, err
	}
	if c.Save != "" {
		if err := os.WriteFile(c.Save, text, 0o644); err != nil {
			return planner.Workload{}, fmt.Errorf("write the workload: %w", err)
		}
	}
	return planner.Parse(text, c.Set)
}

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
