package main

import (
	"binnacle/internal/app"
	"binnacle/internal/ru"
	"binnacle/internal/xray"
)

type xrayCommand struct {
	Account app.AccountConfig `kong:"embed,group='Cosmos DB'"`
	Config  xray.Config       `kong:"embed"`
	Model   ru.Model          `name:"ru-model" help:"Model of charges of writes and reads: step or slope, between the rows of the table of sizes." default:"step"`
	Factors ru.Factors        `name:"ru-factors" help:"Output of binnacle doctor --measure --json, which corrects the model. Default: none." placeholder:"FILE"`
	JSON    bool              `name:"json" help:"Print the result as JSON."`
}

func (xrayCommand) Help() string {
	return `It reads documents of each physical partition, at most --max-rus in all, and writes nothing. Any container
will do, not only Binnacle's. It says how hot the hottest physical partition is, which keys fill it, and what other
partition keys would do.

Examples:
  binnacle xray --cosmos https://ACCOUNT.documents.azure.com:443/ --key-file keys --database iot --container telemetry
  binnacle xray --cosmos 127.0.0.1:8081 --database iot --container telemetry --device-path /sensor --json`
}

func (c *xrayCommand) Run(e *env) error {
	cfg := c.Config
	if err := cfg.Validate(); err != nil {
		return err
	}
	client, err := c.Account.Connect(e.log)
	if err != nil {
		return err
	}
	defer client.Close()
	cfg.Model, cfg.Progress = c.Model.Corrected(c.Factors), e.stderr
	found, err := xray.Run(e.ctx, cfg, client)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(e.stdout, found)
	}
	return xray.Print(e.stdout, found)
}
