package main

import "binnacle/internal/app"

type eraseCommand struct {
	Certificate eraseCertificateCommand `cmd:"" help:"Write the certificate of an erasure that has ended."`
	Restore     eraseRestoreCommand     `cmd:"" help:"Give the orders again that a restored account lacks."`
	Verify      eraseVerifyCommand      `cmd:"" help:"Check a certificate of an erasure against the account."`
}

type eraseCertificateCommand struct {
	Order string `arg:"" help:"Id of the order, as tenant erasures lists it."`

	Config app.CertifyConfig `kong:"embed"`
}

func (eraseCertificateCommand) Help() string {
	return `Examples:
  binnacle erase certificate 20261123T161500Z-0f3a5b7c9d1e --certificate erased.json
  binnacle erase certificate 20261123T161500Z-0f3a5b7c9d1e --certificate erased.json --sign-key operator.pem`
}

func (c *eraseCertificateCommand) Run(e *env) error {
	return app.Certify(e.ctx, c.Config, c.Order, e.app())
}

type eraseRestoreCommand struct {
	Config app.RestoreConfig `kong:"embed"`
}

func (eraseRestoreCommand) Help() string {
	return `Run it after an account is restored from a backup, before any other process starts: the backup may have what was
erased after it, and lacks the orders. It reads them from the topic that keeps them.

Examples:
  binnacle erase restore --dry-run
  binnacle erase restore`
}

func (c *eraseRestoreCommand) Run(e *env) error { return app.RestoreErasures(e.ctx, c.Config, e.app()) }

type eraseVerifyCommand struct {
	File string `arg:"" help:"File of the certificate."`

	Config app.VerifyConfig `kong:"embed"`
}

func (eraseVerifyCommand) Help() string {
	return `It reads every place of the account where readings, rollups or catalog entries may be that the certificate's order
erases. The places follow from the tenant's epochs, never from the certificate. The exit code is 1 if something is left.

Examples:
  binnacle erase verify erased.json
  binnacle erase verify erased.json --public-key operator.pub.pem --json`
}

func (c *eraseVerifyCommand) Run(e *env) error {
	return app.VerifyErasure(e.ctx, c.Config, c.File, e.app())
}
