package ops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/provision"
	"binnacle/internal/tenant"
)

// ExplainRetention is what `binnacle tenant retention explain` works with.
type ExplainRetention struct {
	Tenant string `arg:"" help:"Name of the tenant."`
	Device string `arg:"" optional:"" help:"Id of the device. Default: the classes, and the devices that wait for a confirmation."`

	Output `kong:"embed"`
}

// Run prints which days of a device are gone, and when the others go.
func (cfg ExplainRetention) Run(ctx context.Context, client *cosmos.Client, env Env) error {
	lines, err := cfg.on(client, env).explainRetention(ctx, cfg.Tenant, cfg.Device)
	if err != nil {
		return err
	}
	answer := map[string]any{"tenant": cfg.Tenant, "device": cfg.Device, "retention": lines}
	return env.print(cfg.JSON, answer, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
		return err
	})
}

// explainRetention returns, in sentences, which days of a device are gone, and when the others go; without a device
// what is set, and which devices wait.
func (o tenantOperator) explainRetention(ctx context.Context, name, device string) (out []string, err error) {
	t, err := o.find(ctx, name)
	if err != nil {
		return nil, err
	}
	if device != "" {
		out = t.ExplainRetention(device, time.Now().UnixMilli())
	} else {
		out = append(out, "The retention is "+retentionOf(t)+".")
	}
	retagged, err := o.retagged(ctx, t)
	for _, r := range retagged {
		if r.Device == device && r.Shortens() {
			out = append(out, fmt.Sprintf("Its tags would have it in the class %s, which keeps for less: binnacle tenant "+
				"retention confirm %s --device %s has it there.", tenant.ClassText(r.Found), name, device))
		}
	}
	if waiting := provision.WaitingDevices(retagged); device == "" && waiting != "" {
		out = append(out, fmt.Sprintf("%s. They stay in their classes until binnacle tenant retention confirm %s.",
			waiting, name))
	}
	return out, err
}

// retagged returns the devices that the tags of the catalog would have in other classes.
func (o tenantOperator) retagged(ctx context.Context, t tenant.Tenant) ([]tenant.Retagged, error) {
	found, err := o.tagged(ctx, t, t.RetentionTags())
	return t.Retagged(found), err
}

// tagsConfirmed names devices to put into the classes of their tags.
type tagsConfirmed struct {
	Device string `json:"device" help:"Only this device."`
	Class  string `json:"class" help:"Only devices that leave this class or come to it, as tenant show has it, such as {site=oslo} or default. Default: all devices that wait." placeholder:"CLASS"`
}

// ConfirmRetention is what `binnacle tenant retention confirm` works with.
type ConfirmRetention struct {
	Tenant        string `arg:"" help:"Name of the tenant."`
	tagsConfirmed `kong:"embed"`
	Confirmation  `kong:"embed"`
	Output        `kong:"embed"`
}

// Run has devices in the classes of their tags that keep them for less.
func (cfg ConfirmRetention) Run(ctx context.Context, client *cosmos.Client, env Env) error {
	o := cfg.on(client, env)
	goes, err := o.confirmTags(ctx, cfg.Tenant, cfg.tagsConfirmed, cfg.consent(env, cfg.Tenant))
	return o.changed(ctx, cfg.Tenant, goes, err)
}

// errNoneWaits says that the tags of no such device would shorten its retention.
var errNoneWaits = errors.New("no such device waits for a confirmation: see tenant retention explain")

// confirmTags has devices in the classes of their tags, and returns what goes.
func (o tenantOperator) confirmTags(ctx context.Context, name string, of tagsConfirmed, may consent,
) (goes []string, err error) {
	t, err := o.find(ctx, name)
	if err != nil {
		return nil, err
	}
	found, err := o.tagged(ctx, t, t.RetentionTags())
	if err != nil {
		return nil, err
	}
	var confirmed []tenant.Retagged
	var devices []string
	for _, r := range t.Retagged(found) {
		from, to := tenant.ClassText(r.Stored), tenant.ClassText(r.Found)
		isOf := of.Class == "" || strings.HasPrefix(from, of.Class+"=") || strings.HasPrefix(to, of.Class+"=")
		if r.Shortens() && isOf && (of.Device == "" || r.Device == of.Device) {
			confirmed, devices = append(confirmed, r), append(devices, r.Device)
		}
	}
	if len(devices) == 0 {
		return nil, unfitError{errNoneWaits}
	}
	now := time.Now()
	change, _ := t.ConfirmTagged(found, time.Now, devices)
	v, err := o.vanishing(ctx, name, now, change)
	if err != nil {
		return nil, err
	}
	goes = append(goes, provision.WaitingDevices(confirmed)+".")
	goes = append(goes, v.sentences()...)
	goes = append(goes, fmt.Sprintf("That is hidden for good from %s on. Until some minutes before, the former tags "+
		"undo it.", now.Add(tenant.RetentionNotice).UTC().Format(time.RFC3339)))
	if err := may(goes); err != nil {
		return goes, err
	}
	a := control.Action{Verb: "retention confirm", Tenant: name, Object: of.Device,
		Detail: map[string]string{"devices": strconv.Itoa(len(devices)), "class": of.Class}}
	return goes, o.change(ctx, a, change)
}

func (r tenantRequest) showRetention() (int, any, error) {
	device := r.FormValue("device")
	lines, err := r.explainRetention(r.Context(), r.tenant, device)
	return http.StatusOK, map[string]any{"tenant": r.tenant, "device": device, "retention": lines}, err
}

func (r tenantRequest) confirmRetention() (int, any, error) {
	var body struct {
		tagsConfirmed
		confirmedBody
	}
	if err := r.body(&body); err != nil {
		return 0, nil, err
	}
	goes, err := r.confirmTags(r.Context(), r.tenant, body.tagsConfirmed, body.consent(r.tenant))
	return r.changed(goes, err)
}

type confirmedBody struct {
	Confirm string `json:"confirm"`
	DryRun  bool   `json:"dry-run"`
}

func (b confirmedBody) consent(name string) consent {
	return Confirmation(b).consent(Env{}, name)
}
