// Command provider is a real OIDC provider for tests. It uses zitadel's library with its login form. The paths under
// /test rotate the signing key and sign tokens with claims that a test chooses.
package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"flag"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// signer is a signing key and implements op.SigningKey.
type signer struct {
	id  string
	key *rsa.PrivateKey
}

func newSigner() signer {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		log.Fatal(err)
	}
	return signer{rand.Text(), key}
}

func (s signer) ID() string                                  { return s.id }
func (s signer) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (s signer) Key() any                                    { return s.key }

// published is the public key of a signer and implements op.Key.
type published struct{ signer }

func (p published) Algorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (p published) Use() string                        { return "sig" }
func (p published) Key() any                           { return &p.key.PublicKey }

// keeper is zitadel's storage with signing keys that rotate and users that have groups.
type keeper struct {
	*storage.Storage
	mu      sync.Mutex
	signers []signer // the last one signs
}

func (k *keeper) SigningKey(context.Context) (op.SigningKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.signers[len(k.signers)-1], nil
}

func (k *keeper) KeySet(context.Context) (out []op.Key, _ error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.signers {
		out = append(out, published{s})
	}
	return out, nil
}

func (k *keeper) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, token op.IDTokenRequest,
	scopes []string) error {
	if err := k.Storage.SetUserinfoFromRequest(ctx, info, token, scopes); err != nil {
		return err
	}
	info.AppendClaims("groups", []string{"dvt-" + token.GetSubject(), "everybody"})
	return nil
}

// rotate signs with a new key from now on. With keep=yes the previous keys stay published.
func (k *keeper) rotate(_ http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.FormValue("keep") != "yes" {
		k.signers = nil
	}
	k.signers = append(k.signers, newSigner())
}

// sign responds with a JWT that has the claims in the request body.
func (k *keeper) sign(w http.ResponseWriter, r *http.Request) {
	var claims map[string]any
	if err := json.NewDecoder(r.Body).Decode(&claims); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	k.mu.Lock()
	by := k.signers[len(k.signers)-1]
	k.mu.Unlock()
	options := (&jose.SignerOptions{}).WithHeader("kid", by.id)
	if typ := r.URL.Query().Get("typ"); typ != "" {
		options = options.WithType(jose.ContentType(typ))
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: by.key}, options)
	if err != nil {
		log.Fatal(err)
	}
	token, err := jwt.Signed(s).Claims(claims).Serialize()
	if err != nil {
		log.Fatal(err)
	}
	_, _ = w.Write([]byte(token))
}

func main() {
	listen := flag.String("listen", "", "host:port")
	callback := flag.String("callback", "", "where browsers may be sent back to")
	flag.Parse()
	issuer := "http://" + *listen
	users, err := os.CreateTemp("", "users-*.json")
	if err != nil {
		log.Fatal(err)
	}
	list := map[string]*storage.User{}
	for _, name := range []string{"ada", "bob"} {
		list[name] = &storage.User{
			ID: name, Username: name, Password: "verysecure", Email: name + "@example.com", EmailVerified: name == "ada",
		}
	}
	if err := json.NewEncoder(users).Encode(list); err != nil {
		log.Fatal(err)
	}
	people, err := storage.StoreFromFile(users.Name())
	if err != nil {
		log.Fatal(err)
	}
	_ = os.Remove(users.Name())
	storage.RegisterClients(storage.NativeClient("dvt-public", *callback), storage.WebClient("dvt", "secret", *callback))
	k := &keeper{Storage: storage.NewStorage(people), signers: []signer{newSigner()}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /test/rotate", k.rotate)
	mux.HandleFunc("POST /test/sign", k.sign)
	mux.Handle("/", exampleop.SetupServer(issuer, k, slog.New(slog.DiscardHandler), false))
	ln, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.Serve(ln, mux))
}
