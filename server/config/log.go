package config

import (
	"fmt"
	"log/slog"
	"slices"
)

// verifyLog returns all errors in the settings of the log.
func (c *Config) verifyLog() (errs []error) {
	if err := new(slog.LevelVar).UnmarshalText([]byte(c.LogLevel)); err != nil {
		errs = append(errs, fmt.Errorf("log-level must be debug, info, warn or error, not %q", c.LogLevel))
	}
	if !slices.Contains([]string{"", "json", "text"}, c.LogFormat) {
		errs = append(errs, fmt.Errorf("log-format must be json or text, not %q", c.LogFormat))
	}
	return errs
}
