package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/store/postgres"
	"github.com/dvt-engine/dvt/store/subject"
)

// Encryption contains the settings that secure the connections of a process, and the files of its secrets. The process
// reads a file again when it changes.
type Encryption struct {
	// AllowPlaintext names the connections that may cross a network in plain text: temporal, store, redis, journal,
	// metrics.
	AllowPlaintext []string `koanf:"allow-plaintext"`

	TemporalTLS     string `koanf:"temporal-tls"` // on, off, or auto: on when one of the settings below is given
	TemporalTLSCA   string `koanf:"temporal-tls-ca"`
	TemporalTLSCert string `koanf:"temporal-tls-cert"`
	TemporalTLSKey  string `koanf:"temporal-tls-key"`
	// TemporalTLSServerName is the name in Temporal's certificate; the host of temporal when empty.
	TemporalTLSServerName string `koanf:"temporal-tls-server-name"`
	TemporalAPIKeyFile    string `koanf:"temporal-api-key-file"`

	StorePasswordFile string `koanf:"store-password-file"`

	RedisTLSCA         string `koanf:"redis-tls-ca"`
	RedisTLSCert       string `koanf:"redis-tls-cert"`
	RedisTLSKey        string `koanf:"redis-tls-key"`
	RedisTLSServerName string `koanf:"redis-tls-server-name"` // in Redis's certificate; the host of redis when empty
	RedisPasswordFile  string `koanf:"redis-password-file"`

	ListenTLSCert string `koanf:"listen-tls-cert"`
	ListenTLSKey  string `koanf:"listen-tls-key"`
	// ListenTLSClientCA issues the certificates that workers must present to the Journal. When it is empty, they need
	// none.
	ListenTLSClientCA string `koanf:"listen-tls-client-ca"`

	ServerTLSCA     string `koanf:"server-tls-ca"`
	ServerTLSCert   string `koanf:"server-tls-cert"`
	ServerTLSKey    string `koanf:"server-tls-key"`
	ServerTLSName   string `koanf:"server-tls-name"` // in the server's certificate; the host of server when empty
	WorkerTokenFile string `koanf:"worker-token-file"`

	// PayloadKeys encrypt the payloads that Temporal stores, as id:secret; the first one encrypts.
	PayloadKeys     []Secret `koanf:"payload-keys"`
	PayloadKeysFile string   `koanf:"payload-keys-file"` // one key a line
	// DispatchKeys encrypt the payloads that data workers read and write. When they are empty, payload-keys do.
	DispatchKeys     []Secret `koanf:"dispatch-keys"`
	DispatchKeysFile string   `koanf:"dispatch-keys-file"` // one key a line
	// SubjectKeys seal the keys of actors in the audit, as id:secret; the first one seals. Without them names stand in
	// plain text and cannot be erased.
	SubjectKeys     []Secret `koanf:"subject-keys"`
	SubjectKeysFile string   `koanf:"subject-keys-file"` // one key a line
	// origins of Temporal UIs whose pages may request decrypted payloads
	CodecOrigins []string `koanf:"codec-origins"`
}

// plaintextNames are the values that allow-plaintext accepts.
//
//nolint:gochecknoglobals // a constant
var plaintextNames = []string{"temporal", "store", "redis", "journal", "metrics"}

// Values of temporal-tls.
const (
	tlsOn   = "on"
	tlsOff  = "off"
	tlsAuto = "auto"
)

// keysOf returns the keys of the settings in a struct; true means that the setting is a list.
func keysOf(settings any) map[string]bool {
	out := map[string]bool{}
	for f := range reflect.TypeOf(settings).Fields() {
		if key := f.Tag.Get("koanf"); key != "" && key != "-" {
			out[key] = f.Type.Kind() == reflect.Slice
		}
	}
	return out
}

// groupedKeys returns the keys of all settings that have a struct of their own; true means that the setting is a list.
func groupedKeys() map[string]bool {
	out := keysOf(Encryption{})
	maps.Copy(out, keysOf(SandboxSettings{}))
	maps.Copy(out, keysOf(RunPolicy{}))
	return out
}

// helpOfEncryption is the help text of the settings that are also flags of commands.
var helpOfEncryption = map[string]string{ //nolint:gochecknoglobals // a table
	"allow-plaintext":          "connections that may cross a network in plain text: temporal, store, redis, journal, metrics",
	"temporal-tls":             "on, off, or auto: on when another setting of Temporal's TLS or an API key is given",
	"temporal-tls-ca":          "PEM file of the authority of Temporal's certificate",
	"temporal-tls-cert":        "PEM file of the certificate that dvt presents to Temporal",
	"temporal-tls-key":         "PEM file of its private key",
	"temporal-tls-server-name": "name in Temporal's certificate",
	"temporal-api-key-file":    "file of the API key, for Temporal Cloud",
	"store-password-file":      "file of the password of the store's role",
	"redis-tls-ca":             "PEM file of the authority of Redis's certificate, for rediss://",
	"redis-tls-cert":           "PEM file of the certificate that dvt presents to Redis",
	"redis-tls-key":            "PEM file of its private key",
	"redis-tls-server-name":    "name in Redis's certificate",
	"redis-password-file":      "file of the password of Redis",
	"listen-tls-cert":          "PEM file of the certificate of this server; with it the server speaks HTTPS",
	"listen-tls-key":           "PEM file of its private key",
	"listen-tls-client-ca":     "PEM file of the authority whose certificates workers must present",
	"server-tls-ca":            "PEM file of the authority of the server's certificate",
	"server-tls-cert":          "PEM file of the certificate that this program presents to the server",
	"server-tls-key":           "PEM file of its private key",
	"server-tls-name":          "name in the server's certificate",
	"worker-token-file":        "file of the token of a data worker",
	"payload-keys-file":        "file of the keys of payloads in Temporal, id:secret, one per line; the first one encrypts",
	"dispatch-keys-file":       "file of the keys of payloads for data workers, id:secret, one per line; the first one encrypts",
	"subject-keys-file":        "file of the keys that seal names in the audit, id:secret, one per line; the first one seals",
	"codec-origins":            "origins of Temporal UIs whose pages may request decrypted payloads",
}

// verifyEncryption returns all errors in these settings. It does not open files; the code that opens them reports their
// errors.
func (c *Config) verifyEncryption() (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, name := range c.AllowPlaintext {
		if !slices.Contains(plaintextNames, name) {
			bad("allow-plaintext: %q is not one of %s", name, strings.Join(plaintextNames, ", "))
		}
	}
	for name, pair := range map[string][2]string{
		"temporal-tls": {c.TemporalTLSCert, c.TemporalTLSKey}, "redis-tls": {c.RedisTLSCert, c.RedisTLSKey},
		"server-tls": {c.ServerTLSCert, c.ServerTLSKey}, "listen-tls": {c.ListenTLSCert, c.ListenTLSKey},
	} {
		if (pair[0] == "") != (pair[1] == "") {
			bad("%[1]s-cert and %[1]s-key must be given together", name)
		}
	}
	if c.Dev && c.ListenTLSCert != "" {
		bad("listen-tls-cert is for `dvt server`: dvt dev listens on loopback, without TLS")
	}
	if c.Dev && c.Temporal == "" && c.UsesTemporalTLS() {
		bad("temporal-tls is for a Temporal server of your own: name its address in temporal")
	}
	if c.ListenTLSClientCA != "" && c.ListenTLSCert == "" {
		bad("listen-tls-client-ca needs listen-tls-cert: without TLS clients present no certificate")
	}
	if c.WorkerToken != "" && c.WorkerTokenFile != "" {
		bad("worker-token and worker-token-file are both given: name the file alone")
	}
	errs = append(errs, c.verifyTemporal()...)
	errs = append(errs, c.verifyStore()...)
	errs = append(errs, c.verifyRedis()...)
	errs = append(errs, c.verifyJournal()...)
	for name, pair := range map[string]struct {
		list []Secret
		file string
	}{"payload-keys": {c.PayloadKeys, c.PayloadKeysFile}, "dispatch-keys": {c.DispatchKeys, c.DispatchKeysFile},
		"subject-keys": {c.SubjectKeys, c.SubjectKeysFile}} {
		if len(pair.list) > 0 && pair.file != "" {
			bad("%[1]s and %[1]s-file are both given: name the file alone", name)
		}
	}
	if _, err := temporal.ParsePayloadKeys(Strings(c.PayloadKeys), Strings(c.DispatchKeys)); err != nil {
		bad("payload-keys and dispatch-keys: %w", err)
	}
	if _, err := subject.Parse(Strings(c.SubjectKeys)); err != nil {
		bad("subject-keys: %w", err)
	}
	for _, origin := range c.CodecOrigins {
		if u, err := url.Parse(origin); err != nil || u.Path != "" || !httpsOrLoopback(origin) {
			bad("codec-origins: %q must look like https://temporal.example; http is for loopback",
				origin[strings.LastIndexByte(origin, '@')+1:]) // without a password
		}
	}
	return errs
}

// refusePlaintext returns the error for a plain-text connection to another machine, with instead as the remedy; nil
// when allow-plaintext names the connection.
func (c *Config) refusePlaintext(name, address, instead string) error {
	if slices.Contains(c.AllowPlaintext, name) {
		return nil
	}
	return fmt.Errorf("%s: %s is not on this machine, and others could read and change the data on "+
		"the way: %s. Where the network itself is trusted, set allow-plaintext: [%s]", name, address, instead, name)
}

// UsesTemporalTLS reports whether connections to Temporal use TLS.
func (c *Config) UsesTemporalTLS() bool {
	return c.TemporalTLS == tlsOn || c.TemporalTLS == tlsAuto && c.temporalSecured()
}

// temporalSecured reports whether a setting is given that makes sense only with TLS.
func (c *Config) temporalSecured() bool {
	return c.TemporalTLSCA+c.TemporalTLSCert+c.TemporalTLSServerName+c.TemporalAPIKeyFile != ""
}

func (c *Config) verifyTemporal() (errs []error) {
	if !slices.Contains([]string{tlsOn, tlsOff, tlsAuto}, c.TemporalTLS) {
		return []error{fmt.Errorf("temporal-tls must be on, off or auto, not %q", c.TemporalTLS)}
	}
	if strings.Contains(c.Temporal, "@") { // other messages quote the address
		return []error{errors.New("temporal must look like host:port, without a user or a password: use " +
			"temporal-api-key-file or temporal-tls-cert")}
	}
	if c.TemporalTLS == tlsOff && c.TemporalTLSCA+c.TemporalTLSCert+c.TemporalTLSServerName != "" {
		errs = append(errs, errors.New(
			"temporal-tls is off, and other settings of Temporal's TLS are given: leave one of the two out"))
	}
	if c.Temporal == "" || c.UsesTemporalTLS() || IsLoopback(c.Temporal) {
		return errs
	}
	if c.TemporalAPIKeyFile != "" {
		return append(errs, errors.New(
			"temporal-tls is off, and an API key would cross the network in plain text: set temporal-tls: on"))
	}
	instead := "set temporal-tls: on, and temporal-tls-ca for a private authority"
	if err := c.refusePlaintext("temporal", c.Temporal, instead); err != nil {
		errs = append(errs, err)
	}
	return errs
}

func (c *Config) verifyStore() (errs []error) {
	if !strings.HasPrefix(c.Store, "postgres://") && !strings.HasPrefix(c.Store, "postgresql://") {
		if c.StorePasswordFile != "" && c.Store != "" {
			errs = append(errs, errors.New("store-password-file is for PostgreSQL"))
		}
		return errs
	}
	if u, err := url.Parse(c.Store); err == nil && c.StorePasswordFile != "" {
		if _, given := u.User.Password(); given {
			errs = append(errs, errors.New(
				"a password stands in store, and store-password-file is given: name the file alone"))
		}
	}
	hosts, err := postgres.PlaintextHosts(c.Store)
	if err != nil {
		return append(errs, fmt.Errorf("store: %w", err))
	}
	if c.PeerStore != "" {
		peers, err := postgres.PlaintextHosts(string(c.PeerStore))
		if err != nil {
			return append(errs, errors.New("peer-store is no connection string of PostgreSQL")) // the cause may have a password
		}
		hosts = append(hosts, peers...)
	}
	for _, host := range hosts {
		instead := "add sslmode=verify-full to store and peer-store, and sslrootcert=FILE for a private authority"
		if err := c.refusePlaintext("store", host, instead); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func (c *Config) verifyRedis() (errs []error) {
	if c.Redis == "" {
		return nil
	}
	u, err := url.Parse(c.Redis)
	if err != nil || !slices.Contains([]string{"redis", "rediss", "unix"}, u.Scheme) {
		return []error{errors.New("redis must look like redis://host:port/0, or rediss://host:port/0 for TLS")}
	}
	if _, given := u.User.Password(); given && c.RedisPasswordFile != "" {
		errs = append(errs, errors.New(
			"a password stands in redis, and redis-password-file is given: name the file alone"))
	}
	if u.Scheme != "rediss" && c.RedisTLSCA+c.RedisTLSCert+c.RedisTLSServerName != "" {
		errs = append(errs, errors.New("settings of Redis's TLS are given: redis must begin with rediss://"))
	}
	if u.Scheme == "redis" && u.Hostname() != "" && !IsLoopback(u.Host) {
		instead := "use rediss:// in redis, and redis-tls-ca for a private authority"
		if err := c.refusePlaintext("redis", u.Host, instead); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func (c *Config) verifyJournal() (errs []error) {
	if c.Server == "" || string(c.WorkerToken)+c.WorkerTokenFile == "" {
		return nil // only commands use the address; they check it themselves
	}
	u, err := url.Parse(c.Server)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return []error{errors.New("server must look like https://dvt.example:8443")}
	}
	if u.Scheme == "http" && c.ServerTLSCA+c.ServerTLSCert+c.ServerTLSName != "" {
		errs = append(errs, errors.New("settings of the server's TLS are given: server must begin with https://"))
	}
	if u.Scheme == "http" && !IsLoopback(u.Host) {
		instead := "use https:// in server, and server-tls-ca for a private authority"
		if err := c.refusePlaintext("journal", u.Host, instead); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// PlaintextWarning returns the warning that a listener on address serves plain text to other machines, with the remedy,
// or "" when the listener is not exposed in plain text.
func (c *Config) PlaintextWarning(address net.Addr) string {
	if c.ListenTLSCert != "" || IsLoopback(address.String()) || slices.Contains(c.AllowPlaintext, "journal") {
		return ""
	}
	return "the API and the Journal are served in plain text to other machines: set listen-tls-cert and " +
		"listen-tls-key, or, behind a proxy that ends TLS on a trusted network, allow-plaintext: [journal]"
}

// verifyMetricsListen returns the error in metrics-listen, if there is one.
func (c *Config) verifyMetricsListen() error {
	if c.MetricsListen == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(c.MetricsListen); err != nil {
		return fmt.Errorf("metrics-listen must be a host and a port, like 127.0.0.1:9464, not %q", c.MetricsListen)
	}
	if IsLoopback(c.MetricsListen) || slices.Contains(c.AllowPlaintext, "metrics") {
		return nil
	}
	return fmt.Errorf("metrics-listen: %s is not on this machine's loopback, and it requires no token: use an "+
		"address such as 127.0.0.1:9464 or, where only your monitoring reaches it, allow-plaintext: [metrics]", c.MetricsListen)
}
