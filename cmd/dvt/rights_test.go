package main

import (
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
)

// devRights returns the accounts of `dvt dev`, whose tokens are their names, and the default policy.
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
