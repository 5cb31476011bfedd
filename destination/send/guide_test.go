package send_test

import (
	"os"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/destination/send"
)

// Each destination that the guide shows can be built.
func TestGuide_ShowsSettingsThatWork(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/guides/destinations.md")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[destination.Kind]bool{}
	for i, block := range strings.Split(string(guide), "```yaml\n") {
		text, _, _ := strings.Cut(block, "\n```")
		if i == 0 {
			continue // what stands before the first block
		}
		var shown []struct {
			Name, URL, From, User string
			Kind                  destination.Kind
			To                    []string
			Secrets               []destination.SecretRef
			AllowPrivate          bool `yaml:"allowPrivate"`
			Route                 map[string]any
		}
		list := strings.TrimPrefix(text, "destinations:\n")
		if err := yaml.Unmarshal([]byte(list), &shown); err != nil || len(shown) != 1 {
			t.Fatalf("a block shows %d destinations: %v\n%s", len(shown), err, text)
		}
		d := shown[0]
		kinds[d.Kind] = true
		_, err := send.New(destination.Config{Name: d.Name, Kind: d.Kind, URL: d.URL, From: d.From, User: d.User, To: d.To,
			Secrets: d.Secrets, AllowPrivate: d.AllowPrivate}, send.Options{})
		if err != nil {
			t.Errorf("the guide shows a destination that does not work: %v\n%s", err, text)
		}
	}
	if len(kinds) != 5 {
		t.Errorf("the guide shows the kinds %v, want all 5", kinds)
	}
}
