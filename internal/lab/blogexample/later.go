package blogexample

import "context"

// later measures what the change feed's reader does after a command, and after nothing.
func (m *measuring) later(ctx context.Context, s *Spreader) ([]Later, error) {
	b, v := m.blog, m.blog.version
	if _, err := s.CatchUp(ctx); err != nil {
		return nil, err
	}
	renamed := m.data.users[0]
	renamed.Username = "renamed " + renamed.Username
	cases := []struct {
		after, does string
		since       Version
		do          func(context.Context) error
	}{
		{"nothing", "asks both feeds", V2, func(context.Context) error { return nil }},
		{"C1 with a new name", "gives it to what the user wrote", V2,
			func(ctx context.Context) error { _, err := b.PutUser(ctx, renamed); return err }},
		{"C2", "copies the post twice", V3, func(ctx context.Context) error { _, err := m.command("C2")(ctx); return err }},
		{"C3", "brings the copies' counts up to date", V3, func(ctx context.Context) error {
			_,
				err := m.command("C3")(ctx)
			return err
		}},
	}
	var out []Later
	for _, c := range cases {
		if v < c.since {
			continue
		}
		if err := c.do(ctx); err != nil {
			return nil, err
		}
		w, err := s.CatchUp(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, Later{
			Version: v.String(), After: c.after, Does: c.does, Items: w.Renamed + w.Copied + w.Fronted,
			Read: w.Read.RUs, Work: w.Renames.RUs + w.Copies.RUs + w.Front.RUs,
		})
	}
	return out, nil
}
