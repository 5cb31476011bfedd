package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// keyDelimiter divides the keys of nested settings. No key contains it.
const keyDelimiter = "\x00"

// Source is where the value of a setting comes from.
type Source string

// The sources, in the order of their precedence.
const (
	FromDefault     Source = "default"
	FromFile        Source = "file"
	FromEnvironment Source = "environment"
	FromFlag        Source = "flag"
)

// layer is what one source gives.
type layer struct {
	source Source
	keys   *koanf.Koanf
}

// layers are the settings by their source, in the order of their precedence.
type layers struct {
	all     []layer
	file    string   // path of the file of settings, or empty
	unknown []string // keys and variables that are no settings
}

// FileError is the error of a settings file that cannot be read. Nothing is known about its settings then.
type FileError struct {
	Path string
	Err  error
}

func (e *FileError) Error() string {
	if p, ok := errors.AsType[*fs.PathError](e.Err); ok {
		return fmt.Sprintf("the file %s cannot be read: %v: check the path of --config and its rights", e.Path, p.Err)
	}
	return fmt.Sprintf("the file %s cannot be read as YAML: %v", e.Path, e.Err)
}

func (e *FileError) Unwrap() error { return e.Err }

// readLayers reads every source. Its error is that of the file; unknown keys are none.
func readLayers(f *pflag.FlagSet, dev bool) (ls layers, err error) {
	add := func(source Source, p koanf.Provider, parse koanf.Parser) error {
		k := koanf.New(keyDelimiter)
		ls.all = append(ls.all, layer{source, k})
		return k.Load(p, parse)
	}
	if err := add(FromDefault, confmap.Provider(Defaults(dev), keyDelimiter), nil); err != nil {
		return ls, err
	}
	if path, err := f.GetString("config"); err == nil && path != "" {
		ls.file = path
		if err := add(FromFile, file.Provider(path), yaml.Parser()); err != nil {
			return ls, &FileError{path, err}
		}
	}
	known, grouped := knownKeys(), groupedKeys()
	if err := add(FromEnvironment, env.Provider(keyDelimiter, env.Opt{Prefix: "DVT_",
		TransformFunc: func(key, v string) (string, any) {
			name := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(key, "DVT_"), "_", "-"))
			switch {
			case clientVariables[name]:
				return "", nil
			case !known[name]:
				ls.unknown = append(ls.unknown, key)
				return "", nil
			case listKeys[name] || grouped[name]:
				return name, strings.Split(v, ",")
			}
			return name, v
		}}), nil); err != nil {
		return ls, err
	}
	if err := add(FromFlag, posflag.ProviderWithFlag(f, keyDelimiter, nil, func(fl *pflag.Flag) (string, any) {
		if !fl.Changed || fl.Name == "config" {
			return "", nil
		}
		return fl.Name, posflag.FlagVal(f, fl)
	}), nil); err != nil {
		return ls, err
	}
	for _, l := range ls.all {
		for _, key := range l.keys.Keys() {
			if !known[topKey(key)] {
				ls.unknown = append(ls.unknown, key)
			}
		}
	}
	return ls, nil
}

// topKey returns the setting that a key of a nested value belongs to.
func topKey(key string) string {
	top, _, _ := strings.Cut(key, keyDelimiter)
	return top
}

// of returns the value of a setting and its source.
func (ls layers) of(key string) (value any, source Source) {
	for _, l := range slices.Backward(ls.all) {
		if l.keys.Exists(key) {
			return l.keys.Get(key), l.source
		}
	}
	return nil, FromDefault
}

// unknownKey returns the error for a setting that dvt does not have, with the most similar one. For a name that
// contains fail-open it also says why: dvt never acts on an event before the log has accepted it (contract B05, T216).
func unknownKey(key string) error {
	key = strings.ReplaceAll(key, keyDelimiter, ".")
	plain := strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(key))
	if strings.Contains(plain, "failopen") && !strings.Contains(plain, "neverfailopen") {
		return fmt.Errorf(
			"%s is not offered: no event is fail-open, a step begins and ends only when the log has answered (StepStarted, "+
				"StepCompleted, StepFailed); remove it", key)
	}
	if near := nearestKey(key); near != "" {
		return fmt.Errorf("%s is not a setting of dvt; did you mean %s?", key, near)
	}
	return fmt.Errorf("%s is not a setting of dvt", key)
}

// nearestKey returns the setting whose name is most similar to a key or a DVT_ variable, or "" when none is similar.
func nearestKey(key string) string {
	variable := strings.HasPrefix(key, "DVT_")
	typed := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(key, "DVT_"), "_", "-"))
	best, least := "", 1+max(2, len(typed)/4)
	for _, name := range slices.Sorted(maps.Keys(knownKeys())) {
		if d := levenshtein.ComputeDistance(typed, name); d < least {
			best, least = name, d
		}
	}
	if best != "" && variable {
		return VariableOf(best)
	}
	return best
}

// VariableOf returns the environment variable of a setting.
func VariableOf(key string) string {
	return "DVT_" + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
}

// IsSetting reports whether name is the key of a setting.
func IsSetting(name string) bool { return knownKeys()[name] }

// Keys returns the keys of all settings, sorted.
func Keys() []string { return slices.Sorted(maps.Keys(knownKeys())) }
