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
	"github.com/dvt-engine/dvt/secret/transport"
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
	// Mount is that of the engine KV version 2; "" for secret. With Dynamic it is not used.
	Mount string
	// Dynamic reads paths as they are, at engines that make a secret for each reader, such as database.
	Dynamic   bool
	Method    Method
	AuthMount string // of the method; "" for its name
	Role      string // role id (approle), role (jwt, kubernetes)
	File      string // token (token), secret id (approle), JWT (jwt, kubernetes)
}

const (
	// renewBefore is the part of a token's life after which the next call renews it.
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
	c.HttpClient.Transport = transport.Guard(c.HttpClient.Transport)
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

// Read implements secret.Provider. A token that the server no longer accepts is replaced once.
func (p *Provider) Read(ctx context.Context, path, version string) (secret.Answer, error) {
	number := 0
	if version != "" {
		n, err := strconv.Atoi(version)
		if err != nil || n < 1 || p.cfg.Dynamic {
			return secret.Answer{}, fmt.Errorf("%w: a version is a number from 1, and credentials made for one reader have none", secret.ErrNotFound)
		}
		number = n
	}
	answer, err := p.read(ctx, path, number, false)
	if errors.Is(err, secret.ErrDenied) && p.Check(ctx) != nil {
		answer, err = p.read(ctx, path, number, true)
	}
	return answer, err
}

func (p *Provider) read(ctx context.Context, path string, version int, again bool) (secret.Answer, error) {
	client, err := p.loggedIn(ctx, again)
	if err != nil {
		return secret.Answer{}, err
	}
	if p.cfg.Dynamic {
		got, err := client.Logical().ReadWithContext(ctx, path)
		switch {
		case err != nil:
			return secret.Answer{}, reason(err)
		case got == nil || got.LeaseID == "":
			return secret.Answer{}, secret.ErrNotFound
		}
		return secret.Answer{Fields: fieldsOf(got.Data), Lease: &secret.Lease{ID: got.LeaseID,
			Life: time.Duration(got.LeaseDuration) * time.Second}}, nil
	}
	got, err := client.KVv2(p.cfg.Mount).GetVersion(ctx, path, version)
	if errors.Is(err, api.ErrSecretNotFound) || err == nil && got.Data == nil { // nil: the version was deleted
		return secret.Answer{}, secret.ErrNotFound
	}
	if err != nil {
		return secret.Answer{}, reason(err)
	}
	answer := secret.Answer{Fields: fieldsOf(got.Data)}
	if got.VersionMetadata != nil {
		answer.Version = strconv.Itoa(got.VersionMetadata.Version)
	}
	return answer, nil
}

func fieldsOf(data map[string]any) map[string]secret.Value {
	fields := map[string]secret.Value{}
	for name, v := range data {
		switch v := v.(type) {
		case string:
			fields[name] = secret.NewValue(v)
		case fmt.Stringer: // a number
			fields[name] = secret.NewValue(v.String())
		case bool:
			fields[name] = secret.NewValue(strconv.FormatBool(v))
		}
	}
	return fields
}

// Renew implements secret.Lender.
func (p *Provider) Renew(ctx context.Context, leaseID string) (time.Duration, error) {
	client, err := p.loggedIn(ctx, false)
	if err != nil {
		return 0, err
	}
	got, err := client.Sys().RenewWithContext(ctx, leaseID, 0)
	if err != nil {
		return 0, reason(err)
	}
	return time.Duration(got.LeaseDuration) * time.Second, nil
}

// Revoke implements secret.Lender. The provider has ended the lease when it answers.
func (p *Provider) Revoke(ctx context.Context, leaseID string) error {
	client, err := p.loggedIn(ctx, false)
	if err != nil {
		return err
	}
	_, err = client.Logical().WriteWithContext(ctx, "sys/leases/revoke", map[string]any{"lease_id": leaseID, "sync": true})
	if answered, ok := errors.AsType[*api.ResponseError](err); ok && answered.StatusCode == http.StatusNotFound {
		return nil
	}
	if err != nil {
		return reason(err)
	}
	return nil
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
	due := !p.expiry.IsZero() && time.Now().After(p.expiry)
	if p.token == "" || again || due && !p.extend(ctx) {
		if err := p.logIn(ctx); err != nil {
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

// extend renews the token and reports whether it did. The leases of a token end with it, so a new login would end the
// credentials of steps that run.
func (p *Provider) extend(ctx context.Context) bool {
	client, err := p.client.CloneWithHeaders()
	if err != nil {
		return false
	}
	client.SetToken(p.token)
	answer, err := client.Auth().Token().RenewSelfWithContext(ctx, 0)
	if err != nil || answer.Auth == nil || answer.Auth.LeaseDuration == 0 {
		return false
	}
	p.setExpiry(answer.Auth.LeaseDuration)
	return true
}

// setExpiry sets when a token that lives for a number of seconds is renewed.
func (p *Provider) setExpiry(seconds int) {
	p.expiry = time.Time{}
	if life := time.Duration(seconds) * time.Second; life > 0 {
		p.expiry = time.Now().Add(time.Duration(renewBefore * float64(life)))
	}
}

func (p *Provider) logIn(ctx context.Context) error {
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
	p.token = answer.Auth.ClientToken
	p.setExpiry(answer.Auth.LeaseDuration)
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
	}
	return transport.Reason(err)
}
