package config

import (
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/dvt-engine/dvt/internal/secretfile"
	"github.com/dvt-engine/dvt/secret/providers"
)

// secretSettings returns the keys of the settings of the type Secret.
func secretSettings() (keys []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		if f.Type == reflect.TypeFor[Secret]() || f.Type == reflect.TypeFor[[]Secret]() {
			keys = append(keys, f.Tag.Get("koanf"))
		}
	}
	return keys
}

// secretVariables returns the environment variables of settings that are or may contain secrets: the addresses may have
// a password in them.
func secretVariables() (names []string) {
	for _, key := range append(secretSettings(), "store", "redis") {
		names = append(names, VariableOf(key))
	}
	return names
}

// ForgetEnvironment removes the secrets of the settings from the environment of this process, so that child processes
// do not inherit them. Call it after Load. On Linux it also erases them from the text that other processes of the same
// user can read in /proc/PID/environ. It is best effort; secrets in files never enter the environment.
func ForgetEnvironment() {
	var values []string
	for _, name := range secretVariables() {
		if value, ok := os.LookupEnv(name); ok {
			values = append(values, name+"="+value)
			_ = os.Unsetenv(name) // fails only for invalid names
		}
	}
	if len(values) > 0 {
		eraseEnvironment(func(variable string) bool { return slices.Contains(values, variable) })
	}
}

// WarnOfReadableFiles logs a warning for each file of secrets that every user of this machine can read. settings is the
// path of the --config file, or empty; it is checked too, because it may contain secrets.
func (c *Config) WarnOfReadableFiles(log *slog.Logger, settings string) {
	for _, path := range append(c.SecretFiles(), settings) {
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o004 != 0 {
			log.Warn("every user of this machine can read this file, which may hold secrets: chmod o-r",
				slog.String("file", path))
		}
	}
}

// SecretFiles returns the files of secrets in the settings.
func (c *Config) SecretFiles() []string {
	files := []string{
		c.TemporalTLSKey, c.TemporalAPIKeyFile, c.StorePasswordFile, c.RedisTLSKey, c.RedisPasswordFile, c.ListenTLSKey,
		c.ServerTLSKey, c.WorkerTokenFile, c.PayloadKeysFile, c.DispatchKeysFile, c.SubjectKeysFile, c.AuditHeadsKey,
	}
	files = append(files, providers.Files(c.Secrets)...)
	for _, issuer := range c.Issuers {
		files = append(files, issuer.ClientSecretFile)
	}
	files = append(files, c.destinationSecrets()...)
	return slices.DeleteFunc(files, func(path string) bool { return path == "" })
}

// erasures returns the offset and length of each value to erase. block is a sequence of variables that end with a zero
// byte.
func erasures(block string, erase func(variable string) bool) (out [][2]int) {
	at := 0
	for variable := range strings.SplitSeq(block, "\x00") {
		if name, value, ok := strings.Cut(variable, "="); ok && erase(variable) {
			out = append(out, [2]int{at + len(name) + 1, len(value)})
		}
		at += len(variable) + 1
	}
	return out
}

// Certificates returns the files of each end of TLS connections that the settings name, without those of the store,
// which stand in its address. The authority of clients is the CA of the listener.
func (c *Config) Certificates() []secretfile.Files {
	return []secretfile.Files{
		{CA: c.TemporalTLSCA, Cert: c.TemporalTLSCert, Key: c.TemporalTLSKey},
		{CA: c.RedisTLSCA, Cert: c.RedisTLSCert, Key: c.RedisTLSKey},
		{CA: c.ListenTLSClientCA, Cert: c.ListenTLSCert, Key: c.ListenTLSKey},
		{CA: c.ServerTLSCA, Cert: c.ServerTLSCert, Key: c.ServerTLSKey},
	}
}
