package main

import (
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
)

// devRights are the accounts of `dvt dev` under the policy by default.
func devRights(t *testing.T) (*authz.Directory, *authz.Authorizer) {
	t.Helper()
	directory, err := authz.NewDirectory(authz.DevAccounts(func(name string) string { return name }), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	rights, err := authz.New(authz.DefaultPolicy(), directory)
	if err != nil {
		t.Fatal(err)
	}
	return directory, rights
}
