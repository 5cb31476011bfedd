package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/dvt-engine/dvt/engine/namespaces"
)

// namespaceStrategy decodes the setting temporal-namespaces over the default namespace. An unknown key is an error.
// `dvt dev` has one namespace, because its own server knows no other.
func namespaceStrategy(setting any, byDefault string, dev bool) (namespaces.Strategy, error) {
	out := namespaces.Strategy{Default: byDefault}
	if setting == nil {
		return out, nil
	}
	if dev {
		return out, errors.New("temporal-namespaces: dvt dev has one namespace: remove the setting")
	}
	if err := strict(setting, &out); err != nil {
		return out, fmt.Errorf("temporal-namespaces: %w", err)
	}
	if err := out.Check(); err != nil {
		return out, fmt.Errorf("temporal-namespaces: %s", strings.ReplaceAll(err.Error(), "\n", "\ntemporal-namespaces: "))
	}
	return out, nil
}

// Strategy returns the setting temporal-namespaces with temporal-namespace as its default. It works for a Config that
// was not loaded, too.
func (c *Config) Strategy() namespaces.Strategy {
	s := c.Namespaces
	s.Default = c.TemporalNamespace
	return s
}
