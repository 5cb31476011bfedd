package config

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// settingsTable has a line for each setting: key, default, default of `dvt dev`, when a change takes effect, and what
// it is, divided by tabs. A test writes it from the table of settings in docs/operations.md.
//
//go:embed settings.tsv
var settingsTable string

// Effect is when a change of a setting takes effect.
type Effect string

// The effects.
const (
	AtStart  Effect = "start"  // when the process starts again
	OfFile   Effect = "file"   // the content of the file that it names is followed; another name counts at the start
	AtSignal Effect = "SIGHUP" // when the process gets SIGHUP
)

// Explained is what a setting means, and its value in one process.
type Explained struct {
	Key      string `json:"key"`
	Value    string `json:"value"` // of a secret "set"; empty without a value
	Source   Source `json:"source"`
	Default  string `json:"default,omitempty"` // in words
	Variable string `json:"variable"`          // of the environment
	Effect   Effect `json:"takesEffect"`
	Meaning  string `json:"meaning"`
}

// Explain returns every setting, by key, with its value and the source of the value. Unknown keys and invalid values
// are no errors here. It never returns a secret.
func Explain(f *pflag.FlagSet, dev bool) ([]Explained, error) {
	ls, err := readLayers(f, dev)
	if err != nil {
		return nil, err
	}
	rows := settingRows()
	out := make([]Explained, 0, len(rows))
	for _, key := range Keys() {
		e := rows[key]
		e.Key, e.Variable = key, VariableOf(key)
		var value any
		value, e.Source = ls.of(key)
		e.Value = shownValue(key, value)
		out = append(out, e)
	}
	return out, nil
}

// settingRows parses settingsTable.
func settingRows() map[string]Explained {
	out := map[string]Explained{}
	for line := range strings.Lines(settingsTable) {
		if cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); len(cells) == 5 {
			out[cells[0]] = Explained{Default: cells[1], Effect: Effect(cells[3]), Meaning: cells[4]}
		}
	}
	return out
}

// shownValue returns a value for people. A secret, and a document that may hold one, is "set".
func shownValue(key string, value any) string {
	if value == nil || value == "" {
		return ""
	}
	if secretKeys()[key] {
		return "set"
	}
	switch v := value.(type) {
	case string:
		return withoutPassword(v)
	case []string:
		return strings.Join(v, ",")
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}

// secretKeys returns the settings whose values are secrets or documents with secrets.
func secretKeys() map[string]bool {
	out := map[string]bool{"accounts": true, "oidc": true}
	for _, key := range secretSettings() {
		out[key] = true
	}
	return out
}

// withoutPassword hides the password of an address. An address that cannot be parsed, and a list of keywords of libpq,
// may hold one anywhere, so nothing of them is shown.
func withoutPassword(text string) string {
	if !strings.Contains(text, "://") {
		return text
	}
	u, err := url.Parse(text)
	if err != nil {
		return "set"
	}
	query := u.Query()
	for name := range query {
		if strings.Contains(strings.ToLower(name), "pass") && !strings.HasSuffix(strings.ToLower(name), "file") {
			query.Set(name, "xxxxx")
			u.RawQuery = query.Encode()
		}
	}
	return u.Redacted()
}

// Reload says what a change of the file of settings does in a process that read the file before.
type Reload struct {
	Took    []string // settings with the effect SIGHUP that are in force now
	Restart []string // settings that count when the process starts again
	Hidden  []string // settings that changed in the file, while the environment or a flag gives the value
}

// Reloader reads the file of settings again. It is not safe for concurrent use.
type Reloader struct {
	flags *pflag.FlagSet
	dev   bool
	last  layers
}

// NewReloader returns a reloader that compares with the settings as they are now. Create it before ForgetEnvironment,
// and from the flags that Load got.
func NewReloader(f *pflag.FlagSet, dev bool) (*Reloader, error) {
	ls, err := readLayers(f, dev)
	return &Reloader{flags: f, dev: dev, last: ls}, err
}

// Reload reads the file again and returns its settings and what changed. The environment and the flags are those of the
// start of the process. When the file is invalid, it returns the errors of Load, and the next Reload compares with the
// content before.
func (r *Reloader) Reload() (c Config, changed Reload, err error) {
	now, err := readLayers(r.flags, r.dev)
	if err != nil {
		return c, changed, err
	}
	for i := range now.all { // secrets were removed from the environment since
		if now.all[i].source == FromEnvironment {
			now.all[i].keys = r.last.layer(FromEnvironment).keys
		}
	}
	now.unknown = slices.DeleteFunc(now.unknown, func(key string) bool { return strings.HasPrefix(key, "DVT_") })
	if c, err = now.load(r.dev); err != nil {
		return c, changed, err
	}
	before, after := r.last.layer(FromFile), now.layer(FromFile)
	rows := settingRows()
	for _, key := range changedKeys(before, after) {
		_, source := now.of(key)
		switch {
		case source == FromEnvironment || source == FromFlag:
			changed.Hidden = append(changed.Hidden, key)
		case rows[key].Effect == AtSignal:
			changed.Took = append(changed.Took, key)
		default:
			changed.Restart = append(changed.Restart, key)
		}
	}
	r.last = now
	return c, changed, nil
}

// layer returns what a source gives; the zero value when there is no such layer.
func (ls layers) layer(source Source) layer {
	for _, l := range ls.all {
		if l.source == source {
			return l
		}
	}
	return layer{source: source}
}

// changedKeys returns the settings whose values differ, sorted.
func changedKeys(before, after layer) (out []string) {
	value := func(l layer, key string) any {
		if l.keys == nil {
			return nil
		}
		return l.keys.Get(key)
	}
	names := map[string]bool{}
	for _, l := range []layer{before, after} {
		if l.keys != nil {
			for _, key := range l.keys.Keys() {
				names[topKey(key)] = true
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(names)) {
		if !reflect.DeepEqual(value(before, key), value(after, key)) {
			out = append(out, key)
		}
	}
	return out
}
