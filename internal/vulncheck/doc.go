// Package vulncheck contains the tests that look for known vulnerabilities in the dependencies of the product and of
// the UI. The suite vuln of `make test` runs them.
package vulncheck
