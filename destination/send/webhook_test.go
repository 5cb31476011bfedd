package send_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/destination/send"
)

func webhookOf(t *testing.T, r *receiver, change ...func(*destination.Config)) destination.Sender {
	t.Helper()
	cfg := destination.Config{Kind: destination.Webhook, URL: r.url + "/hook?x=1",
		Secrets: []destination.SecretRef{secretFile(t, newKey('a')+"\n")}}
	for _, f := range change {
		f(&cfg)
	}
	return newSender(t, cfg)
}

func TestWebhook_SendsACloudEvent(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	m := eventMessage()
	m.Replayed = true
	wantKind(t, webhookOf(t, r).Send(t.Context(), m), "accepted")
	got := r.only(t)
	if got.method != http.MethodPost || got.path != "/hook?x=1" {
		t.Errorf("the request is %s %s, want POST /hook?x=1", got.method, got.path)
	}
	wantHeader := map[string]string{"Content-Type": "application/cloudevents+json; charset=utf-8", "Webhook-Id": m.ID,
		"User-Agent": "dvt/1.2.3"}
	for name, want := range wantHeader {
		if have := got.header.Get(name); have != want {
			t.Errorf("the header %s is %q, want %q", name, have, want)
		}
	}
	want := map[string]any{
		"specversion": "1.0", "id": m.ID, "source": "https://dvt.example.com", "type": "dev.dvt.run.StepFailed",
		"subject": "runs/run-1", "time": "2026-11-28T06:00:00.123Z", "datacontenttype": "application/json",
		"tenantid": "acme", "projectid": "sales", "environmentid": "prod", "planid": "nightly", "runid": "run-1",
		"partitionkey": "run-1", "sequence": "00000000000000000017", "replayed": true,
		"data": map[string]any{"stepId": "load", "errorCode": "TIMEOUT", "text": `<b>Grüße & "so"</b>`},
	}
	if diff := cmp.Diff(want, decode(t, got.body)); diff != "" {
		t.Errorf("the body (-want +got):\n%s", diff)
	}
}

func TestWebhook_SendsAlerts(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	wantKind(t, webhookOf(t, r).Send(t.Context(), alertMessage()), "accepted")
	got := decode(t, r.only(t).body)
	want := map[string]any{"type": "dev.dvt.alert.AlertOpened", "subject": "alerts/NO_WORKER/acme/tq-data-prod",
		"partitionkey": "NO_WORKER/acme/tq-data-prod", "alertkey": "NO_WORKER/acme/tq-data-prod",
		"alertcode": "NO_WORKER", "alertlevel": "HIGH", "sequence": nil}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %v, want %v", name, got[name], value)
		}
	}
}

func TestWebhook_MapsEachAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status     int
		retryAfter string
		want       string
	}{
		{200, "", "accepted"},
		{204, "", "accepted"},
		{202, "120", "accepted"},
		{300, "", "rejected"},
		{301, "", "rejected"},
		{302, "", "rejected"},
		{303, "", "rejected"},
		{304, "", "rejected"},
		{307, "", "rejected"},
		{308, "", "rejected"},
		{400, "", "rejected"},
		{401, "", "rejected"},
		{404, "60", "rejected"},
		{408, "", "again"},
		{410, "", "gone"},
		{413, "", "rejected"},
		{425, "", "again"},
		{429, "", "again"},
		{429, "120", "retry after 2m0s"},
		{429, "0", "retry after 1s"},
		{429, "86400", "retry after 1h0m0s"},
		{429, "99999999999999999999999", "retry after 1h0m0s"},
		{429, "-5", "again"},
		{429, "soon", "again"},
		{503, "Wed, 21 Oct 2015 07:28:00 GMT", "retry after 1s"},
		{503, "Fri, 31 Dec 2100 23:59:59 GMT", "retry after 1h0m0s"},
		{503, "", "again"},
		{500, "60", "again"},
		{502, "", "again"},
		{599, "", "again"},
		{999, "", "again"},
	} {
		t.Run(fmt.Sprintf("%d %s", c.status, c.retryAfter), func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/elsewhere")
				if c.retryAfter != "" {
					w.Header().Set("Retry-After", c.retryAfter)
				}
				w.WriteHeader(c.status)
			})
			wantKind(t, webhookOf(t, r).Send(t.Context(), eventMessage()), c.want)
			r.only(t)
		})
	}
}

func TestWebhook_FollowsNoRedirect(t *testing.T) {
	t.Parallel()
	target := newReceiver(t, nil)
	r := newReceiver(t, func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, target.url, http.StatusTemporaryRedirect)
	})
	err := webhookOf(t, r).Send(t.Context(), eventMessage())
	wantKind(t, err, "rejected")
	if !strings.Contains(fmt.Sprint(err), "redirects are not followed") {
		t.Errorf("the error %q does not say that redirects are not followed", err)
	}
	if n := len(target.got()); n > 0 {
		t.Errorf("the target of the redirect got %d requests, want 0", n)
	}
}

// A receiver that echoes what it refuses must not bring a key into a log.
func TestWebhook_ErrorsHoldNoSecretAndLittleOfTheAnswer(t *testing.T) {
	t.Parallel()
	for name, lead := range map[string]string{"early": "", "across the limit": strings.Repeat("x", 185)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := newKey('k')
			r := newReceiver(t, func(w http.ResponseWriter, req *http.Request) {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, lead+key+" "+req.Header.Get("Webhook-Signature")+"\x1b[2J\r\n"+
					strings.Repeat("tail ", 1000))
			})
			err := webhookOf(t, r, func(cfg *destination.Config) {
				cfg.Secrets = []destination.SecretRef{secretFile(t, key)}
			}).Send(t.Context(), eventMessage())
			wantKind(t, err, "rejected")
			text := fmt.Sprint(err)
			if len(text) > 300 || strings.Contains(text, "kkkk") || strings.ContainsAny(text, "\x1b\r\n") ||
				strings.Contains(text, r.only(t).header.Get("Webhook-Signature")[3:20]) {
				t.Errorf("the error is %q of %d bytes, want at most 300 without key, signature and control characters",
					text, len(text))
			}
		})
	}
}

func TestWebhook_ReadsItsSecretsEachTime(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	ref := secretFile(t, newKey('a'))
	s := webhookOf(t, r, func(cfg *destination.Config) { cfg.Secrets = []destination.SecretRef{ref} })
	send := func() string {
		t.Helper()
		wantKind(t, s.Send(t.Context(), eventMessage()), "accepted")
		got := r.got()
		return got[len(got)-1].header.Get("Webhook-Signature")
	}
	first := send()
	if err := os.WriteFile(ref.File, []byte(newKey('b')), 0o600); err != nil {
		t.Fatal(err)
	}
	if second := send(); second == first {
		t.Error("the signature is the same after the secret has changed")
	}
	if err := os.Remove(ref.File); err != nil {
		t.Fatal(err)
	}
	err := s.Send(t.Context(), eventMessage())
	wantKind(t, err, "again")
	if !strings.Contains(fmt.Sprint(err), ref.File) {
		t.Errorf("the error %q does not name the file that is missing", err)
	}
}

func TestSecrets_RefuseWhatCannotBeOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, content string) destination.SecretRef {
		path := dir + "/" + name
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return destination.SecretRef{File: path}
	}
	environment := map[string]string{"EMPTY": "", "LONG": strings.Repeat("x", 5000), "GOOD": newKey('a')}
	r := newReceiver(t, nil)
	for name, c := range map[string]struct {
		ref       destination.SecretRef
		want, say string
	}{
		"good":               {destination.SecretRef{Env: "GOOD"}, "accepted", ""},
		"missing variable":   {destination.SecretRef{Env: "ABSENT"}, "again", "ABSENT of a secret is not set"},
		"empty variable":     {destination.SecretRef{Env: "EMPTY"}, "again", "is empty"},
		"long variable":      {destination.SecretRef{Env: "LONG"}, "again", "more than 4096 bytes"},
		"missing file":       {destination.SecretRef{File: dir + "/absent"}, "again", "no such file"},
		"directory":          {destination.SecretRef{File: dir}, "again", "not a regular file"},
		"device":             {destination.SecretRef{File: "/dev/zero"}, "again", "not a regular file"},
		"large file":         {file("large", strings.Repeat("x", 5000)), "again", "more than 4096 bytes"},
		"two lines":          {file("lines", newKey('a')+"\n"+newKey('b')), "again", "one line"},
		"no prefix":          {file("prefix", strings.Repeat("a", 32)), "again", "whsec_"},
		"no base64":          {file("base64", "whsec_!!!!"), "again", "whsec_"},
		"short key":          {file("short", "whsec_aaaa"), "again", "24 to 64 bytes"},
		"key above 64 bytes": {file("longkey", "whsec_"+strings.Repeat("a", 88)), "again", "24 to 64 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSender(t, destination.Config{Kind: destination.Webhook, URL: r.url,
				Secrets: []destination.SecretRef{c.ref}}, func(o *send.Options) {
				o.LookupEnv = func(name string) (string, bool) { v, ok := environment[name]; return v, ok }
			})
			err := s.Send(t.Context(), eventMessage())
			wantKind(t, err, c.want)
			if text := fmt.Sprint(err); err != nil && (!strings.Contains(text, c.say) || strings.Contains(text, "aaaa")) {
				t.Errorf("the error is %q, want one with %q and without the secret", text, c.say)
			}
		})
	}
}

// contract: T225
func TestSend_ReachesNoAddressInside(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	port := r.url[strings.LastIndex(r.url, ":"):]
	for host := range names {
		for _, cfg := range []destination.Config{
			{Kind: destination.Webhook, URL: "https://" + host + port, Secrets: []destination.SecretRef{{Env: "KEY"}}},
			{Kind: destination.Slack, URL: "https://" + host + port, Secrets: []destination.SecretRef{{Env: "PATH_OF_HOOK"}}},
			{Kind: destination.PagerDuty, URL: "https://" + host + port, Secrets: []destination.SecretRef{{Env: "KEY"}}},
			{Kind: destination.Email, URL: "smtp://" + host + port, From: "a@example.com", To: []string{"b@example.com"}},
			{Kind: destination.Syslog, URL: "tcp://" + host + port},
			{Kind: destination.Syslog, URL: "tls://" + host + port},
			{Kind: destination.Syslog, URL: "udp://" + host + port},
		} {
			t.Run(string(cfg.Kind)+" "+cfg.URL, func(t *testing.T) {
				t.Parallel()
				s, err := send.New(cfg, send.Options{LookupEnv: func(name string) (string, bool) {
					return map[string]string{"KEY": newKey('a'), "PATH_OF_HOOK": "/services/T/B/x"}[name], true
				}})
				if err != nil {
					t.Fatal(err)
				}
				err = s.Send(t.Context(), alertMessage())
				wantKind(t, err, "again")
				if !strings.Contains(fmt.Sprint(err), "leads to no host that may be called") {
					t.Errorf("the error is %v, want that the address may not be called", err)
				}
				if err := s.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
		}
	}
	t.Cleanup(func() {
		if n := len(r.got()); n > 0 {
			t.Errorf("the receiver inside got %d requests, want 0", n)
		}
	})
}

// An address of cloud metadata stays refused although private addresses are permitted.
func TestSend_NeverReachesMetadata(t *testing.T) {
	t.Parallel()
	s := newSender(t, destination.Config{Kind: destination.Webhook, URL: "https://metadata.test",
		Secrets: []destination.SecretRef{secretFile(t, newKey('a'))}})
	err := s.Send(t.Context(), eventMessage())
	if wantKind(t, err, "again"); !strings.Contains(fmt.Sprint(err), "may be called") {
		t.Errorf("the error is %v, want that the address may not be called", err)
	}
}

func TestWebhook_TrustsNoUnknownAuthority(t *testing.T) {
	t.Parallel()
	l := listenTLS(t, stranger)
	s := newSender(t, destination.Config{Kind: destination.Webhook, URL: "https://receiver.test:" + l,
		Secrets: []destination.SecretRef{secretFile(t, newKey('a'))}})
	err := s.Send(t.Context(), eventMessage())
	wantKind(t, err, "again")
	if !strings.Contains(fmt.Sprint(err), "certificate is not valid") {
		t.Errorf("the error is %v, want that the certificate is not valid", err)
	}
}

func TestWebhook_KeepsItsConnection(t *testing.T) {
	t.Parallel()
	var seen atomic.Value
	var connections atomic.Int64
	r := newReceiver(t, func(_ http.ResponseWriter, req *http.Request) {
		if before := seen.Swap(req.RemoteAddr); before != req.RemoteAddr {
			connections.Add(1)
		}
	})
	s := webhookOf(t, r)
	for range 10 {
		wantKind(t, s.Send(t.Context(), eventMessage()), "accepted")
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("10 messages took %d connections, want 1", n)
	}
}

// A connection whose other side is gone costs one send, not every send until the operating system notices.
func TestWebhook_LeavesADeadConnection(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	address := strings.TrimPrefix(r.url, "https://receiver.test")
	var frozen atomic.Bool
	proxy := rawServer(t, nil, func(conn net.Conn) {
		to, err := new(net.Dialer).DialContext(t.Context(), "tcp", "127.0.0.1"+address)
		if err != nil {
			return
		}
		defer to.Close()
		go func() { _, _ = io.Copy(conn, to) }()
		buf := make([]byte, 32<<10)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			if frozen.Load() {
				continue // the network loses what is sent on this connection from now on
			}
			_, _ = to.Write(buf[:n])
		}
	})
	s := newSender(t, destination.Config{Kind: destination.Webhook, URL: "https://" + proxy,
		Timeout: time.Second, Secrets: []destination.SecretRef{secretFile(t, newKey('a'))}})
	wantKind(t, s.Send(t.Context(), eventMessage()), "accepted")
	frozen.Store(true)
	wantKind(t, s.Send(t.Context(), eventMessage()), "again")
	frozen.Store(false)
	wantKind(t, s.Send(t.Context(), eventMessage()), "accepted")
}

func TestSend_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	began := time.Now()
	wantKind(t, webhookOf(t, r).Send(ctx, eventMessage()), "again")
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("a cancelled send took %s, want about 100 ms", took)
	}
}

// A receiver that accepts and then dawdles with its body costs a second, not the deadline.
func TestWebhook_WaitsForNoSlowBody(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, func(w http.ResponseWriter, req *http.Request) {
		w.WriteHeader(http.StatusOK)
		for req.Context().Err() == nil {
			_, _ = w.Write([]byte("."))
			_ = http.NewResponseController(w).Flush()
			time.Sleep(20 * time.Millisecond)
		}
	})
	began := time.Now()
	wantKind(t, webhookOf(t, r).Send(t.Context(), eventMessage()), "accepted")
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("an accepted message took %s, want about 1 s", took)
	}
}

func TestSend_RefusesMessagesAboveTheLimit(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	m := eventMessage()
	m.Data = []byte(`"` + strings.Repeat("x", destination.MaxMessage) + `"`)
	wantKind(t, webhookOf(t, r).Send(t.Context(), m), "rejected")
	m.Data = []byte(`{"no":`)
	wantKind(t, webhookOf(t, r).Send(t.Context(), m), "rejected")
}

func TestNew_RefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	key, five := []destination.SecretRef{{Env: "KEY"}}, make([]destination.SecretRef, 5)
	both := []destination.SecretRef{{Env: "A", File: "B"}}
	mail := func(change func(*destination.Config)) destination.Config {
		cfg := destination.Config{Kind: destination.Email, URL: "smtp://mail.example.com", From: "a@example.com",
			To: []string{"b@example.com"}}
		change(&cfg)
		return cfg
	}
	for name, cfg := range map[string]destination.Config{
		"unknown kind":          {Kind: "fax", URL: "https://example.com"},
		"webhook over http":     {Kind: destination.Webhook, URL: "http://example.com", Secrets: key},
		"webhook without url":   {Kind: destination.Webhook, Secrets: key},
		"webhook without key":   {Kind: destination.Webhook, URL: "https://example.com"},
		"webhook with 5 keys":   {Kind: destination.Webhook, URL: "https://example.com", Secrets: five},
		"password in the url":   {Kind: destination.Webhook, URL: "https://a:b@example.com", Secrets: key},
		"fragment in the url":   {Kind: destination.Webhook, URL: "https://example.com/#x", Secrets: key},
		"url that is no url":    {Kind: destination.Webhook, URL: "https://exa mple.com/%zz", Secrets: key},
		"secret of both kinds":  {Kind: destination.Webhook, URL: "https://example.com", Secrets: both},
		"secret of no kind":     {Kind: destination.Webhook, URL: "https://example.com", Secrets: five[:1]},
		"pagerduty two keys":    {Kind: destination.PagerDuty, Secrets: []destination.SecretRef{{Env: "A"}, {Env: "B"}}},
		"slack path in url":     {Kind: destination.Slack, URL: "https://hooks.slack.com/services/T/B/x", Secrets: key},
		"syslog over https":     {Kind: destination.Syslog, URL: "https://example.com"},
		"syslog with a path":    {Kind: destination.Syslog, URL: "tcp://example.com/x"},
		"syslog with a secret":  {Kind: destination.Syslog, URL: "tcp://example.com", Secrets: key},
		"mail without from":     mail(func(c *destination.Config) { c.From = "" }),
		"mail injects in from":  mail(func(c *destination.Config) { c.From = "a@example.com\r\nBcc: x@example.com" }),
		"mail injects in to":    mail(func(c *destination.Config) { c.To = []string{"b@example.com>\r\nDATA"} }),
		"mail to nobody":        mail(func(c *destination.Config) { c.To = nil }),
		"mail to 21":            mail(func(c *destination.Config) { c.To = make([]string, 21) }),
		"mail user, no secret":  mail(func(c *destination.Config) { c.User = "a" }),
		"mail secret, no user":  mail(func(c *destination.Config) { c.Secrets = key }),
		"mail over http":        mail(func(c *destination.Config) { c.URL = "https://mail.example.com" }),
		"mail with a user name": mail(func(c *destination.Config) { c.URL = "smtp://a:secret@mail.example.com" }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg.Name = "ops"
			_, err := send.New(cfg, send.Options{})
			if err == nil || !strings.HasPrefix(err.Error(), "destination ops: ") ||
				strings.Contains(err.Error(), "secret@") || strings.ContainsAny(err.Error(), "\r\n") {
				t.Errorf("New: %v, want an error that names the destination and no password", err)
			}
		})
	}
	if _, err := send.New(destination.Config{Kind: destination.Webhook, URL: "http://example.com", Secrets: key},
		send.Options{AllowPrivate: true}); err != nil {
		t.Errorf("http:// in development: %v", err)
	}
}

func TestErrors_AreNotWrapped(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) })
	err := webhookOf(t, r).Send(t.Context(), eventMessage())
	if _, ok := errors.AsType[*destination.RejectedError](err); !ok || strings.Contains(err.Error(), r.url) {
		t.Errorf("the error is %v, want a RejectedError without the address", err)
	}
}
