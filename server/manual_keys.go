package server

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dvt-engine/dvt/control"
)

// manualKeys are the keys of completion tokens (T201).
func (c *Config) manualKeys() ([]control.ManualKey, error) {
	list := make([]string, len(c.ManualKeys))
	for i, k := range c.ManualKeys {
		list[i] = string(k)
	}
	return control.ParseManualKeys(list)
}

// makeManualKey gives `dvt dev` a key of its own, kept in its data directory for
// its owner alone, unless the settings give some.
func (c *Config) makeManualKey() error {
	if len(c.ManualKeys) > 0 {
		return nil
	}
	path := filepath.Join(c.Data, "manual-key")
	kept, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		secret := make([]byte, 32)
		if _, err := rand.Read(secret); err != nil {
			return err
		}
		kept = []byte("dev:" + base64.StdEncoding.EncodeToString(secret) + "\n")
		err = os.WriteFile(path, kept, 0o600)
	}
	if err != nil {
		return fmt.Errorf("the key of manual steps: %w", err)
	}
	c.ManualKeys = []Secret{Secret(strings.TrimSpace(string(kept)))}
	if _, err := c.manualKeys(); err != nil {
		return fmt.Errorf("%s cannot be used (%w): delete it, and dvt makes another", path, err)
	}
	return nil
}
