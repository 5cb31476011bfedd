package aws_test

import (
	"errors"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/secret/aws"
	"github.com/dvt-engine/dvt/secret/secrettest"
)

// regions are real ones, because the server knows no others. Each world has one, so that its secrets are its own.
var (
	regions = []string{"us-east-1", "us-east-2", "us-west-1", "us-west-2", "eu-west-1", "eu-west-2", "eu-west-3",
		"eu-north-1", "eu-central-1", "ap-south-1", "ap-southeast-1", "ap-southeast-2", "ap-northeast-1", "ap-northeast-2",
		"ca-central-1", "sa-east-1"}
	nextRegion atomic.Int32
)

// The server is not ours, so it does not share an error of the stand-in about the protocol. It checks no signature,
// denies nothing and never throttles: the stand-in does.
// contract: R331, R332
func TestConformance_OnMoto(t *testing.T) {
	t.Parallel()
	address := testserver.Moto(t)
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	secrettest.Run(t, func(t *testing.T) secrettest.World {
		t.Helper()
		at := int(nextRegion.Add(1)) - 1
		if at >= len(regions) {
			t.Fatalf("the suite has more tests than the %d regions here", len(regions))
		}
		door := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }})
		t.Cleanup(door.Close)
		network := secrettest.NewNetwork(t, door.URL)
		p, err := aws.New(aws.Config{Region: regions[at], Endpoint: network.URL})
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := config.LoadDefaultConfig(t.Context(), config.WithRegion(regions[at]))
		if err != nil {
			t.Fatal(err)
		}
		client := secretsmanager.NewFromConfig(loaded, func(o *secretsmanager.Options) { o.BaseEndpoint = &address })
		put := func(path string, text *string, binary []byte) string {
			t.Helper()
			out, err := client.PutSecretValue(t.Context(), &secretsmanager.PutSecretValueInput{SecretId: &path,
				SecretString: text, SecretBinary: binary})
			if missing := (*types.ResourceNotFoundException)(nil); errors.As(err, &missing) {
				made, err := client.CreateSecret(t.Context(), &secretsmanager.CreateSecretInput{Name: &path, SecretString: text,
					SecretBinary: binary})
				if err != nil {
					t.Fatal(err)
				}
				return sdk.ToString(made.VersionId)
			}
			if err != nil {
				t.Fatal(err)
			}
			return sdk.ToString(out.VersionId)
		}
		return secrettest.World{
			Provider: p, Whole: true, Network: network, Break: door.Close,
			Put: func(path string, fields map[string]string) string {
				text := textOf(fields)
				return put(path, &text, nil)
			},
			PutBytes: func(path string, value []byte) { put(path, nil, value) },
		}
	})
}
