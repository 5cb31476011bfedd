// Package azure reads secrets from Azure Key Vault, with the identity of the worker's environment: a workload identity
// (AKS), a managed identity, or a service principal in variables.
package azure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/secret"
	"github.com/dvt-engine/dvt/secret/transport"
)

// Config is where the secrets are. Credentials come from the environment.
type Config struct {
	Address string // of the vault, such as https://dvt.vault.azure.net
	// Audience is for which service tokens are; "" for https://vault.azure.net. Other clouds have another one.
	Audience string
	// Authority gives tokens; "" for AZURE_AUTHORITY_HOST, or else that of the public cloud. It is not looked up in the
	// list of Microsoft's own.
	Authority string
	CAFile    string // certificates of authorities; "" for those of the system
}

const (
	apiVersion = "7.4"
	publicFor  = "https://vault.azure.net"
	// checkName is the secret that Check asks for. It need not exist.
	checkName = "dvt-health-check"
)

// Provider reads secrets. It is safe for concurrent use.
type Provider struct {
	address, scope string
	client         *http.Client
	identity       azcore.TokenCredential
}

// New returns a provider. It connects to nothing.
func New(cfg Config) (*Provider, error) {
	client, err := transport.New(cfg.CAFile)
	if err != nil {
		return nil, err
	}
	if cfg.Audience == "" {
		cfg.Audience = publicFor
	}
	p := &Provider{address: strings.TrimSuffix(cfg.Address, "/"), scope: cfg.Audience + "/.default", client: client}
	p.identity, err = identity(cfg, client)
	return p, err
}

// identity returns the first of the environment's identities that exists. Credentials of people, such as a login of the
// command az, are not among them.
func identity(cfg Config, client *http.Client) (azcore.TokenCredential, error) {
	options := azcore.ClientOptions{Transport: client, Retry: policy.RetryOptions{MaxRetries: -1}}
	if cfg.Authority != "" {
		options.Cloud = cloud.Configuration{ActiveDirectoryAuthorityHost: cfg.Authority}
	}
	private := cfg.Authority != ""
	var found []azcore.TokenCredential
	if c, err := azidentity.NewEnvironmentCredential(&azidentity.EnvironmentCredentialOptions{ClientOptions: options,
		DisableInstanceDiscovery: private}); err == nil {
		found = append(found, c)
	}
	if c, err := azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{
		ClientOptions: options, DisableInstanceDiscovery: private}); err == nil {
		found = append(found, c)
	}
	if c, err := azidentity.NewManagedIdentityCredential(&azidentity.ManagedIdentityCredentialOptions{
		ClientOptions: options}); err == nil {
		found = append(found, c)
	}
	chain, err := azidentity.NewChainedTokenCredential(found, nil)
	if err != nil {
		return nil, errors.New("the settings of Azure in the environment are wrong: check the variables AZURE_…")
	}
	return chain, nil
}

var (
	// segment is a part of a path that Name can write without a loss.
	segment = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	// version is the form of the ids that Azure gives to versions.
	version = regexp.MustCompile(`^[0-9a-f]{32}$`)
)

const maxName = 127

// Name returns the name of the secret at a path: its parts, joined by two hyphens, because names have no slashes. Key
// Vault does not distinguish A and a, so paths have no capital letters. Two paths never have the same name. Error:
// ErrNotFound for a path that has no name.
func Name(path string) (string, error) {
	parts := strings.Split(path, "/")
	for _, part := range parts {
		if !segment.MatchString(part) {
			return "", fmt.Errorf("%w: in Key Vault a part of a path has lower-case letters, digits, and single hyphens between them",
				secret.ErrNotFound)
		}
	}
	name := strings.Join(parts, "--")
	if len(name) > maxName {
		return "", fmt.Errorf("%w: its path is longer than %d bytes", secret.ErrNotFound, maxName)
	}
	return name, nil
}

// Read implements secret.Provider. A version is the id that Azure gave it. A text that is a JSON object has its fields,
// and every text is the field plan.DefaultSecretField.
func (p *Provider) Read(ctx context.Context, path, asked string) (secret.Answer, error) {
	name, err := Name(path)
	if err != nil {
		return secret.Answer{}, err
	}
	if asked != "" && !version.MatchString(asked) {
		return secret.Answer{}, fmt.Errorf("%w: a version is an id of 32 hexadecimal digits", secret.ErrNotFound)
	}
	token, err := p.identity.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{p.scope}})
	if err != nil {
		return secret.Answer{}, identityReason(ctx, err)
	}
	var answer struct{ Value *string }
	err = transport.GetJSON(ctx, p.client, p.address+"/secrets/"+name+"/"+asked+"?api-version="+apiVersion, token.Token,
		&answer, codeOf)
	if err != nil {
		return secret.Answer{}, reason(err)
	}
	if answer.Value == nil {
		return secret.Answer{}, errors.New("the provider answered without a value")
	}
	return secret.Answer{Fields: transport.Fields([]byte(*answer.Value), plan.DefaultSecretField)}, nil
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

// errIdentity says that Azure does not accept the worker.
var errIdentity = fmt.Errorf("%w: Azure does not accept the identity of the worker", secret.ErrDenied)

// identityReason returns why there is no token.
func identityReason(ctx context.Context, err error) error {
	if refused, ok := errors.AsType[*azidentity.AuthenticationFailedError](err); ok && refused.RawResponse != nil &&
		refused.RawResponse.StatusCode >= 400 && refused.RawResponse.StatusCode < 500 {
		return errIdentity
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return fmt.Errorf("no token for the worker's identity: %w", transport.Reason(err))
}

// codeOf returns the code of Azure's errors.
func codeOf(body []byte) string {
	var doc struct{ Error struct{ Code string } }
	_ = json.Unmarshal(body, &doc)
	return doc.Error.Code
}

func reason(err error) error {
	if answered, ok := errors.AsType[*transport.StatusError](err); ok && answered.Status == http.StatusUnauthorized {
		return errIdentity
	}
	return transport.Reason(err)
}
