package config_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/server/config/configtest"
)

func TestLoad_PlainTextOffLoopbackIsRefusedUnlessNamed(t *testing.T) {
	const store, redis, temporal = "store: postgres://dvt@db.internal/dvt\n",
		"redis: redis://redis.internal:6379/0\n", "temporal: temporal.internal:7233\n"
	const journal = "server: http://dvt.internal:8080\nworker-token: t\n"
	for name, c := range map[string]struct {
		file string
		want []string // parts of the error; nil when the settings are valid
	}{
		"all on this machine": {"store: postgres://dvt@127.0.0.1/dvt\nredis: redis://localhost:6379/0\n" +
			"temporal: '[::1]:7233'\nserver: http://127.0.0.1:1\n", nil},
		"a socket of this machine": {"store: postgres:///dvt?host=/run/postgresql\nredis: unix:///run/redis.sock\n",
			nil},
		"all on other machines": {store + redis + temporal + journal, []string{
			"store: db.internal is not on this machine", "sslmode=verify-full", "allow-plaintext: [store]",
			"redis: redis.internal:6379 is not on this machine", "rediss://", "allow-plaintext: [redis]",
			"temporal: temporal.internal:7233 is not on this machine", "temporal-tls: on",
			"allow-plaintext: [temporal]",
			"journal: dvt.internal:8080 is not on this machine", "https://", "allow-plaintext: [journal]",
		}},
		"all on other machines and named": {store + redis + temporal + journal +
			"allow-plaintext: [store, redis, temporal, journal]\n", nil},
		"one is not named": {store + redis + "allow-plaintext: [store]\n", []string{"redis: redis.internal"}},
		"an unknown name": {"allow-plaintext: [everything]\n",
			[]string{`"everything" is not one of temporal, store, redis, journal`}},
		"all over TLS": {
			"store: postgres://dvt@db.internal/dvt?sslmode=verify-full\nredis: rediss://redis.internal:6379/0\n" +
				"temporal: temporal.internal:7233\n" +
				"temporal-tls: on\nserver: https://dvt.internal\nworker-token: t\n", nil,
		},
		"a store that is not verified": {"store: postgres://dvt@db.internal/dvt?sslmode=require\n",
			[]string{"store: db.internal"}},
		"an address of a network": {"temporal: 10.0.0.5:7233\n", []string{"temporal: 10.0.0.5:7233"}},
		"a private authority":     {temporal + "temporal-tls-ca: /nowhere/ca.pem\n", nil},
		"an API key":              {temporal + "temporal-api-key-file: /nowhere/key\n", nil},
		"an API key in plain text": {temporal + "temporal-api-key-file: /nowhere/key\ntemporal-tls: off\n",
			[]string{"an API key would cross"}},
		"TLS off with a private authority": {temporal + "temporal-tls-ca: /nowhere/ca.pem\ntemporal-tls: off\n",
			[]string{"leave one of the two out"}},
		"an unknown value":                   {"temporal-tls: yes please\n", []string{"must be on, off or auto"}},
		"the server of a command of the CLI": {"server: http://dvt.internal:8080\n", nil},
	} {
		_, err := configtest.Load(t, false, c.file)
		if len(c.want) == 0 && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error does not say %q: %v", name, want, err)
			}
		}
		if n := strings.Count(fmt.Sprint(err), "is not on this machine"); name == "one is not named" && n != 1 {
			t.Errorf("%s: the error names %d connections: %v", name, n, err)
		}
	}
}

// A password in the address of a connection reaches no message, whatever else is wrong with the address.
func TestLoad_QuotesNoPasswordOfAnAddress(t *testing.T) {
	const secret = "hunter2"
	for _, file := range []string{
		"temporal: http://u:hunter2@temporal.internal:7233\n", "temporal: u:hunter2@temporal.internal:7233\n",
		"store: postgres://u:hunter2@db.internal/dvt\n", "store: 'postgres://u:hunter2 x@db/dvt'\n",
		"store: postgres://u:hunter2%zz@db/dvt\n", "store: host=db password=hunter2 port=x\n",
		"redis: redis://u:hunter2@redis.internal:1/0\n", "redis: redis://u:hunter2%zz@redis\n",
		"redis: http://u:hunter2@redis\n", "server: http://u:hunter2@dvt.internal\nworker-token: t\n",
		"server: http://u:hunter2%zz@dvt.internal\nworker-token: t\n", "public-url: https://u:hunter2@dvt/%zz\n",
		"codec-origins: ['https://u:hunter2@temporal.example/path']\n",
	} {
		_, err := configtest.Load(t, false, file)
		if strings.Contains(fmt.Sprint(err), secret) {
			t.Errorf("%q: the error quotes the password: %v", file, err)
		}
	}
}

func TestLoad_DevHasNoTLSOfItsOwn(t *testing.T) {
	for file, want := range map[string]string{
		"listen-tls-cert: a.pem\nlisten-tls-key: a.key\n":   "listen-tls-cert is for `dvt server`",
		"temporal-tls: on\n":                                "name its address in temporal",
		"temporal-tls: on\ntemporal: temporal.internal:1\n": "",
	} {
		_, err := configtest.Load(t, true, file)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", file, err, want)
		}
	}
}

func TestLoad_NamesEverythingWrongWithFilesAndKeys(t *testing.T) {
	secret := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("p", 32)))
	_, err := configtest.Load(t, false, `
temporal-tls-cert: a.pem
redis: redis://u:pw@127.0.0.1:1/0
redis-tls-key: a.key
redis-tls-ca: ca.pem
redis-password-file: pw
store: postgres://dvt:pw@127.0.0.1/dvt
store-password-file: pw
server: http://127.0.0.1:1
server-tls-ca: ca.pem
listen-tls-cert: a.pem
worker-token: t
worker-token-file: token
payload-keys: ["k1:`+secret[:20]+`"]
payload-keys-file: keys
codec-origins: [http://temporal.internal, "https://temporal.internal/path"]
`)
	for _, want := range []string{
		"temporal-tls-cert and temporal-tls-key", "redis-tls-cert and redis-tls-key",
		"redis must begin with rediss://", "a password stands in redis",
		"a password stands in store", "server must begin with https://", "listen-tls-cert and listen-tls-key",
		"worker-token and worker-token-file",
		"payload-keys and payload-keys-file", "the secret of key k1", `"http://temporal.internal"`,
		`"https://temporal.internal/path"`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	if err != nil && (strings.Contains(err.Error(), secret[:20]) || strings.Contains(err.Error(), "pw@")) {
		t.Errorf("the error shows a secret: %v", err)
	}
}

func TestLoad_ReadsEncryptionFromFileEnvironmentAndFlags(t *testing.T) {
	secret := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("p", 32)))
	t.Setenv("DVT_ALLOW_PLAINTEXT", "temporal,store")
	t.Setenv("DVT_PAYLOAD_KEYS", "k2:"+secret+",k1:"+secret)
	t.Setenv("DVT_REDIS_PASSWORD_FILE", "/run/redis")
	c := configtest.MustLoad(t, false, "temporal-tls-ca: /run/ca.pem\n"+
		"codec-origins: [https://temporal.example]\nredis-password-file: /run/other\n")
	if c.TemporalTLS != "auto" || c.TemporalTLSCA != "/run/ca.pem" || c.RedisPasswordFile != "/run/redis" ||
		len(c.PayloadKeys) != 2 {
		t.Errorf("read %+v", c.Encryption)
	}
	if diff := cmp.Diff([][]string{{"temporal", "store"}, {"https://temporal.example"}},
		[][]string{c.AllowPlaintext, c.CodecOrigins}); diff != "" {
		t.Errorf("lists (-want +got):\n%s", diff)
	}
	if printed := fmt.Sprintf("%v %+v", c, c.PayloadKeys); strings.Contains(printed, secret) {
		t.Error("printing the settings shows a payload key")
	}
}
