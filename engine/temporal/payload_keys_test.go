package temporal_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.temporal.io/api/temporalproto"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"github.com/dvt-engine/dvt/engine/temporal"
)

// secretOf returns a key in the form of the settings.
func secretOf(id string) string {
	return id + ":" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(id, 32)[:32]))
}

func keysOf(t *testing.T, own, dispatch string) temporal.PayloadKeys {
	t.Helper()
	list := func(ids string) (out []string) {
		for _, id := range strings.Fields(ids) {
			out = append(out, secretOf(id))
		}
		return out
	}
	k, err := temporal.ParsePayloadKeys(list(own), list(dispatch))
	must(t, err)
	return k
}

// payloadsOf returns Payloads that encrypt with the first of the keys.
func payloadsOf(t *testing.T, own, dispatch string) *temporal.Payloads {
	t.Helper()
	k := keysOf(t, own, dispatch)
	return temporal.NewPayloads(func() temporal.PayloadKeys { return k })
}

func TestParsePayloadKeys_RejectsMalformedKeys(t *testing.T) {
	t.Parallel()
	short := "k1:" + base64.StdEncoding.EncodeToString([]byte("too short"))
	for name, c := range map[string]struct {
		own, dispatch []string
		want          string
	}{
		"no id":             {[]string{"secret"}, nil, "id:secret"},
		"a short secret":    {[]string{short}, nil, "at least 32 bytes"},
		"not base64":        {[]string{"k1:!"}, nil, "base64"},
		"the same id twice": {[]string{secretOf("k1"), secretOf("k1")}, nil, "given twice"},
		"one id, two secrets": {
			[]string{secretOf("k1")}, []string{"k1:" + strings.TrimPrefix(secretOf("k2"), "k2:")},
			"different secrets for the key k1",
		},
		"the same key in both lists": {[]string{secretOf("k1")}, []string{secretOf("k1")}, ""},
	} {
		_, err := temporal.ParsePayloadKeys(c.own, c.dispatch)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: ParsePayloadKeys returned %v, want an error with %q", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), strings.TrimPrefix(short, "k1:")) {
			t.Errorf("%s: the error contains the secret: %v", name, err)
		}
	}
	_, secret, _ := strings.Cut(secretOf("k1"), ":")
	if text := fmt.Sprintf("%v %+v %#v", keysOf(t, "k1", ""), keysOf(t, "k1", ""),
		keysOf(t, "k1", "")); strings.Contains(text, secret) ||
		strings.Contains(text, "k1k1") {
		t.Errorf("fmt prints a secret: %s", text)
	}
}

func TestPayloads_OnlyTheRightKeyDecrypts(t *testing.T) {
	t.Parallel()
	const text = "a canary in a payload"
	conv := temporal.ConverterOf(payloadsOf(t, "new old", ""))
	sealed, err := conv.ToPayload(text)
	must(t, err)
	again, err := conv.ToPayload(text)
	must(t, err)
	if bytes.Equal(sealed.GetData(), again.GetData()) {
		t.Error("two encryptions of one text give the same bytes")
	}
	if raw, err := sealed.Marshal(); err != nil || bytes.Contains(raw, []byte(text)) ||
		bytes.Contains(raw, []byte("json/plain")) {
		t.Errorf("the encrypted payload contains clear text (%v): %q", err, raw)
	}
	if id := string(sealed.GetMetadata()["encryption-key-id"]); id != "new" {
		t.Errorf("the key %q encrypted, want the first one", id)
	}
	read := func(by *temporal.Payloads, p *commonpb.Payload) (got string, err error) {
		err = temporal.ConverterOf(by).FromPayload(p, &got)
		return got, err
	}
	for name, by := range map[string]*temporal.Payloads{"all keys": payloadsOf(t, "new old", ""),
		"behind another": payloadsOf(t, "newer new", "")} {
		if got, err := read(by, sealed); err != nil || got != text {
			t.Errorf("%s: the payload is read as %q with error %v, want the text", name, got, err)
		}
	}
	if _, err := read(payloadsOf(t, "old", ""), sealed); !errors.Is(err, temporal.ErrPayloadKey) ||
		!strings.Contains(err.Error(), `"new"`) {
		t.Errorf("without the key the error is %v, want ErrPayloadKey with the id", err)
	}
	changed := func(change func(*commonpb.Payload)) *commonpb.Payload {
		raw, err := sealed.Marshal()
		must(t, err)
		p := &commonpb.Payload{}
		must(t, p.Unmarshal(raw))
		change(p)
		return p
	}
	for name, p := range map[string]*commonpb.Payload{
		"another key's name": changed(func(p *commonpb.Payload) { p.Metadata["encryption-key-id"] = []byte("old") }),
		"a bit of the text":  changed(func(p *commonpb.Payload) { p.Data[len(p.Data)-1] ^= 1 }),
		"a bit of the salt":  changed(func(p *commonpb.Payload) { p.Data[0] ^= 1 }),
		"a short payload":    changed(func(p *commonpb.Payload) { p.Data = p.Data[:10] }),
	} {
		if got, err := read(payloadsOf(t, "new old", ""), p); err == nil {
			t.Errorf("%s: a changed payload was read as %q", name, got)
		}
	}
	_, secret, _ := strings.Cut(secretOf("new"), ":")
	twin, err := temporal.ParsePayloadKeys([]string{"twin:" + secret, "new:" + secret}, nil)
	must(t, err)
	renamed := changed(func(p *commonpb.Payload) { p.Metadata["encryption-key-id"] = []byte("twin") })
	if got, err := read(temporal.NewPayloads(func() temporal.PayloadKeys { return twin }), renamed); err == nil {
		t.Errorf("a payload whose key was renamed was read as %q", got)
	}
	plain, err := converter.GetDefaultDataConverter().ToPayload(text)
	must(t, err)
	if got, err := read(payloadsOf(t, "new", ""), plain); err != nil || got != text {
		t.Errorf("a payload in clear is read as %q with error %v, want the text", got, err)
	}
}

func TestPayloads_DispatchesHaveTheirOwnKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   converter.SerializationContext
		want string
	}{
		"a step":       {converter.ActivitySerializationContext{ActivityType: "dvt.execute"}, "d1"},
		"a hook":       {converter.ActivitySerializationContext{ActivityType: "dvt.compensate"}, "d1"},
		"a log call":   {converter.ActivitySerializationContext{ActivityType: "dvt.append"}, "k1"},
		"a local call": {converter.ActivitySerializationContext{ActivityType: "dvt.execute", IsLocal: true}, "k1"},
		"a workflow":   {converter.WorkflowSerializationContext{}, "k1"},
		"no context":   {nil, "k1"},
	} {
		conv := temporal.ConverterOf(payloadsOf(t, "k1", "d1"))
		if c.in != nil {
			conv = converter.WithDataConverterSerializationContext(conv, c.in)
		}
		p, err := conv.ToPayload("x")
		must(t, err)
		if got := string(p.GetMetadata()["encryption-key-id"]); got != c.want {
			t.Errorf("%s is encrypted with the key %s, want %s", name, got, c.want)
		}
	}
	// A data worker has only the keys of dispatches.
	p, err := temporal.ConverterOf(payloadsOf(t, "", "d1")).ToPayload("x")
	must(t, err)
	if got := string(p.GetMetadata()["encryption-key-id"]); got != "d1" {
		t.Errorf("a data worker encrypts with the key %q, want d1", got)
	}
}

func TestPayloads_EncryptMessagesOfFailures(t *testing.T) {
	t.Parallel()
	failures := temporal.FailuresOf(payloadsOf(t, "k1", ""))
	f := failures.ErrorToFailure(fmt.Errorf("a canary in a message"))
	if raw, err := f.Marshal(); err != nil || bytes.Contains(raw, []byte("canary")) {
		t.Errorf("the failure contains its message in clear (%v): %q", err, raw)
	}
	if got := failures.FailureToError(f).Error(); !strings.Contains(got, "a canary in a message") {
		t.Errorf("the message is read as %q, want the clear text", got)
	}
}

func TestDecoder_AnswersLikeACodecServer(t *testing.T) {
	t.Parallel()
	payloads := payloadsOf(t, "k1", "")
	server := httptest.NewServer(payloads.Decoder())
	t.Cleanup(server.Close)
	p, err := temporal.ConverterOf(payloads).ToPayload("a canary")
	must(t, err)
	body, err := temporalproto.CustomJSONMarshalOptions{}.Marshal(&commonpb.Payloads{Payloads: []*commonpb.Payload{p}})
	must(t, err)
	res, err := http.Post(server.URL+"/decode", "application/json", bytes.NewReader(body))
	must(t, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	must(t, err)
	if want := base64.StdEncoding.EncodeToString([]byte(`"a canary"`)); res.StatusCode != http.StatusOK ||
		!strings.Contains(string(answer), want) {
		t.Errorf("the decoder answered %d %s, want %s", res.StatusCode, answer, want)
	}
}
