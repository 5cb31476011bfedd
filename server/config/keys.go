package config

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/store/subject"
)

// ParseManualKeys parses manual-keys, the keys of completion tokens (contract T201).
func (c *Config) ParseManualKeys() ([]runs.ManualKey, error) {
	return runs.ParseManualKeys(Strings(c.ManualKeys))
}

// ParseTicketKeys parses ticket-keys, the keys of dispatch tickets.
func (c *Config) ParseTicketKeys() (ticket.Keys, error) {
	return ticket.ParseKeys(Strings(c.TicketKeys))
}

// NeedsTicketKeys reports whether a duty creates or checks proofs. The duty api serves the Journal, dispatch seals the
// executions that it starts, and reconcile terminates executions without a seal.
func NeedsTicketKeys(duty string) bool {
	return duty == "api" || duty == "dispatch" || duty == "reconcile"
}

// RequireTicketKeys returns an error when a process that must check tickets has no ticket-keys.
func (c *Config) RequireTicketKeys() error {
	if len(c.TicketKeys) > 0 {
		return nil
	}
	return errors.New("ticket-keys is missing: without it no run and no step can begin. Give every server and every " +
		"control worker the same list, " +
		"in the settings file or as DVT_TICKET_KEYS=k1:SECRET; make a secret with `openssl rand -base64 32`")
}

// Strings returns the secrets in plain text. Nothing may print them.
func Strings(secrets []Secret) []string {
	out := make([]string, len(secrets))
	for i, k := range secrets {
		out[i] = string(k)
	}
	return out
}

// MakeKeys creates keys for `dvt dev` that the settings do not give.
func (c *Config) MakeKeys() error {
	manual := func() error { _, err := c.ParseManualKeys(); return err }
	tickets := func() error { _, err := c.ParseTicketKeys(); return err }
	subjects := func() error { _, err := subject.Parse(Strings(c.SubjectKeys)); return err }
	err := errors.Join(c.makeKey(&c.ManualKeys, "manual-key", manual), c.makeKey(&c.TicketKeys, "ticket-key", tickets))
	if c.SubjectKeysFile != "" {
		return err
	}
	return errors.Join(err, c.makeKey(&c.SubjectKeys, "subject-key", subjects))
}

// makeKey loads the key in a file of the data directory into keys, and creates the file, readable only by its owner, at
// the first start. It does nothing when the settings give keys.
func (c *Config) makeKey(keys *[]Secret, file string, check func() error) error {
	if len(*keys) > 0 {
		return nil
	}
	path := filepath.Join(c.Data, file)
	line, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		secret := make([]byte, 32)
		if _, err := rand.Read(secret); err != nil {
			return err
		}
		line = []byte("dev:" + base64.StdEncoding.EncodeToString(secret) + "\n")
		err = os.WriteFile(path, line, 0o600)
	}
	if err != nil {
		return fmt.Errorf("the key of dvt dev: %w", err)
	}
	*keys = []Secret{Secret(strings.TrimSpace(string(line)))}
	if err := check(); err != nil {
		return fmt.Errorf("%s cannot be used (%w): delete it, and dvt creates another", path, err)
	}
	return nil
}
