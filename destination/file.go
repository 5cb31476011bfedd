package destination

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/dvt-engine/dvt/plan"
)

// Limits of a file of destinations.
const (
	MaxDestinations = 100
	MaxFile         = 1 << 20 // bytes
	maxSecrets      = 4
	maxRecipients   = 20
	maxRouteTerms   = 200
	maxTimeout      = time.Minute
)

// Codes of violations.
const (
	ViolationSyntax    = "SYNTAX"
	ViolationUnknown   = "UNKNOWN_FIELD"
	ViolationSecret    = "SECRET_IN_FILE"
	ViolationRequired  = "REQUIRED"
	ViolationInvalid   = "INVALID"
	ViolationDuplicate = "DUPLICATE"
	ViolationTooMany   = "TOO_MANY"
)

// Violation is one thing that is wrong with a file of destinations.
type Violation struct {
	Path string // such as destinations[2].url
	Code string
	Why  string
}

// FileError is all that is wrong with a file of destinations.
type FileError struct{ Violations []Violation }

func (e *FileError) Error() string {
	lines := make([]string, len(e.Violations))
	for i, v := range e.Violations {
		lines[i] = fmt.Sprintf("%s: %s (%s)", v.Path, v.Why, v.Code)
	}
	return strings.Join(lines, "\n")
}

// rawDestination is one entry of the file.
type rawDestination struct {
	Name    string `yaml:"name"`
	Kind    Kind   `yaml:"kind"`
	URL     string `yaml:"url"`
	Format  Format `yaml:"format"`
	Secrets []struct {
		File string `yaml:"file"`
		Env  string `yaml:"env"`
	} `yaml:"secrets"`
	To           []string `yaml:"to"`
	From         string   `yaml:"from"`
	User         string   `yaml:"user"`
	Timeout      string   `yaml:"timeout"`
	AllowPrivate bool     `yaml:"allowPrivate"`
	Route        struct {
		Topics       []Topic  `yaml:"topics"`
		Tenants      []string `yaml:"tenants"`
		Projects     []string `yaml:"projects"`
		Types        []string `yaml:"types"`
		Levels       []string `yaml:"levels"`
		Codes        []string `yaml:"codes"`
		Installation bool     `yaml:"installation"`
	} `yaml:"route"`
}

var (
	fileKeys = []string{"name", "kind", "url", "format", "secrets", "to", "from", "user", "timeout", "allowPrivate",
		"route"}
	nameRule = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)
	// looksSecret finds names of fields under which people write secrets.
	looksSecret = regexp.MustCompile(`(?i)secret|password|passwd|token|key|credential|auth`)
)

// Parse reads a file of destinations in YAML or JSON. The error is a *FileError with every violation. It contains no
// value of a field, because somebody may have written a secret there.
func Parse(doc []byte) ([]Config, error) {
	if len(doc) > MaxFile {
		return nil, &FileError{[]Violation{{"file", ViolationTooMany, fmt.Sprintf("it has more than %d bytes", MaxFile)}}}
	}
	var file struct {
		Destinations []map[string]any `yaml:"destinations"`
	}
	d := yaml.NewDecoder(bytes.NewReader(doc))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, &FileError{[]Violation{{"file", ViolationSyntax,
			"it must be YAML or JSON with one list, destinations, of objects"}}}
	}
	p := parser{names: map[string]bool{}}
	if len(file.Destinations) > MaxDestinations {
		p.bad("destinations", ViolationTooMany, "at most %d are allowed", MaxDestinations)
		return nil, &FileError{p.found}
	}
	var out []Config
	for i, entry := range file.Destinations {
		out = append(out, p.parse(fmt.Sprintf("destinations[%d]", i), entry))
	}
	if len(p.found) > 0 {
		return nil, &FileError{p.found}
	}
	return out, nil
}

type parser struct {
	found []Violation
	names map[string]bool
}

func (p *parser) bad(path, code, format string, args ...any) {
	p.found = append(p.found, Violation{path, code, fmt.Sprintf(format, args...)})
}

func (p *parser) parse(path string, entry map[string]any) Config {
	for _, key := range slices.Sorted(maps.Keys(entry)) {
		switch {
		case slices.Contains(fileKeys, key):
		case looksSecret.MatchString(key):
			p.bad(path+"."+key, ViolationSecret,
				"secrets do not stand in this file: name a file or a variable of the environment under secrets")
		default:
			p.bad(path+"."+key, ViolationUnknown, "the field is unknown; use %s", strings.Join(fileKeys, ", "))
		}
	}
	known := maps.Clone(entry)
	maps.DeleteFunc(known, func(key string, _ any) bool { return !slices.Contains(fileKeys, key) })
	var raw rawDestination
	doc, err := yaml.Marshal(known)
	if err == nil {
		d := yaml.NewDecoder(bytes.NewReader(doc))
		d.KnownFields(true)
		err = d.Decode(&raw)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		p.bad(path, ViolationSyntax, "a field has the wrong type, or secrets or route has an unknown field")
		return Config{}
	}
	c := Config{Name: raw.Name, Kind: raw.Kind, URL: raw.URL, Format: raw.Format, From: raw.From, To: raw.To,
		User: raw.User, AllowPrivate: raw.AllowPrivate, Route: Route(raw.Route)}
	for _, s := range raw.Secrets {
		c.Secrets = append(c.Secrets, SecretRef(s))
	}
	if raw.Timeout != "" {
		if c.Timeout, err = time.ParseDuration(raw.Timeout); err != nil || c.Timeout <= 0 || c.Timeout > maxTimeout {
			p.bad(path+".timeout", ViolationInvalid, "it must be a time such as 10s, at most %s", plan.DurationText(maxTimeout))
		}
	}
	p.check(path, c)
	return c
}

// check judges what does not depend on the kind; the sender of the kind judges the rest.
func (p *parser) check(path string, c Config) {
	switch {
	case c.Name == "":
		p.bad(path+".name", ViolationRequired, "it is missing")
	case !nameRule.MatchString(c.Name):
		p.bad(path+".name", ViolationInvalid, "it must be 1 to 63 of a-z, 0-9 and -")
	case p.names[c.Name]:
		p.bad(path+".name", ViolationDuplicate, "another destination has the name %s", c.Name)
	}
	p.names[c.Name] = true
	kinds := []Kind{Webhook, PagerDuty, Slack, Email, Syslog, File}
	if !slices.Contains(kinds, c.Kind) {
		p.bad(path+".kind", ViolationInvalid, "it must be webhook, pagerduty, slack, email, syslog or file")
	}
	if u, err := url.Parse(c.URL); err != nil {
		p.bad(path+".url", ViolationInvalid, "it cannot be parsed")
	} else if u.User != nil {
		p.bad(path+".url", ViolationSecret, "it has a user or a password: name a secret instead")
	} else if c.URL == "" && c.Kind != PagerDuty {
		p.bad(path+".url", ViolationRequired, "it is missing")
	}
	if len(c.Secrets) > maxSecrets {
		p.bad(path+".secrets", ViolationTooMany, "at most %d are allowed", maxSecrets)
	}
	for i, s := range c.Secrets {
		if (s.File == "") == (s.Env == "") {
			p.bad(fmt.Sprintf("%s.secrets[%d]", path, i), ViolationInvalid, "give either file or env")
		}
	}
	if len(c.To) > maxRecipients {
		p.bad(path+".to", ViolationTooMany, "at most %d are allowed", maxRecipients)
	}
	for i, t := range c.Route.Topics {
		if t != Events && t != Alerts && t != Audit && t != Lineage {
			p.bad(fmt.Sprintf("%s.route.topics[%d]", path, i), ViolationInvalid, "it must be events, alerts, audit or lineage")
		}
	}
	for i, l := range c.Route.Levels {
		if l != "LOW" && l != "MEDIUM" && l != "HIGH" {
			p.bad(fmt.Sprintf("%s.route.levels[%d]", path, i), ViolationInvalid, "it must be LOW, MEDIUM or HIGH")
		}
	}
	p.checkAudit(path, c)
	p.checkLineage(path, c)
	r := c.Route
	if len(r.Topics)+len(r.Tenants)+len(r.Projects)+len(r.Types)+len(r.Levels)+len(r.Codes) > maxRouteTerms {
		p.bad(path+".route", ViolationTooMany, "at most %d values are allowed", maxRouteTerms)
	}
}

// checkAudit judges the topic audit. A record belongs to a tenant and to nothing smaller, so a route that names less
// would send more than it says.
func (p *parser) checkAudit(path string, c Config) {
	r := c.Route
	if !slices.Contains(r.Topics, Audit) {
		if c.Kind == File && !c.TakesLineage() {
			p.bad(path+".route.topics", ViolationInvalid,
				"a file takes records of the audit, or lineage: set it to [audit] or [lineage]")
		}
		return
	}
	switch {
	case c.Kind != Webhook && c.Kind != Syslog && c.Kind != File:
		p.bad(path+".route.topics", ViolationInvalid, "records of the audit go to webhook, syslog or file")
	case c.Kind == Syslog && strings.HasPrefix(c.URL, "udp:"):
		p.bad(path+".url", ViolationInvalid, "records of the audit go over tls:// or tcp://, because udp:// loses some")
	case c.Kind == File && len(r.Topics) > 1:
		p.bad(path+".route.topics", ViolationInvalid, "a file takes one topic: set it to [audit] or [lineage]")
	}
	if len(r.Projects)+len(r.Types)+len(r.Levels)+len(r.Codes) > 0 {
		p.bad(path+".route", ViolationInvalid, "records of the audit are selected by tenants only: use another destination "+
			"for events or alerts that are selected by projects, types, levels or codes")
	}
}

// checkLineage judges the topic lineage and the format of the body.
func (p *parser) checkLineage(path string, c Config) {
	if c.Format != "" && c.Format != OpenLineage {
		p.bad(path+".format", ViolationInvalid, "it must be openlineage, or absent")
	}
	if !c.TakesLineage() {
		if c.Format == OpenLineage {
			p.bad(path+".format", ViolationInvalid, "only lineage has the format openlineage: set route.topics to [lineage]")
		}
		return
	}
	if c.Kind != Webhook && c.Kind != File {
		p.bad(path+".route.topics", ViolationInvalid, "lineage goes to webhook or file")
	}
	if len(c.Route.Topics) > 1 {
		p.bad(path+".route.topics", ViolationInvalid, "lineage has a destination of its own: set it to [lineage]")
	}
	if c.Format != "" && c.Kind != Webhook {
		p.bad(path+".format", ViolationInvalid, "only a webhook has a format")
	}
}
