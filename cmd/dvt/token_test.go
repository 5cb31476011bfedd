package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// People tell tokens apart by the beginning of their secrets; a list never has the whole secret.
func TestTokenList_ShowsHowEachSecretBegins(t *testing.T) {
	t.Parallel()
	address, _ := serve(t)
	created, status, err := dvt(t, address, "dev-engineer", "token", "create", "ci", "--role", "VIEWER", "-o", "json")
	if err != nil || status != 0 {
		t.Fatalf("token create: status %d, %v\n%s", status, err, created)
	}
	var token struct {
		Secret string
		Token  struct{ Prefix string }
	}
	if err := json.Unmarshal([]byte(created), &token); err != nil {
		t.Fatal(err)
	}
	begin := token.Secret[:min(len(token.Secret), 10)]
	if token.Token.Prefix != begin {
		t.Errorf("the prefix is %q, want %q", token.Token.Prefix, begin)
	}
	list, _, err := dvt(t, address, "dev-engineer", "token", "list")
	if err != nil || !strings.Contains(list, begin) || strings.Contains(list, token.Secret) {
		t.Errorf("the list does not show %s alone (%v):\n%s", begin, err, list)
	}
}
