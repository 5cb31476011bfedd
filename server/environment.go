package server

import (
	"log/slog"
	"os"
	"slices"
	"strings"
)

// secretVariables are the variables of settings that are secrets, or may hold one.
func secretVariables() []string {
	return []string{
		"DVT_WORKER_TOKEN", "DVT_STORE", "DVT_REDIS", "DVT_SIGN_IN_KEY", "DVT_MANUAL_KEYS", "DVT_TICKET_KEYS",
		"DVT_PAYLOAD_KEYS", "DVT_DISPATCH_KEYS",
	}
}

// ForgetEnvironment takes the secrets of the settings out of the environment of this process, once Load has read them,
// so that nothing that it starts inherits them. Where the system allows it they also leave the text that other
// processes of the same user can read, as /proc/PID/environ on Linux. It does what it can: a secret in a file is never
// there.
func ForgetEnvironment() {
	var values []string
	for _, name := range secretVariables() {
		if value, ok := os.LookupEnv(name); ok {
			values = append(values, name+"="+value)
			_ = os.Unsetenv(name) // it fails for names that are none
		}
	}
	if len(values) > 0 {
		eraseEnvironment(func(variable string) bool { return slices.Contains(values, variable) })
	}
}

// WarnOfReadableFiles names files of secrets that every user of this machine can read. settings is the file of
// --config, or empty; it counts because it may hold secrets.
func (c *Config) WarnOfReadableFiles(log *slog.Logger, settings string) {
	for _, path := range append(c.secretFiles(), settings) {
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o004 != 0 {
			log.Warn("every user of this machine can read a file of secrets: chmod o-r", slog.String("file", path))
		}
	}
}

// secretFiles are the files of secrets that the settings name.
func (c *Config) secretFiles() []string {
	return slices.DeleteFunc([]string{
		c.TemporalTLSKey, c.TemporalAPIKeyFile, c.StorePasswordFile, c.RedisTLSKey, c.RedisPasswordFile, c.ListenTLSKey,
		c.ServerTLSKey, c.WorkerTokenFile, c.PayloadKeysFile, c.DispatchKeysFile,
	}, func(path string) bool { return path == "" })
}

// erasures are where in a block of variables, each ended by a zero byte, the values of some stand: offset and length.
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
