package plan

import (
	"regexp"
	"strings"
)

// SecretRef names a secret that the worker reads when it starts an attempt. Parse rejects a plan that contains the
// value of a secret (contract L07).
type SecretRef struct {
	Provider string `json:"provider"` // the name of a provider in the settings of the worker
	// Key is the path of the secret within the part of its tenant and environment, with an optional field behind "#", such
	// as db/warehouse#password.
	Key     string   `json:"key"`
	Version string   `json:"version,omitempty"` // empty: the newest one
	As      SecretAs `json:"as"`
	// Unmasked permits a value that is too short to be masked in the output of the step.
	Unmasked bool `json:"unmasked,omitempty"`
}

// SecretAs is how the program of a step gets a secret. Exactly one field is set. The default of Parse is a file named
// by the field, or else by the end of the path.
type SecretAs struct {
	Env  string `json:"env,omitempty"`  // the name of a variable
	File string `json:"file,omitempty"` // the name of a file in the directory DVT_SECRETS_DIR
}

// Name is the name of the variable or the file. Headers and bodies of HTTP_NOTIFY refer to it as ${secret:NAME}.
func (a SecretAs) Name() string { return a.Env + a.File }

// String returns env:NAME or file:NAME.
func (a SecretAs) String() string {
	if a.Env != "" {
		return "env:" + a.Env
	}
	return "file:" + a.File
}

// DefaultSecretField is the field of a secret for a key that names none.
const DefaultSecretField = "value"

// Field returns the path and the field that the key names.
func (s SecretRef) Field() (path, field string) {
	path, field, found := strings.Cut(s.Key, "#")
	if !found {
		field = DefaultSecretField
	}
	return path, field
}

// Destination returns As, or the default of Parse where a plan from before that field has none.
func (s SecretRef) Destination() SecretAs {
	if s.As.Name() != "" {
		return s.As
	}
	path, field := s.Field()
	if strings.Contains(s.Key, "#") {
		return SecretAs{File: field}
	}
	return SecretAs{File: path[strings.LastIndex(path, "/")+1:]}
}

// HasPath reports whether the key is a path that stays within its directory. Plans from before that rule may have any.
func (s SecretRef) HasPath() bool {
	path, field := s.Field()
	for _, part := range append(strings.Split(path, "/"), field) {
		if !secretSegment.MatchString(part) {
			return false
		}
	}
	return true
}

// String returns provider:key@version (contract T167).
func (s SecretRef) String() string {
	version := s.Version
	if version == "" {
		version = "latest"
	}
	return s.Provider + ":" + s.Key + "@" + version
}

// MaxSecretRefs is the maximum number of secrets of a step.
const MaxSecretRefs = 50

const (
	maxSecretSegments = 8
	reservedVariables = "DVT_"                                   // the prefix of variables that dvt sets
	secretPart        = `[A-Za-z0-9_@+-][A-Za-z0-9_.@+-]{0,127}` // neither . nor ..
	// secretKeyPattern is the form of a key, for the JSON Schema.
	secretKeyPattern = `^` + secretPart + `(/` + secretPart + `){0,7}(#` + secretPart + `)?$`
)

var (
	secretSegment  = regexp.MustCompile(`^` + secretPart + `$`)
	secretVariable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
)

// UsesSecrets reports whether a step of a type can do something with a secret.
func (t StepType) UsesSecrets() bool { return t.RunsProgram() || t == HTTPNotify }

// IsSecretSegment reports whether a text can be one part of the path of a secret. No such part leads out of the
// directory of its tenant.
func IsSecretSegment(text string) bool { return secretSegment.MatchString(text) }

// secretRefs reads the names of the secrets of a step.
func (r *reader) secretRefs(v value, p *at) (refs []SecretRef) {
	names := map[string]bool{}
	r.array(v, p, func(v value, p *at) {
		s := r.secretRef(v, p)
		if name := s.As.Name(); name != "" && names[name] {
			r.report(p, CodeDuplicate, "another secret of the step has the name %q; give each a name by as", name)
		} else {
			names[name] = true
		}
		refs = append(refs, s)
	})
	if len(refs) > MaxSecretRefs {
		r.report(p, CodeRange, "name at most %d secrets", MaxSecretRefs)
	}
	return refs
}

// secretRef reads the name of a secret. It rejects a literal value and does not repeat it in the message (contract
// L07).
func (r *reader) secretRef(v value, p *at) SecretRef {
	var s SecretRef
	o, ok := r.object(v, p)
	if !ok {
		return s
	}
	if v, vp, ok := o.need("provider", "the provider of the secret, such as vault"); ok {
		s.Provider = r.label(v, vp)
	}
	if v, vp, ok := o.need("key", "the path of the secret at its provider"); ok {
		s.Key = r.secretKey(v, vp)
	}
	if v, vp, ok := o.take("version"); ok {
		s.Version = r.label(v, vp)
	}
	if v, vp, ok := o.take("as"); ok {
		s.As = r.secretAs(v, vp)
	} else {
		s.As = s.Destination()
	}
	if v, vp, ok := o.take("unmasked"); ok {
		s.Unmasked = r.boolean(v, vp)
	}
	if _, vp, ok := o.take("value"); ok {
		r.report(vp, CodeLiteral, "remove it: a plan must not contain a secret; it names one by provider and key")
	}
	o.end()
	return s
}

func (r *reader) secretKey(v value, p *at) string {
	key := r.label(v, p)
	ref := SecretRef{Key: key}
	if key != "" && !ref.HasPath() {
		r.report(p, CodeInvalid, "write a path of letters, digits and _ . @ + -, such as db/warehouse#password")
		return ""
	}
	if path, _ := ref.Field(); strings.Count(path, "/") >= maxSecretSegments {
		r.report(p, CodeRange, "shorten the path to %d parts", maxSecretSegments)
	}
	return key
}

func (r *reader) secretAs(v value, p *at) (as SecretAs) {
	o, ok := r.object(v, p)
	if !ok {
		return as
	}
	if v, vp, ok := o.take("env"); ok {
		if as.Env = r.label(v, vp); as.Env != "" && !secretVariable.MatchString(as.Env) {
			r.report(vp, CodeInvalid, "write the name of a variable: letters, digits and _")
		} else if strings.HasPrefix(as.Env, reservedVariables) {
			r.report(vp, CodeReserved, "choose another name: dvt sets the variables %s… itself", reservedVariables)
		}
	}
	if v, vp, ok := o.take("file"); ok {
		if as.File = r.label(v, vp); as.File != "" && !secretSegment.MatchString(as.File) {
			r.report(vp, CodeInvalid, "write the name of a file: letters, digits and _ . @ + -")
		}
	}
	if (as.Env == "") == (as.File == "") {
		r.report(p, CodeInvalid, "write one of env and file")
	}
	o.end()
	return as
}
