package testserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/checkout"
)

// OIDCProvider is an OpenID provider that uses zitadel's library. It has the users ada and bob with the password
// verysecure, and the clients dvt (secret: secret) and dvt-public. Its ID tokens contain the groups dvt-NAME and
// everybody.
type OIDCProvider struct {
	// URL is the issuer.
	URL string

	t        testing.TB
	bin      string
	callback string
	box      *sandbox
	proc     *process
}

var builtProvider = sync.OnceValues(func() (*binary, error) {
	root, err := checkout.Root()
	if err != nil {
		return nil, err
	}
	box, err := newSandbox("oidc-build", syscall.SIGKILL)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(box.dir, "provider")
	build := exec.Command("go", "build", "-o", path, ".")
	build.Dir = filepath.Join(root, "internal", "testserver", "testdata", "provider")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("go build in %s, which fetches the modules of its go.mod: %w: %s", build.Dir, err,
			out), box.close())
	}
	return &binary{path: path, box: box}, nil
})

// OIDC starts a provider that only t uses and that sends browsers back to callback. The provider ends when t ends.
func OIDC(t testing.TB, callback string) *OIDCProvider {
	t.Helper()
	built, err := builtProvider()
	if err != nil {
		t.Fatalf("testserver: no OIDC provider: %v", err)
	}
	box, err := newSandbox("oidc", syscall.SIGKILL)
	if err != nil {
		t.Fatalf("testserver: no OIDC provider: %v", err)
	}
	t.Cleanup(func() {
		if err := box.close(); err != nil {
			t.Errorf("testserver: clean up after the OIDC provider: %v", err)
		}
	})
	p := &OIDCProvider{t: t, bin: built.path, callback: callback, box: box}
	err = retry(func() error {
		port, err := freePort()
		if err != nil {
			return err
		}
		p.URL = "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		return p.start()
	})
	if err != nil {
		t.Fatalf("testserver: no OIDC provider: %v", err)
	}
	return p
}

// Stop kills the provider. Its keys and sign-ins are lost.
func (p *OIDCProvider) Stop() {
	p.t.Helper()
	if err := p.box.stop(p.proc, syscall.SIGKILL); err != nil {
		p.t.Fatalf("testserver: stop the OIDC provider: %v", err)
	}
}

// Start starts a stopped provider at the same address, with new keys.
func (p *OIDCProvider) Start() {
	p.t.Helper()
	if err := retry(p.start); err != nil {
		p.t.Fatalf("testserver: start the OIDC provider again: %v", err)
	}
}

func (p *OIDCProvider) start() (err error) {
	address := p.URL[len("http://"):]
	p.proc, err = p.box.run(exec.Command(p.bin, "-listen", address, "-callback", p.callback),
		func(*process) bool { return accepts(address) })
	return err
}

// Rotate makes the provider sign with a new key. With keep, it continues to publish the previous keys.
func (p *OIDCProvider) Rotate(keep bool) {
	p.t.Helper()
	query := ""
	if keep {
		query = "?keep=yes"
	}
	p.post("/test/rotate"+query, nil)
}

// Sign returns a JWT with claims that the provider signed. The header has the type typ unless it is empty.
func (p *OIDCProvider) Sign(claims map[string]any, typ string) string {
	p.t.Helper()
	doc, err := json.Marshal(claims)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(p.post("/test/sign?typ="+url.QueryEscape(typ), doc))
}

// Claims returns the claims of a valid token for the audience. The subject is ada.
func (p *OIDCProvider) Claims(audience string) map[string]any {
	now := time.Now()
	return map[string]any{"iss": p.URL, "aud": audience, "sub": "ada", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
}

func (p *OIDCProvider) post(path string, body []byte) []byte {
	p.t.Helper()
	res, err := http.Post(p.URL+path, "application/json", bytes.NewReader(body))
	if err != nil {
		p.t.Fatalf("testserver: the OIDC provider: %v", err)
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		p.t.Fatalf("testserver: the OIDC provider answered %d %s (%v)", res.StatusCode, out, err)
	}
	return out
}
