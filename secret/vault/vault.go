// Package vault reads secrets from OpenBao and HashiCorp Vault: from the engine KV version 2, with a login by AppRole,
// JWT or Kubernetes.
package vault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/openbao/openbao/api/v2"

	"github.com/dvt-engine/dvt/secret"
)

// Method is how the worker proves who it is.
type Method string

// Methods of login.
const (
	Token      Method = "token"
	AppRole    Method = "approle"
	JWT        Method = "jwt"
	Kubernetes Method = "kubernetes"
)

// Config is where the secrets are and how the worker logs in. Its files are read at each login, so that a credential is
// rotated by a change of its file.
type Config struct {
	Address   string // https://host:port
	CAFile    string // certificates of authorities; "" for those of the system
	Namespace string
	Mount     string // of the engine KV version 2; "" for secret
	Method    Method
	AuthMount string // of the method; "" for its name
	Role      string // role id (approle), role (jwt, kubernetes)
	File      string // token (token), secret id (approle), JWT (jwt, kubernetes)
}

const (
	maxAnswer = 1 << 20 // bytes
	// renewBefore is the part of a token's life after which the next call logs in again.
	renewBefore   = 2.0 / 3
	maxCredential = 64 << 10
)

// Provider reads secrets. It is safe for concurrent use.
type Provider struct {
	cfg    Config
	client *api.Client

	login  sync.Mutex // held while a login is under way, so that callers share one
	token  string
	expiry time.Time // zero: the token does not expire
}

// New returns a provider. It connects to nothing.
func New(cfg Config) (*Provider, error) {
	if cfg.Mount == "" {
		cfg.Mount = "secret"
	}
	if cfg.AuthMount == "" {
		cfg.AuthMount = string(cfg.Method)
	}
	c := api.DefaultConfig()
	if c.Error != nil {
		return nil, errors.New("a variable BAO_… or VAULT_… of the environment is wrong")
	}
	c.Address, c.MaxRetries = cfg.Address, 0 // the step's policy retries
	if err := c.ConfigureTLS(&api.TLSConfig{CACert: cfg.CAFile}); err != nil {
		return nil, fmt.Errorf("the file %s has no certificate", cfg.CAFile)
	}
	c.HttpClient.Transport = limited{c.HttpClient.Transport}
	client, err := api.NewClient(c)
	if err != nil {
		return nil, errors.New("the address is wrong")
	}
	client.ClearToken()
	if cfg.Namespace != "" {
		client.SetNamespace(cfg.Namespace)
	}
	return &Provider{cfg: cfg, client: client}, nil
}

// limited bounds the bytes of an answer.
type limited struct{ http.RoundTripper }

func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := l.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = http.MaxBytesReader(nil, answer.Body, maxAnswer)
	}
	return answer, err
}

// Read implements secret.Provider. A token that the server no longer accepts is replaced once.
func (p *Provider) Read(ctx context.Context, path, version string) (map[string]secret.Value, error) {
	number := 0
	if version != "" {
		n, err := strconv.Atoi(version)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%w: a version of this provider is a number from 1", secret.ErrNotFound)
		}
		number = n
	}
	fields, err := p.read(ctx, path, number, false)
	if errors.Is(err, secret.ErrDenied) {
		fields, err = p.read(ctx, path, number, true)
	}
	return fields, err
}

func (p *Provider) read(ctx context.Context, path string, version int, again bool) (map[string]secret.Value, error) {
	client, err := p.loggedIn(ctx, again)
	if err != nil {
		return nil, err
	}
	got, err := client.KVv2(p.cfg.Mount).GetVersion(ctx, path, version)
	if errors.Is(err, api.ErrSecretNotFound) || err == nil && got.Data == nil { // nil: the version was deleted
		return nil, secret.ErrNotFound
	}
	if err != nil {
		return nil, reason(err)
	}
	fields := map[string]secret.Value{}
	for name, v := range got.Data {
		switch v := v.(type) {
		case string:
			fields[name] = secret.NewValue(v)
		case fmt.Stringer: // a number
			fields[name] = secret.NewValue(v.String())
		case bool:
			fields[name] = secret.NewValue(strconv.FormatBool(v))
		}
	}
	return fields, nil
}

// Check implements secret.Provider: it logs in, unless the token is known, and asks for the token's own state.
func (p *Provider) Check(ctx context.Context) error {
	client, err := p.loggedIn(ctx, false)
	if err != nil {
		return err
	}
	if _, err := client.Auth().Token().LookupSelfWithContext(ctx); err != nil {
		return reason(err)
	}
	return nil
}

// loggedIn returns a client with a token. again replaces a token that is still valid by its expiry.
func (p *Provider) loggedIn(ctx context.Context, again bool) (*api.Client, error) {
	p.login.Lock()
	defer p.login.Unlock()
	if p.token == "" || again || !p.expiry.IsZero() && time.Now().After(p.expiry) {
		if err := p.renew(ctx); err != nil {
			return nil, err
		}
	}
	client, err := p.client.CloneWithHeaders()
	if err != nil {
		return nil, errors.New("the client cannot be copied")
	}
	client.SetToken(p.token)
	return client, nil
}

func (p *Provider) renew(ctx context.Context) error {
	credential, err := readCredential(p.cfg.File)
	if err != nil {
		return err
	}
	if p.cfg.Method == Token {
		p.token, p.expiry = credential, time.Time{}
		return nil
	}
	body := map[string]any{"role": p.cfg.Role, "jwt": credential}
	if p.cfg.Method == AppRole {
		body = map[string]any{"role_id": p.cfg.Role, "secret_id": credential}
	}
	answer, err := p.client.Logical().WriteWithContext(ctx, "auth/"+p.cfg.AuthMount+"/login", body)
	if err != nil {
		if e, ok := errors.AsType[*api.ResponseError](err); ok && e.StatusCode < 500 {
			return fmt.Errorf("%w: the login by %s was refused (status %d)", secret.ErrDenied, p.cfg.Method, e.StatusCode)
		}
		return reason(err)
	}
	if answer == nil || answer.Auth == nil || answer.Auth.ClientToken == "" {
		return errors.New("the login was answered without a token")
	}
	p.token, p.expiry = answer.Auth.ClientToken, time.Time{}
	if life := time.Duration(answer.Auth.LeaseDuration) * time.Second; life > 0 {
		p.expiry = time.Now().Add(time.Duration(renewBefore * float64(life)))
	}
	return nil
}

func readCredential(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil || !info.Mode().IsRegular() || info.Size() > maxCredential:
		return "", fmt.Errorf("the file %s with the credential of the worker cannot be used", path)
	}
	body, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("the file %s with the credential of the worker cannot be read", path)
	}
	text := strings.TrimSpace(string(body))
	if text == "" || strings.ContainsAny(text, "\r\n") {
		return "", fmt.Errorf("the file %s with the credential of the worker must have one line", path)
	}
	return text, nil
}

// reason returns what an error of the client says, without the answer of the server and without the address.
func reason(err error) error {
	var answered *api.ResponseError
	switch {
	case errors.As(err, &answered) && answered.StatusCode == http.StatusForbidden:
		return secret.ErrDenied
	case errors.As(err, &answered) && answered.StatusCode == http.StatusNotFound:
		return secret.ErrNotFound
	case errors.As(err, &answered) && answered.StatusCode == http.StatusServiceUnavailable:
		return errors.New("the provider is sealed or not ready (status 503)")
	case errors.As(err, &answered):
		return fmt.Errorf("the provider answered status %d", answered.StatusCode)
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("the provider did not answer in time")
	case errors.Is(err, context.Canceled):
		return context.Canceled
	}
	return errors.New("the provider cannot be reached, or its answer cannot be read")
}
