package send_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/destination"
)

// verifiers are programs on libraries that are not ours; tools/prepare webhooks installs them.
var verifiers = map[string]struct {
	argv []string
	env  string
}{
	"Go":      {argv: []string{"verify-webhook"}},
	"Node.js": {argv: []string{"node", "verify.mjs"}},
	"Python":  {argv: []string{"python3", "verify.py"}, env: "PYTHONPATH=python"},
}

// signed is a request for a verifier.
type signed struct {
	Secret  string            `json:"secret"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

// verify returns the answer of a verifier to each request.
func verify(t *testing.T, name string, requests []signed) []string {
	t.Helper()
	dir, err := filepath.Abs("../../.tools/webhooks")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "verify-webhook")); err != nil {
		t.Fatalf("the verifiers of webhooks are missing: run tools/prepare webhooks: %v", err)
	}
	var in bytes.Buffer
	for _, r := range requests {
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		in.Write(append(line, '\n'))
	}
	v := verifiers[name]
	program := v.argv[0]
	if program == "verify-webhook" {
		program = filepath.Join(dir, program)
	}
	cmd := exec.CommandContext(t.Context(), program, v.argv[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Env = dir, &in, append(os.Environ(), v.env)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the verifier for %s: %v\n%s", name, err, out)
	}
	answers := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(answers) != len(requests) {
		t.Fatalf("the verifier for %s gave %d answers to %d requests:\n%s", name, len(answers), len(requests), out)
	}
	return answers
}

// Libraries that are not ours accept every signature with each key that is valid, while keys rotate: a receiver with
// the old key, with the new key, before and after the change. They refuse other keys and changed bodies.
func TestWebhook_VerifiersOfOthersAcceptEverySignature(t *testing.T) {
	t.Parallel()
	old, next, foreign := newKey('o'), newKey('n'), newKey('f')
	oldRef, nextRef := secretFile(t, old), secretFile(t, next)
	r := newReceiver(t, nil)
	var requests []signed
	var want []string
	messages := verifiedMessages()
	// Each message is sent before, during and after the rotation.
	for _, phase := range []struct {
		refs           []destination.SecretRef
		valid, invalid []string
	}{
		{[]destination.SecretRef{oldRef}, []string{old}, []string{next, foreign}},
		{[]destination.SecretRef{oldRef, nextRef}, []string{old, next}, []string{foreign}},
		{[]destination.SecretRef{nextRef, oldRef}, []string{old, next}, []string{foreign}},
		{[]destination.SecretRef{nextRef}, []string{next}, []string{old, foreign}},
	} {
		s := webhookOf(t, r, func(cfg *destination.Config) { cfg.Secrets = phase.refs })
		for _, m := range messages {
			wantKind(t, s.Send(t.Context(), m), "accepted")
			got := r.got()
			last := got[len(got)-1]
			headers := map[string]string{}
			for _, name := range []string{"webhook-id", "webhook-timestamp", "webhook-signature"} {
				headers[name] = last.header.Get(name)
			}
			if id := headers["webhook-id"]; strings.ContainsAny(id, ". ,") || id == "" {
				t.Errorf("the webhook-id %q has a character that the specification forbids", id)
			}
			for _, secret := range phase.valid {
				requests = append(requests, signed{secret, headers, last.body})
				want = append(want, "ok "+m.ID)
			}
			for _, secret := range phase.invalid {
				requests = append(requests, signed{secret, headers, last.body})
				want = append(want, "refused:")
			}
			requests = append(requests, signed{phase.valid[0], headers, last.body + " "})
			want = append(want, "refused:")
		}
	}
	for name := range verifiers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i, got := range verify(t, name, requests) {
				if !strings.HasPrefix(got, want[i]) {
					t.Errorf("request %d with the headers %v: the verifier says %q, want %q", i, requests[i].Headers, got, want[i])
				}
			}
		})
	}
}

// verifiedMessages are messages of all shapes: ids that do not fit into a header, no data, large and hostile data.
func verifiedMessages() []destination.Message {
	messages := []destination.Message{eventMessage(), alertMessage()}
	bare := destination.Message{ID: "bare", Topic: destination.Events, Type: "RunStarted"}
	odd := eventMessage()
	odd.ID = "run.1/17 äöü"
	dotted := eventMessage()
	dotted.ID = "run.17"
	large := eventMessage()
	large.ID = "large"
	large.Data = json.RawMessage(fmt.Sprintf("{\"text\":%q}", strings.Repeat("ß</script>", 20_000)))
	spaced := eventMessage()
	spaced.ID = "spaced"
	spaced.Data = json.RawMessage("{ \"n\" : 12345678901234567890, \"e\": 1e300, \"u\": \"\\ud83d\\ude00 \u2028\" }")
	return append(messages, bare, odd, dotted, large, spaced)
}

// The examples of the guide are the functions that the test above runs.
func TestGuide_ShowsTheVerifiersThatAreTested(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/guides/destinations.md")
	if err != nil {
		t.Fatal(err)
	}
	for file, mark := range map[string]string{"main.go": "//", "verify.mjs": "//", "verify.py": "#"} {
		source, err := os.ReadFile("../../tools/webhooks/" + file)
		if err != nil {
			t.Fatal(err)
		}
		_, after, begun := strings.Cut(string(source), mark+" begin of the example\n")
		example, _, ended := strings.Cut(after, mark+" end of the example\n")
		if example = strings.TrimSpace(example); !begun || !ended || example == "" {
			t.Errorf("tools/webhooks/%s has no example between its marks", file)
		} else if !strings.Contains(string(guide), example+"\n```") {
			t.Errorf("docs/guides/destinations.md does not show the example of tools/webhooks/%s:\n%s", file, example)
		}
	}
}
