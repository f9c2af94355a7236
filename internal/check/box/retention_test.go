package box_test

import (
	"context"
	"time"

	"binnacle/internal/tenant"
)

// retentions are changes of retention that are taken back before they come into force: until then nothing is hidden,
// refused or deleted for them (rule X5).
const retentions = "retention"

// takenBackWithin is how long after a change it must be taken back: five minutes less than two hours, for clocks that
// differ.
const takenBackWithin = 2*time.Hour - 10*time.Minute

// startRetention starts `tenant set --retention` with a shorter retention, or takes the last one back.
func (b *box) startRetention(name, text string) *command {
	return b.startCommand("set "+name+" --retention "+text, func(ctx context.Context, c *command) {
		change, err := tenant.RetentionChange(text, c.now())
		if err != nil {
			panic(err)
		}
		if c.service.Check() == nil {
			_ = tenant.NewTenants(documents{c.actor}).Set(ctx, name, change)
		}
	})
}

// actRetention has an operator shorten a retention, or lengthen it again.
func (b *box) actRetention() {
	r := b.operating.rnd
	name := oneOf(r, b.tenants...)
	texts := []string{"1h", "12h", "default=36h", "acme-*=1h", "*-0=12h,default=2d", "forever"}
	if b.operating.set.IsZero() {
		b.operating.set = time.Now()
	}
	b.startRetention(name, oneOf(r, texts...))
}

// endRetention takes back what was set, so that no reading is hidden at the end.
func (b *box) endRetention() bool {
	if !b.operating.retention {
		return true
	}
	if !b.await("commands have ended", b.commandsEnded) {
		return false
	}
	for _, name := range b.tenants {
		b.startRetention(name, "forever")
	}
	if !b.await("retention is taken back", b.commandsEnded) {
		return false
	}
	if set := b.operating.set; !set.IsZero() && time.Since(set) > takenBackWithin {
		b.fail("a run about retention lasts for %s", time.Since(set))
	}
	return true
}
