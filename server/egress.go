package server

import (
	"fmt"
	"log/slog"

	"github.com/dvt-engine/dvt/egress"
)

// egressRules parses the setting egress. Unknown keys, and rules that are not a host, an address or a network, are
// errors.
func egressRules(said any) (map[string]egress.Rules, error) {
	if said == nil {
		return nil, nil
	}
	out := map[string]egress.Rules{}
	if err := strict(said, &out); err != nil {
		return nil, fmt.Errorf("egress: %w", err)
	}
	if _, err := egress.New(egress.Settings{Rules: out}, nil); err != nil {
		return nil, fmt.Errorf("egress: %w", err)
	}
	return out, nil
}

// guard creates the guard for calls to addresses that plans name. With private, it permits private networks. It permits
// no address of this installation, except in `dvt dev`, whose samples call it.
func (c *Config) guard(private bool, log *slog.Logger) (*egress.Guard, error) {
	s := egress.Settings{AllowPrivate: private, Rules: c.Egress}
	if !c.dev {
		s.Own = newOwnAddresses(c, log).contains
	}
	g, err := egress.New(s, log)
	if err != nil {
		return nil, fmt.Errorf("egress: %w", err)
	}
	return g, nil
}
