package authz_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/authz"
)

// newAuthorizer returns an Authorizer with one account: an Operator in all environments of the project shop, with the
// token "secret".
func newAuthorizer() (*authz.Authorizer, error) {
	hash := sha256.Sum256([]byte("secret"))
	accounts, err := authz.NewDirectory([]authz.Account{{ID: "ola", TenantID: "acme",
		TokenSHA256: hex.EncodeToString(hash[:]),
		Grants:      []authz.Grant{{Role: authz.Operator, ProjectID: "shop", EnvironmentID: "*"}},
	}}, time.Now)
	if err != nil {
		return nil, err
	}
	return authz.New(authz.DefaultPolicy(), accounts)
}

// A denial names the lowest role that may do the action.
func ExampleAuthorizer_Decide() {
	a, err := newAuthorizer()
	if err != nil {
		fmt.Println(err)
		return
	}
	ola, err := a.Authenticate("secret")
	if err != nil {
		fmt.Println(err)
		return
	}
	run := authz.Object{TenantID: "acme", ProjectID: "shop", EnvironmentID: "prod"}
	for _, action := range []authz.Action{authz.Pause, authz.RetryStep} {
		d, err := a.Decide(ola, action, run)
		fmt.Println(action, d.Allowed, d.RequiredRole, err)
	}
	// Output:
	// PAUSE true OPERATOR <nil>
	// RETRY_STEP false ENGINEER <nil>
}

func ExampleAuthorizer_WhoCould() {
	a, err := newAuthorizer()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(a.WhoCould(authz.Pause, authz.Object{TenantID: "acme", ProjectID: "shop", EnvironmentID: "dev"}))
	// Output: [ola]
}

func ExampleBearer() {
	fmt.Printf("%q\n", authz.Bearer("Bearer abc123"))
	fmt.Printf("%q\n", authz.Bearer("Basic dXNlcjpwYXNz"))
	// Output:
	// "abc123"
	// ""
}
