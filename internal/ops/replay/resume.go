package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// checkpoint is how far a backfill's file is published, in a file beside it. It saves time and promises nothing: what
// is published twice is answered once.
type checkpoint struct {
	path string // "" for none

	Size      int64  `json:"size"` // of the file, as Modified
	Modified  int64  `json:"modified"`
	Topic     string `json:"topic"`
	Published int    `json:"published"` // its first elements, all acknowledged
}

// checkpointEvery is after how many elements the checkpoint is stored.
const checkpointEvery = 20_000

// checkpointOf returns that of a file, with what an earlier replay has published of it. Where times are shifted, or
// there is no backfill, there is none.
func checkpointOf(cfg Config) (*checkpoint, error) {
	c := &checkpoint{Topic: cfg.Topic}
	if cfg.Grant == nil || cfg.ShiftTo != "" {
		return c, nil
	}
	info, err := os.Stat(cfg.File)
	if err != nil {
		return nil, err
	}
	c.path, c.Size, c.Modified = cfg.File+".replayed", info.Size(), info.ModTime().UnixNano()
	text, err := os.ReadFile(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	var was checkpoint
	if err == nil {
		err = json.Unmarshal(text, &was)
	}
	if err != nil {
		return nil, fmt.Errorf("read how far an earlier replay was; remove %s to begin again: %w", c.path, err)
	}
	if was.Size == c.Size && was.Modified == c.Modified && was.Topic == c.Topic {
		c.Published = was.Published
	}
	return c, nil
}

// store stores that so many elements are published.
func (c *checkpoint) store(published int) error {
	c.Published = published
	text, err := json.Marshal(c)
	if err == nil {
		err = os.WriteFile(c.path+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(c.path+".new", c.path)
	}
	if err != nil {
		return fmt.Errorf("store how far the replay is: %w", err)
	}
	return nil
}

// end removes the file.
func (c *checkpoint) end() error {
	if c.path == "" {
		return nil
	}
	if err := os.Remove(c.path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
