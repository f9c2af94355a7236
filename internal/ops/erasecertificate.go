package ops

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/erasure"
	"binnacle/internal/heat/heatlog"
	"binnacle/internal/kafka"
	"binnacle/internal/ops/erase"
	"binnacle/internal/stream"
	"binnacle/internal/stream/topics"
	"binnacle/internal/tenant"
	"binnacle/internal/text/report"
)

// CertificateConfig is where the certificate of an erasure goes, and the key that signs it.
type CertificateConfig struct {
	Certificate string `help:"File for the certificate of the erasure." placeholder:"FILE"`
	SignKey     string `help:"File with the private key that signs the certificate: PEM, PKCS #8; Ed25519, ECDSA or RSA." placeholder:"FILE"`
}

// signKey returns the private key, nil for none.
func (cfg *CertificateConfig) signKey() ([]byte, error) {
	switch {
	case cfg.SignKey == "":
		return nil, nil
	case cfg.Certificate == "":
		return nil, errors.New("--sign-key signs a certificate: give --certificate, too")
	}
	key, err := os.ReadFile(cfg.SignKey)
	if err != nil {
		return nil, fmt.Errorf("--sign-key: %w", err)
	}
	return key, erase.CheckSignKey(key)
}

func (e *eraser) certify(ctx context.Context, o *erasure.Order, cfg *CertificateConfig, signKey []byte) error {
	file, err := e.certificate(ctx, o, e.cfg.Account.Cosmos, signKey)
	if err != nil {
		return err
	}
	return os.WriteFile(cfg.Certificate, file, 0o644)
}

// certificate returns the file of an order's certificate.
func (e *eraser) certificate(ctx context.Context, o *erasure.Order, account string, signKey []byte) ([]byte, error) {
	remains, err := remainsOf(ctx, e.client, e.cluster, o)
	if err != nil {
		return nil, err
	}
	c, err := erase.NewCertificate(o, account, remains)
	if err != nil {
		return nil, err
	}
	return c.Encode(signKey)
}

// remainsOf returns the places that an order does not erase, with the times until which they keep what they have.
func remainsOf(ctx context.Context, client *cosmos.Client, cluster *kafka.Client, o *erasure.Order) (
	out []erase.Remains, err error) {
	id, err := cluster.ClusterID(ctx)
	if err != nil {
		return nil, err
	}
	streams, err := stream.NewStreams(client.Documents()).All(ctx)
	if err != nil {
		return nil, err
	}
	var read []string
	for _, s := range streams {
		switch {
		case s.IsCopied():
			r := erase.Remains{Place: "the account that readings were " + s.Cluster, Note: "not reached from here"}
			if !slices.Contains(out, r) {
				out = append(out, r)
			}
		case s.Cluster != id:
			out = append(out, erase.Remains{Place: "topic " + s.Topic + " of the Kafka cluster " + s.Cluster,
				Note: "not reached from here"})
		case !slices.Contains(read, s.Topic):
			read = append(read, s.Topic)
		}
	}
	for _, topic := range read {
		for _, name := range []string{topic, kafka.JournalOf(topic), topic + topics.DeadLetterSuffix} {
			keep, known, err := cluster.Topic(name).Retention(ctx)
			r := erase.Remains{Place: "topic " + name + " of the Kafka cluster " + id}
			switch {
			case kafka.IsUnknownTopic(err):
				continue
			case err != nil:
				return nil, err
			case !known:
				r.Note = "the brokers do not say how long they keep it"
			case keep < 0:
				r.Note = "kept without end"
			default:
				at := o.At.Add(keep)
				r.Until, r.Note = &at, "a segment that is not full may stay longer"
			}
			out = append(out, r)
		}
	}
	weights := o.At.Add(heatlog.KeepWeights)
	if o.Device != "" || !o.IsWhole() {
		out = append(out, erase.Remains{Place: "annotations of the tenant", Note: "texts of its users, which no order reads"})
	}
	tagged, err := isTagged(ctx, client, o)
	if err != nil {
		return nil, err
	}
	if tagged {
		out = append(out, erase.Remains{Place: "classes of retention by tag in the document of the tenant",
			Note: "ids of devices that have or had the tag"})
	}
	sources := o.At.Add(heatlog.KeepSources)
	return append(out,
		erase.Remains{Place: "sources of charges in the container heat", Until: &sources,
			Note: "texts of queries, which may name the device"},
		erase.Remains{Place: "weights of devices in the container heat", Until: &weights, Note: "ids and request units"},
		erase.Remains{Place: "actions", Note: "the order itself, with the id of the device"},
		erase.Remains{Place: "backups of the account", Note: "for as long as its backup policy keeps them"}), nil
}

// isTagged reports whether an order is about a device of a class of retention by tag, or any such device.
func isTagged(ctx context.Context, client *cosmos.Client, o *erasure.Order) (bool, error) {
	all, err := tenant.NewTenants(client.Documents()).List(ctx)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(all, func(t tenant.Tenant) bool {
		return t.Name == o.Tenant && t.HasTagged(o.Device)
	}), nil
}

// CertifyConfig is what `binnacle erase certificate` works with.
type CertifyConfig struct {
	Order string `arg:"" help:"Id of the order, as tenant erasures lists it."`

	Account AccountConfig `kong:"embed,group='Cosmos DB'"`
	Kafka   kafka.Config  `kong:"embed,group='Kafka'"`

	CertificateConfig `kong:"embed"`
}

// Run writes the certificate of an order that is cleared.
func (cfg CertifyConfig) Run(ctx context.Context, env Env) error {
	if cfg.Certificate == "" {
		return errors.New("give --certificate, the file to write")
	}
	signKey, err := cfg.signKey()
	if err != nil {
		return err
	}
	e, v, err := openEraser(ctx, EraseConfig{Account: cfg.Account, Kafka: cfg.Kafka}, env)
	if err != nil {
		return err
	}
	defer e.close()
	if o := v.AllErasures().Find(cfg.Order); o != nil {
		return e.certify(ctx, o, &cfg.CertificateConfig, signKey)
	}
	return fmt.Errorf("%w: %s (see binnacle tenant erasures)", errNoOrder, cfg.Order)
}

var errNoOrder = errors.New("no such order of erasure")

// VerifyConfig is what `binnacle erase verify` works with.
type VerifyConfig struct {
	File string `arg:"" help:"File of the certificate."`

	PublicKey string  `help:"File with the public key of the signature: PEM, PKIX. An unsigned certificate is refused then." placeholder:"FILE"`
	RUs       float64 `name:"rus" help:"Request units a second that the check may take." default:"400"`
	JSON      bool    `name:"json" help:"Print JSON."`
}

// ErrErasureFindings says that something was found that an order should have erased.
var ErrErasureFindings = errors.New("the erasure is not complete")

// Run checks a certificate against the account. It fails with ErrErasureFindings if something is left.
func (cfg VerifyConfig) Run(ctx context.Context, client *cosmos.Client, env Env) error {
	if cfg.RUs <= 0 {
		return fmt.Errorf("--rus %v is not above 0", cfg.RUs)
	}
	file, err := os.ReadFile(cfg.File)
	if err != nil {
		return err
	}
	var key []byte
	if cfg.PublicKey != "" {
		if key, err = os.ReadFile(cfg.PublicKey); err != nil {
			return fmt.Errorf("--public-key: %w", err)
		}
	}
	c, isSigned, err := erase.DecodeCertificate(file, key)
	if err != nil {
		return fmt.Errorf("%s: %w", cfg.File, err)
	}
	if isSigned && key == nil {
		env.Logger.Warn("the signature is not checked: give --public-key")
	}
	directory := control.NewDirectory(control.DirectoryConfig{Documents: client.Documents(), Logger: env.Logger})
	v, err := directory.Refresh(ctx)
	if err != nil {
		return err
	}
	low := cosmos.Priority{Low: true}
	found, err := erase.Verify(ctx, erase.VerifyConfig{Chunks: client.Chunks().At(low), Rollups: client.Rollups(),
		Catalog: client.CatalogAt(low), Annotations: AnnotationsOf(client, directory),
		RUs: cfg.RUs, Logger: env.Logger}, v, c)
	if err != nil {
		return err
	}
	if err := cfg.print(env, c, found); err != nil {
		return err
	}
	if len(found.Findings) > 0 {
		return ErrErasureFindings
	}
	return nil
}

func (cfg *VerifyConfig) print(env Env, c *erase.Certificate, found *erase.Verification) error {
	if cfg.JSON {
		return json.NewEncoder(env.Stdout).Encode(struct {
			Order    string `json:"order"`
			IsSigned bool   `json:"signatureVerified"`
			*erase.Verification
		}{c.Order, cfg.PublicKey != "", found})
	}
	out := env.Stdout
	fmt.Fprintf(out, "erasure %s of tenant %s, device %s: given %s by %s\n", c.Order, c.Tenant, cmp.Or(c.Device, "all"),
		c.Given.Format(time.RFC3339), c.By)
	fmt.Fprintf(out, "read: %d places, %d chunks (%d newer than the order), %d documents of rollups, %d pages of the "+
		"catalog; %.0f RU\n", found.Places, found.Chunks, found.Newer, found.Rollups, found.Pages, found.RUs)
	if found.Expired > 0 {
		fmt.Fprintf(out, "%d chunks that were erased are not there any more: their time to live is over\n", found.Expired)
	}
	if len(found.Findings) == 0 {
		fmt.Fprintln(out, "nothing of what the order erases is stored")
		return nil
	}
	rows := [][]string{{"container", "tenant and shard", "document", "problem"}}
	for _, f := range found.Findings {
		rows = append(rows, []string{cmp.Or(f.Container, "-"), cmp.Or(f.TenantShard, "-"), cmp.Or(f.ID, "-"), f.Problem})
	}
	return report.List(out, rows)
}
