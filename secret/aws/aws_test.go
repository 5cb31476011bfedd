package aws_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/secret"
	"github.com/dvt-engine/dvt/secret/aws"
	"github.com/dvt-engine/dvt/secret/secrettest"
)

// The identity of the environment, as a worker has it.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": keyID, "AWS_SECRET_ACCESS_KEY": key,
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true"} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func open(t *testing.T, endpoint string) *aws.Provider {
	t.Helper()
	p, err := aws.New(aws.Config{Region: region, Endpoint: endpoint})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// contract: R331, R332
func TestConformance_OnTheStandIn(t *testing.T) {
	t.Parallel()
	secrettest.Run(t, func(t *testing.T) secrettest.World {
		t.Helper()
		s := newStandIn(t)
		network := secrettest.NewNetwork(t, s.URL)
		return secrettest.World{
			Provider: open(t, network.URL), Whole: true, Network: network, Put: s.putFields,
			PutBytes: func(path string, value []byte) { s.put(path, version{binary: value}) },
			Throttle: func() { s.mu.Lock(); defer s.mu.Unlock(); s.throttled = 1 },
			Forbid:   func(path string) { s.mu.Lock(); defer s.mu.Unlock(); s.forbidden[path] = true },
			Break:    s.Close,
		}
	})
}

func TestRead_LabelsOfVersions(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	p := open(t, s.URL)
	s.putFields("key", map[string]string{"value": "one-1234"})
	s.putFields("key", map[string]string{"value": "two-1234"})
	for label, want := range map[string]string{"AWSCURRENT": "two-1234", "AWSPREVIOUS": "one-1234"} {
		got, err := p.Read(t.Context(), "key", label)
		if err != nil || got.Fields["value"].Reveal() != want {
			t.Errorf("the label %s: %v, want %s", label, err, want)
		}
	}
	s.put("deleted", version{})
	if _, err := p.Read(t.Context(), "deleted", ""); !errors.Is(err, secret.ErrNotFound) {
		t.Errorf("a secret that is marked for deletion: %v, want ErrNotFound", err)
	}
}

func TestCheck_SaysThatTheIdentityIsRefused(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	p := open(t, s.URL)
	if err := p.Check(t.Context()); err != nil {
		t.Errorf("an identity that is accepted: %v", err)
	}
	s.mu.Lock()
	s.forbidden["dvt-health-check"] = true
	s.mu.Unlock()
	if err := p.Check(t.Context()); err != nil {
		t.Errorf("an identity that may not read the secret of the check: %v", err)
	}
	s.mu.Lock()
	s.tokens[keyID] = "another"
	s.mu.Unlock()
	if err := p.Check(t.Context()); !errors.Is(err, secret.ErrDenied) || !strings.Contains(err.Error(), "identity") {
		t.Errorf("a wrong key: %v, want ErrDenied", err)
	}
	if s.unsigned != 1 {
		t.Errorf("the stand-in refused %d signatures, want 1", s.unsigned)
	}
}

// A workload of Kubernetes has a token in a file, for which AWS lends it a role.
func TestIdentity_OfAWorkload(t *testing.T) {
	s := newStandIn(t)
	s.tokens = map[string]string{"ASIALENT": "lent-key"}
	s.putFields("key", map[string]string{"value": "value-1234"})
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("jwt-of-the-workload"), 0o600); err != nil {
		t.Fatal(err)
	}
	sts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("Action") != "AssumeRoleWithWebIdentity" || r.FormValue("RoleArn") != "arn:aws:iam::1:role/dvt" ||
			r.FormValue("WebIdentityToken") != "jwt-of-the-workload" {
			http.Error(w, "<ErrorResponse><Error><Code>InvalidIdentityToken</Code></Error></ErrorResponse>",
				http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, fmt.Sprintf(`<AssumeRoleWithWebIdentityResponse
			xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>
			<AccessKeyId>ASIALENT</AccessKeyId><SecretAccessKey>lent-key</SecretAccessKey><SessionToken>session</SessionToken>
			<Expiration>%s</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`,
			time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
	}))
	t.Cleanup(sts.Close)
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "",
		"AWS_ROLE_ARN": "arn:aws:iam::1:role/dvt", "AWS_WEB_IDENTITY_TOKEN_FILE": token, "AWS_ENDPOINT_URL_STS": sts.URL} {
		t.Setenv(name, value)
	}
	p := open(t, s.URL)
	got, err := p.Read(t.Context(), "key", "")
	if err != nil || got.Fields["value"].Reveal() != "value-1234" {
		t.Errorf("a read with the role of a workload: %v", err)
	}
}

func TestNew_NeedsARegion(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	if _, err := aws.New(aws.Config{}); err == nil || !strings.Contains(err.Error(), "AWS_REGION") {
		t.Errorf("without a region: %v", err)
	}
}
