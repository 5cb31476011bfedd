package server

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// A page that the router of the UI has and the server does not know would answer 404 when it is opened by its link.
func TestPages_AreThoseOfTheRouter(t *testing.T) {
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
