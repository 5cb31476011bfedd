// Package aws reads secrets from AWS Secrets Manager, with the identity of the worker's environment: a role of a web
// identity (EKS), a container or an instance, or variables.
package aws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/secret"
	"github.com/dvt-engine/dvt/secret/transport"
)

// Config is where the secrets are. Credentials come from the environment.
type Config struct {
	Region   string // "" for that of the environment
	Endpoint string // "" for the public one of the region
	CAFile   string // certificates of authorities; "" for those of the system
}

// checkName is the secret that Check asks for. It need not exist.
const checkName = "dvt-health-check"

// Provider reads secrets. It is safe for concurrent use.
type Provider struct{ client *secretsmanager.Client }

// New returns a provider. It connects to nothing.
func New(cfg Config) (*Provider, error) {
	base, err := transport.Base(cfg.CAFile)
	if err != nil {
		return nil, err
	}
	// The SDK adds the authorities of AWS_CA_BUNDLE to a client of its own only.
	client := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.TLSClientConfig, t.ResponseHeaderTimeout = base.TLSClientConfig, base.ResponseHeaderTimeout
	})
	options := []func(*config.LoadOptions) error{
		config.WithHTTPClient(client), config.WithLogger(logging.Nop{}),
		// The resolver repeats a request that was throttled, and the step's policy repeats the rest.
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }),
	}
	if cfg.Region != "" {
		options = append(options, config.WithRegion(cfg.Region))
	}
	loaded, err := config.LoadDefaultConfig(context.Background(), options...)
	if err != nil {
		return nil, errors.New("the settings of AWS in the environment are wrong: check the variables AWS_… and the files that they name")
	}
	if loaded.Region == "" {
		return nil, errors.New("no region: set region here, or AWS_REGION")
	}
	if trusting, ok := loaded.HTTPClient.(*awshttp.BuildableClient); ok {
		base = trusting.GetTransport()
	}
	loaded.HTTPClient = &http.Client{Transport: transport.Guard(base)}
	return &Provider{secretsmanager.NewFromConfig(loaded, func(o *secretsmanager.Options) {
		if cfg.Endpoint != "" {
			o.BaseEndpoint = aws.String(cfg.Endpoint)
		}
	})}, nil
}

// versionID is the form of the ids that AWS gives to versions. Other names of versions are labels, such as AWSPREVIOUS.
var versionID = regexp.MustCompile(`^[A-Za-z0-9-]{32,64}$`)

// Read implements secret.Provider. A version is an id or a label; "" is AWSCURRENT. A text that is a JSON object has
// its fields, and every text is the field plan.DefaultSecretField.
func (p *Provider) Read(ctx context.Context, path, version string) (secret.Answer, error) {
	in := &secretsmanager.GetSecretValueInput{SecretId: aws.String(path)}
	switch {
	case versionID.MatchString(version):
		in.VersionId = aws.String(version)
	case version != "":
		in.VersionStage = aws.String(version)
	}
	out, err := p.client.GetSecretValue(ctx, in)
	if err != nil {
		return secret.Answer{}, reason(err)
	}
	switch {
	case out.SecretString != nil:
		return secret.Answer{Fields: transport.Fields([]byte(*out.SecretString), plan.DefaultSecretField)}, nil
	case len(out.SecretBinary) > 0:
		return secret.Answer{Fields: transport.Fields(out.SecretBinary, plan.DefaultSecretField)}, nil
	}
	return secret.Answer{}, fmt.Errorf("%w: it has no value", secret.ErrNotFound)
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

// errIdentity says that AWS does not accept the credentials of the worker.
var errIdentity = fmt.Errorf("%w: AWS does not accept the identity of the worker", secret.ErrDenied)

// reason returns what an error of the client says, without the answer and the address.
func reason(err error) error {
	answered, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return transport.Reason(err)
	}
	switch answered.ErrorCode() {
	case "ResourceNotFoundException":
		return secret.ErrNotFound
	case "InvalidRequestException": // it is marked for deletion, or was never given a value
		return fmt.Errorf("%w: it is marked for deletion or has no value", secret.ErrNotFound)
	case "AccessDeniedException", "DecryptionFailure":
		return secret.ErrDenied
	case "UnrecognizedClientException", "InvalidSignatureException", "InvalidClientTokenId",
		"MissingAuthenticationTokenException",
		"IncompleteSignatureException", "AccessDenied", "OptInRequired":
		return errIdentity
	case "ThrottlingException", "Throttling", "TooManyRequestsException", "RequestLimitExceeded", "LimitExceededException":
		return &secret.ThrottledError{}
	}
	var status interface{ HTTPStatusCode() int }
	if errors.As(err, &status) && status.HTTPStatusCode() >= http.StatusBadRequest {
		return &transport.StatusError{Status: status.HTTPStatusCode()}
	}
	return transport.Reason(err)
}
