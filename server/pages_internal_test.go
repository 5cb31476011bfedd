package server

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// If the server did not know a page of the UI's router, a link to that page would answer 404.
func TestPages_MatchTheRouterOfTheUI(t *testing.T) {
	source, err := os.ReadFile("../web/src/routes/router.tsx")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{strings.TrimPrefix(signInPage, "/"): true} // the UI shows it instead of its router
	for _, m := range regexp.MustCompile(`path: "(/[^"]*)"`).FindAllStringSubmatch(string(source), -1) {
		name := strings.TrimPrefix(m[1], "/")
		if !isPage(name) {
			t.Errorf("the router has a page at /%s that the server does not know", name)
		}
		first, _, _ := strings.Cut(name, "/")
		known[first] = true
	}
	for _, name := range pages {
		if !known[name] {
			t.Errorf("the server knows a page /%s that the router does not have", name)
		}
	}
}
