// Package gcp reads secrets from Google Cloud Secret Manager, with the identity of the worker's environment: the
// account of an instance or a workload (GKE), or a federated one that GOOGLE_APPLICATION_CREDENTIALS names.
package gcp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/secret"
	"github.com/dvt-engine/dvt/secret/transport"
)

// Config is where the secrets are. Credentials come from the environment.
type Config struct {
	Project  string // id or number
	Location string // of regional secrets; "" for global ones
	Endpoint string // "" for the public one
	CAFile   string // certificates of authorities; "" for those of the system
}

const (
	scope = "https://www.googleapis.com/auth/cloud-platform"
	// checkName is the secret that Check asks for. It need not exist.
	checkName = "dvt-health-check"
)

// Provider reads secrets. It is safe for concurrent use.
type Provider struct {
	parent string // of secrets, an address
	client *http.Client

	finding sync.Mutex
	tokens  oauth2.TokenSource // nil before the first use
}

// New returns a provider. It connects to nothing.
func New(cfg Config) (*Provider, error) {
	client, err := transport.New(cfg.CAFile)
	if err != nil {
		return nil, err
	}
	endpoint, parent := cfg.Endpoint, "projects/"+url.PathEscape(cfg.Project)
	if cfg.Location != "" {
		parent += "/locations/" + url.PathEscape(cfg.Location)
	}
	switch {
	case endpoint != "":
	case cfg.Location != "":
		endpoint = "https://secretmanager." + cfg.Location + ".rep.googleapis.com"
	default:
		endpoint = "https://secretmanager.googleapis.com"
	}
	return &Provider{parent: strings.TrimSuffix(endpoint, "/") + "/v1/" + parent + "/secrets/", client: client}, nil
}

var (
	// segment is a part of a path that Name can write without a loss.
	segment = regexp.MustCompile(`^[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*$`)
	// version is a number, or an alias.
	version = regexp.MustCompile(`^[A-Za-z0-9_-]{1,63}$`)
)

const maxName = 255

// Name returns the id of the secret at a path: its parts, joined by two underscores, because ids have no slashes. Two
// paths never have the same id. Error: ErrNotFound for a path that has no id.
func Name(path string) (string, error) {
	parts := strings.Split(path, "/")
	for _, part := range parts {
		if !segment.MatchString(part) {
			return "", fmt.Errorf("%w: in Secret Manager a part of a path has letters, digits and hyphens, and single underscores between them",
				secret.ErrNotFound)
		}
	}
	name := strings.Join(parts, "__")
	if len(name) > maxName {
		return "", fmt.Errorf("%w: its path is longer than %d bytes", secret.ErrNotFound, maxName)
	}
	return name, nil
}

// Read implements secret.Provider. A version is a number or an alias. A text that is a JSON object has its fields, and
// every value is the field plan.DefaultSecretField.
func (p *Provider) Read(ctx context.Context, path, asked string) (secret.Answer, error) {
	name, err := Name(path)
	if err != nil {
		return secret.Answer{}, err
	}
	if asked == "" {
		asked = "latest"
	}
	if !version.MatchString(asked) {
		return secret.Answer{}, fmt.Errorf("%w: a version is a number or an alias", secret.ErrNotFound)
	}
	token, err := p.token(ctx)
	if err != nil {
		return secret.Answer{}, err
	}
	var answer struct {
		Payload *struct {
			Data       string
			DataCRC32C string `json:"dataCrc32c"`
		}
	}
	err = transport.GetJSON(ctx, p.client, p.parent+name+"/versions/"+asked+":access", token, &answer, codeOf)
	if err != nil {
		return secret.Answer{}, reason(err)
	}
	if answer.Payload == nil {
		return secret.Answer{}, errors.New("the provider answered without a value")
	}
	body, err := base64.StdEncoding.DecodeString(answer.Payload.Data)
	sum := crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli))
	if err != nil || answer.Payload.DataCRC32C != "" && answer.Payload.DataCRC32C != strconv.FormatUint(uint64(sum), 10) {
		return secret.Answer{}, errors.New("the value was damaged on its way: its checksum is wrong")
	}
	return secret.Answer{Fields: transport.Fields(body, plan.DefaultSecretField)}, nil
}

// Check implements secret.Provider: it asks for a secret that need not exist. Both "no such secret" and "this identity
// may not read it" show that the provider answers and knows the identity.
func (p *Provider) Check(ctx context.Context) error {
	_, err := p.Read(ctx, checkName, "")
	if errors.Is(err, errIdentity) {
		return err
	}
	if errors.Is(err, secret.ErrNotFound) || errors.Is(err, secret.ErrDenied) {
		return nil
	}
	return err
}

// errIdentity says that Google does not accept the worker.
var errIdentity = fmt.Errorf("%w: Google does not accept the identity of the worker", secret.ErrDenied)

// token returns an access token of the environment's identity, which the library remembers until shortly before its
// end. The call ends with ctx, but the library's own request may go on for a moment.
func (p *Provider) token(ctx context.Context) (string, error) {
	type result struct {
		token *oauth2.Token
		err   error
	}
	got := make(chan result, 1)
	go func() {
		source, err := p.source()
		if err != nil {
			got <- result{err: errors.New("this process has no identity at Google: give its workload an account, or set GOOGLE_APPLICATION_CREDENTIALS")}
			return
		}
		token, err := source.Token()
		got <- result{token, err}
	}()
	select {
	case <-ctx.Done():
		return "", transport.Reason(ctx.Err())
	case r := <-got:
		if refused, ok := errors.AsType[*oauth2.RetrieveError](r.err); ok && refused.Response != nil &&
			refused.Response.StatusCode < 500 {
			return "", errIdentity
		}
		if r.err != nil {
			return "", errors.New("no token from Google for the worker's identity: check the account of its workload, and the file that GOOGLE_APPLICATION_CREDENTIALS names")
		}
		return r.token.AccessToken, nil
	}
}

// source finds the identity at the first use, because its discovery may ask the metadata server.
func (p *Provider) source() (oauth2.TokenSource, error) {
	p.finding.Lock()
	defer p.finding.Unlock()
	if p.tokens == nil {
		found, err := google.FindDefaultCredentials(context.WithValue(context.Background(), oauth2.HTTPClient, p.client),
			scope)
		if err != nil {
			return nil, err
		}
		p.tokens = found.TokenSource
	}
	return p.tokens, nil
}

// codeOf returns the status of Google's errors.
func codeOf(body []byte) string {
	var doc struct{ Error struct{ Status string } }
	_ = json.Unmarshal(body, &doc)
	return doc.Error.Status
}

func reason(err error) error {
	answered, ok := errors.AsType[*transport.StatusError](err)
	switch {
	case ok && answered.Status == http.StatusUnauthorized:
		return errIdentity
	case ok && answered.Code == "FAILED_PRECONDITION":
		return fmt.Errorf("%w: the version is disabled or destroyed", secret.ErrNotFound)
	}
	return transport.Reason(err)
}
