package secretvalue_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/internal/secretvalue"
)

func TestHide_ReplacesSecretsByTheirName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ doc, want string }{
		{``, ``},
		{`{"broken":`, `{"broken":`},
		{`{"day":  2026}`, `{"day":  2026}`}, // byte for byte, as nothing is hidden
		{`{"token":"t","Token":"t","accessToken":"t"}`, `{"Token":"***","accessToken":"***","token":"***"}`},
		{`{"tokens":3,"compass":"n","bypass":"y","pwdx":"z"}`,
			`{"tokens":3,"compass":"n","bypass":"y","pwdx":"z"}`},
		{`{"db_pass":"p","dbPass":"p","PWD":"p","dsn":"p"}`,
			`{"PWD":"***","dbPass":"***","db_pass":"***","dsn":"***"}`},
		{`{"api_key":1,"key":1}`, `{"api_key":"***","key":1}`},
		{`{"password":"","secret":null,"cookie":{}}`, `{"password":"","secret":null,"cookie":{}}`},
		{`{"secrets":["a",["b"]],"n":1}`, `{"n":1,"secrets":"***"}`},
		{`{"a":[{"password":"p"}]}`, `{"a":[{"password":"***"}]}`},
		{`{"provider":"v","key":"k","value":"s"}`, `{"key":"k","provider":"v","value":"***"}`},
		{`{"provider":"v","value":"s"}`, `{"provider":"v","value":"s"}`},
		{`{"webhook":"https://h.test/s3cret?x=1","url":"http://h.test/"}`,
			`{"url":"http://h.test/","webhook":"https://h.test/***"}`},
		{`{"url":"https://bob:pw@h.test"}`, `{"url":"https://h.test/***"}`},
		{`{"url":"https://%zz"}`, `{"url":"***"}`},
		{`{"url":"/local/path"}`, `{"url":"/local/path"}`},
		{`{"big":12345678901234567890,"token":"t"}`, `{"big":12345678901234567890,"token":"***"}`},
	} {
		if diff := cmp.Diff(c.want, string(secretvalue.Hide(json.RawMessage(c.doc)))); diff != "" {
			t.Errorf("Hide(%s) (-want +got):\n%s", c.doc, diff)
		}
	}
}

func TestEachSecret_ReportsThePathsThatHideReplaces(t *testing.T) {
	t.Parallel()
	var got []string
	secretvalue.EachSecret(json.RawMessage(`{"z":{"token":"t"},"a":[{"pwd":"p"},{"day":1}],"password":"x"}`), "params",
		func(path string) { got = append(got, path) })
	if diff := cmp.Diff([]string{"params.a[0].pwd", "params.password", "params.z.token"}, got); diff != "" {
		t.Errorf("the paths (-want +got):\n%s", diff)
	}
	secretvalue.EachSecret(json.RawMessage(`{"token":`), "", func(path string) {
		t.Errorf("a document that cannot be decoded reports %s", path)
	})
}

func TestEachSecret_AReferenceIsNoSecretAndTheLiteralBesideItIs(t *testing.T) {
	t.Parallel()
	for text, secret := range map[string]bool{
		"${secret:TOKEN}": false, "Bearer ${secret:TOKEN}": false, "Token token=${secret:api.key@2}": false,
		"session=${secret:S}": false, "${secret:USER}:${secret:PASSWORD}": false,
		"": false, "Bearer abc": true, "Bearer hunter2 ${secret:TOKEN}": true, "${secret:TOKEN}hunter2": true,
		"Basic dXNlcjpwYXNzd29yZA== ${secret:A}": true, "a b c ${secret:TOKEN}": true, "${secret:}": true,
		"$secret:TOKEN": true, "Bearer ${secret:TOKEN}\nhunter": true, "correcthorsebatterystaple ${secret:T}": true,
	} {
		doc, err := json.Marshal(map[string]any{"headers": map[string]string{"Authorization": text}})
		if err != nil {
			t.Fatal(err)
		}
		found := false
		secretvalue.EachSecret(doc, "", func(string) { found = true })
		if found != secret {
			t.Errorf("Authorization %q counts as a secret: %t, want %t", text, found, secret)
		}
		if hidden := string(secretvalue.Hide(doc)) != string(doc); hidden != secret {
			t.Errorf("Authorization %q is hidden: %t, want %t", text, hidden, secret)
		}
	}
}

func TestEachPlaceholder_FindsWhatHideWrote(t *testing.T) {
	t.Parallel()
	hidden := secretvalue.Hide(json.RawMessage(`{"token":"t","webhook":"https://h.test/s","note":"***","day":1}`))
	var got []string
	secretvalue.EachPlaceholder(hidden, "params", func(path string) { got = append(got, path) })
	// The note is no secret, so its stars are the value that somebody wrote.
	if diff := cmp.Diff([]string{"params.token", "params.webhook"}, got); diff != "" {
		t.Errorf("the placeholders of %s (-want +got):\n%s", hidden, diff)
	}
}

func TestTexts_AreTheValuesToMaskInOutput(t *testing.T) {
	t.Parallel()
	doc := json.RawMessage(`{"password":123456,"secrets":["one",["two"],true],"day":"today","token":"t"}`)
	if diff := cmp.Diff([]string{"123456", "one", "two", "t"}, secretvalue.Texts(doc)); diff != "" {
		t.Errorf("the texts (-want +got):\n%s", diff)
	}
	if got := secretvalue.Texts(nil); got != nil {
		t.Errorf("no document has the texts %q", got)
	}
}
