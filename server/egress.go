package server

import (
	"fmt"
	"log/slog"

	"github.com/dvt-engine/dvt/server/config"

	"github.com/dvt-engine/dvt/egress"
)

// newGuard creates the guard for calls to addresses that plans name. With private, it permits private networks. It
// denies all addresses of this installation, except in `dvt dev`, whose samples call it.
func newGuard(c *config.Config, private bool, log *slog.Logger) (*egress.Guard, error) {
	s := egress.Settings{AllowPrivate: private, Rules: c.Egress}
	if !c.Dev {
		s.Own = newOwnAddresses(c, log).contains
	}
	g, err := egress.New(s, log)
	if err != nil {
		return nil, fmt.Errorf("egress: %w", err)
	}
	return g, nil
}
