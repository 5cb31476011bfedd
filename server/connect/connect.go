// Package connect opens the connections of a dvt process as its settings say: the store, Redis, Temporal, the Journal
// and the sandbox. Servers, workers and `dvt preflight` open them by it, so that preflight tries what a process uses.
package connect

import (
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"

	"github.com/dvt-engine/dvt/server/config"

	"github.com/dvt-engine/dvt/engine/remote"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/internal/secretfile"
	"github.com/dvt-engine/dvt/live/redisbus"
	"github.com/dvt-engine/dvt/store/postgres"
)

// Temporal returns the settings of the connection to Temporal. With dispatchOnly, as in data workers, it
// omits payload-keys when dispatch-keys are set.
func Temporal(c *config.Config, log *slog.Logger, dispatchOnly bool) (to temporal.Connection, err error) {
	to = temporal.Connection{HostPort: c.Temporal, Namespace: c.TemporalNamespace, Dial: c.DialTemporal}
	if c.UsesTemporalTLS() {
		name := c.TemporalTLSServerName
		if name == "" {
			name = hostOf(c.Temporal)
		}
		files := secretfile.Files{CA: c.TemporalTLSCA, Cert: c.TemporalTLSCert, Key: c.TemporalTLSKey}
		if to.TLS, err = files.Client(log, name); err != nil {
			return to, fmt.Errorf("temporal-tls: %w", err)
		}
	}
	if c.TemporalAPIKeyFile != "" {
		key, err := secretfile.Text(log, c.TemporalAPIKeyFile)
		if err != nil {
			return to, fmt.Errorf("temporal-api-key-file: %w", err)
		}
		to.APIKey = key.Get
	}
	to.Payloads, err = Payloads(c, log, dispatchOnly)
	return to, err
}

// hostOf returns the host of host:port.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// Payloads returns the codec of payloads, or nil without keys: Temporal then stores payloads unencrypted.
func Payloads(c *config.Config, log *slog.Logger, dispatchOnly bool) (*temporal.Payloads, error) {
	own, dispatch := KeyList{List: config.Strings(c.PayloadKeys), File: c.PayloadKeysFile},
		KeyList{List: config.Strings(c.DispatchKeys), File: c.DispatchKeysFile}
	if dispatchOnly && !dispatch.Empty() {
		own = KeyList{}
	}
	if own.Empty() && dispatch.Empty() {
		return nil, nil
	}
	var paths []string
	for _, l := range []KeyList{own, dispatch} {
		if l.File != "" {
			paths = append(paths, l.File)
		}
	}
	parse := func(contents [][]byte) (temporal.PayloadKeys, error) {
		keys, err := temporal.ParsePayloadKeys(own.Read(&contents), dispatch.Read(&contents))
		if err == nil && keys.Empty() {
			err = ErrNoKeys
		}
		return keys, err
	}
	if len(paths) == 0 {
		keys, err := parse(nil)
		if err != nil {
			return nil, fmt.Errorf("payload-keys and dispatch-keys: %w", err)
		}
		return temporal.NewPayloads(func() temporal.PayloadKeys { return keys }), nil
	}
	keys, err := secretfile.Open(log, parse, paths...)
	if err != nil {
		return nil, fmt.Errorf("payload-keys and dispatch-keys: %w", err)
	}
	return temporal.NewPayloads(keys.Get), nil
}

// ErrNoKeys is the error of a list of keys, or of its file, without a key.
var ErrNoKeys = fmt.Errorf("there is no key: write id:SECRET, one per line, with a secret of `openssl rand -base64 32`")

// KeyList is a list of keys, given either in the settings or as a file.
type KeyList struct {
	List []string
	File string
}

// Empty reports whether there is neither a list nor a file.
func (l KeyList) Empty() bool { return len(l.List) == 0 && l.File == "" }

// Read returns the keys. When the list has a file, Read consumes the file's content from the front of contents. It
// skips empty lines and lines that begin with #.
func (l KeyList) Read(contents *[][]byte) []string {
	if l.File == "" {
		return l.List
	}
	content := string((*contents)[0])
	*contents = (*contents)[1:]
	var out []string
	for line := range strings.Lines(content) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}

// text opens the file of a secret and returns a function that reads the current secret; nil when path is empty.
func text(log *slog.Logger, setting, path string) (func() string, error) {
	if path == "" {
		return nil, nil
	}
	v, err := secretfile.Text(log, path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	return v.Get, nil
}

// Redis returns the settings of the connection to Redis.
func Redis(c *config.Config, log *slog.Logger) (cfg redisbus.Config, err error) {
	if c.DialRedis != nil {
		return redisbus.Config{URL: "redis://embedded/0", Logger: log, Dial: c.DialRedis}, nil
	}
	cfg = redisbus.Config{URL: c.Redis, Logger: log}
	u, err := url.Parse(c.Redis)
	if err == nil && u.Scheme == "rediss" {
		name := c.RedisTLSServerName
		if name == "" {
			name = u.Hostname()
		}
		files := secretfile.Files{CA: c.RedisTLSCA, Cert: c.RedisTLSCert, Key: c.RedisTLSKey}
		if cfg.TLS, err = files.Client(log, name); err != nil {
			return cfg, fmt.Errorf("redis-tls: %w", err)
		}
	}
	cfg.Password, err = text(log, "redis-password-file", c.RedisPasswordFile)
	return cfg, err
}

// Store returns the options of a connection to PostgreSQL.
func Store(c *config.Config, log *slog.Logger) (postgres.Options, error) {
	password, err := text(log, "store-password-file", c.StorePasswordFile)
	return postgres.Options{Logger: log, Password: password, ReadOnly: c.Standby}, err
}

// Journal returns the client through which a data worker calls the Journal.
func Journal(c *config.Config, log *slog.Logger) (*remote.Client, error) {
	// AllowPlaintext is safe here, because verifyJournal has already refused plain text to other machines.
	cfg := remote.Config{URL: c.Server, AllowPlaintext: true, Token: func() string { return string(c.WorkerToken) }}
	token, err := text(log, "worker-token-file", c.WorkerTokenFile)
	if err != nil {
		return nil, err
	}
	if token != nil {
		cfg.Token = token
	}
	if u, err := url.Parse(c.Server); err == nil && u.Scheme == "https" {
		name := c.ServerTLSName
		if name == "" {
			name = u.Hostname()
		}
		files := secretfile.Files{CA: c.ServerTLSCA, Cert: c.ServerTLSCert, Key: c.ServerTLSKey}
		if cfg.TLS, err = files.Client(log, name); err != nil {
			return nil, fmt.Errorf("server-tls: %w", err)
		}
	}
	return remote.New(cfg)
}
