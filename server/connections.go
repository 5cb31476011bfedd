package server

import (
	"context"
	"crypto/tls"
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

// temporalConnection returns the settings of the connection to Temporal. With dispatchOnly, as in data workers, it
// omits payload-keys when dispatch-keys are set.
func temporalConnection(c *config.Config, log *slog.Logger, dispatchOnly bool) (to temporal.Connection, err error) {
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
	to.Payloads, err = newPayloads(c, log, dispatchOnly)
	return to, err
}

// hostOf returns the host of host:port.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// newPayloads returns the codec of payloads, or nil without keys: Temporal then stores payloads unencrypted.
func newPayloads(c *config.Config, log *slog.Logger, dispatchOnly bool) (*temporal.Payloads, error) {
	own, dispatch := keyList{list: config.Strings(c.PayloadKeys), file: c.PayloadKeysFile},
		keyList{list: config.Strings(c.DispatchKeys), file: c.DispatchKeysFile}
	if dispatchOnly && !dispatch.empty() {
		own = keyList{}
	}
	if own.empty() && dispatch.empty() {
		return nil, nil
	}
	var paths []string
	for _, l := range []keyList{own, dispatch} {
		if l.file != "" {
			paths = append(paths, l.file)
		}
	}
	parse := func(contents [][]byte) (temporal.PayloadKeys, error) {
		keys, err := temporal.ParsePayloadKeys(own.read(&contents), dispatch.read(&contents))
		if err == nil && keys.Empty() {
			err = errNoKeys
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

var errNoKeys = fmt.Errorf("there is no key: write id:SECRET, one per line, with a secret of `openssl rand -base64 32`")

// keyList is a list of keys, given either in the settings or as a file.
type keyList struct {
	list []string
	file string
}

func (l keyList) empty() bool { return len(l.list) == 0 && l.file == "" }

// read returns the keys. When the list has a file, read consumes the file's content from the front of contents. It
// skips empty lines and lines that begin with #.
func (l keyList) read(contents *[][]byte) []string {
	if l.file == "" {
		return l.list
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

// secretText opens the file of a secret and returns a function that reads the current secret; nil when path is empty.
func secretText(log *slog.Logger, setting, path string) (func() string, error) {
	if path == "" {
		return nil, nil
	}
	v, err := secretfile.Text(log, path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	return v.Get, nil
}

func openBus(c *config.Config, log *slog.Logger) (*redisbus.Bus, error) {
	if c.DialRedis != nil {
		return redisbus.Open(redisbus.Config{URL: "redis://embedded/0", Logger: log, Dial: c.DialRedis})
	}
	cfg := redisbus.Config{URL: c.Redis, Logger: log}
	u, err := url.Parse(c.Redis)
	if err == nil && u.Scheme == "rediss" {
		name := c.RedisTLSServerName
		if name == "" {
			name = u.Hostname()
		}
		files := secretfile.Files{CA: c.RedisTLSCA, Cert: c.RedisTLSCert, Key: c.RedisTLSKey}
		if cfg.TLS, err = files.Client(log, name); err != nil {
			return nil, fmt.Errorf("redis-tls: %w", err)
		}
	}
	if cfg.Password, err = secretText(log, "redis-password-file", c.RedisPasswordFile); err != nil {
		return nil, err
	}
	return redisbus.Open(cfg)
}

// storeOptions returns the options of a connection to PostgreSQL.
func storeOptions(c *config.Config, log *slog.Logger) (postgres.Options, error) {
	password, err := secretText(log, "store-password-file", c.StorePasswordFile)
	return postgres.Options{Logger: log, Password: password}, err
}

// newJournalClient returns the client through which a data worker calls the Journal.
func newJournalClient(c *config.Config, log *slog.Logger) (*remote.Client, error) {
	// AllowPlaintext is safe here, because verifyJournal has already refused plain text to other machines.
	cfg := remote.Config{URL: c.Server, AllowPlaintext: true, Token: func() string { return string(c.WorkerToken) }}
	token, err := secretText(log, "worker-token-file", c.WorkerTokenFile)
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

// listenSecured opens the listener of the API, with TLS when a certificate is set. It warns when it serves plain text
// to other machines.
func listenSecured(ctx context.Context, c *config.Config, log *slog.Logger) (net.Listener, error) {
	var secured *tls.Config
	if c.ListenTLSCert != "" {
		var err error
		files := secretfile.Files{CA: c.ListenTLSClientCA, Cert: c.ListenTLSCert, Key: c.ListenTLSKey}
		if secured, err = files.Server(log); err != nil {
			return nil, fmt.Errorf("listen-tls: %w", err)
		}
	}
	ln, err := listen(ctx, c.Listen, "listen")
	if err != nil {
		return nil, err
	}
	if secured != nil {
		return tls.NewListener(ln, secured), nil
	}
	if reason := c.PlaintextWarning(ln.Addr()); reason != "" {
		log.WarnContext(ctx, "this listener serves plain text", slog.String("reason", reason))
	}
	return ln, nil
}
