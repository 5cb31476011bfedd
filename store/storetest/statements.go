package storetest

import (
	"os"
	"strings"
	"testing"
)

// Statements are those of a file by their names; each begins with a line "-- name: NAME".
func Statements(t testing.TB, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, part := range strings.Split(string(text), "\n-- name: ")[1:] {
		name, statement, _ := strings.Cut(part, "\n")
		out[name] = statement
	}
	return out
}
