package send_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/destination/send"
)

// names are what the tests' name server answers. Other names do not exist.
var names = map[string]string{
	"receiver.test":      "127.0.0.1",
	"loopback.test":      "127.0.0.1",
	"metadata.test":      "169.254.169.254",
	"mapped.test":        "::ffff:10.0.0.1",
	"private.test":       "10.0.0.1",
	"unique-local.test":  "fd12:3456::1",
	"loopback-six.test":  "::1",
	"unspecified.test":   "0.0.0.0",
	"nat64.test":         "64:ff9b::a9fe:a9fe",
	"link-local.test":    "169.254.1.1",
	"carrier-grade.test": "100.64.0.1",
}

// moving are names whose addresses a test changes: by name, a list of IPv4 addresses with commas.
var moving sync.Map

// certificate is for receiver.test and 127.0.0.1, of an authority that the process trusts as it trusts public ones.
// stranger is for the same names, and nobody trusts it.
var certificate, stranger tls.Certificate

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

// runTests replaces the name server and the authorities of the process, which is all that is not real here.
func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "send")
	if err != nil {
		log.Print(err)
		return 1
	}
	defer os.RemoveAll(dir)
	var authority []byte
	certificate, authority = issue()
	stranger, _ = issue()
	file := filepath.Join(dir, "authority.pem")
	if err := os.WriteFile(file, authority, 0o600); err != nil {
		log.Print(err)
		return 1
	}
	if err := errors.Join(os.Setenv("SSL_CERT_FILE", file), os.Setenv("SSL_CERT_DIR", dir)); err != nil {
		log.Print(err)
		return 1
	}
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		log.Print(err)
		return 1
	}
	defer conn.Close()
	go answerNames(conn)
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	return m.Run()
}

func issue() (server tls.Certificate, authority []byte) {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of the test"}, IsCA: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	rootBytes, err := x509.CreateCertificate(rand.Reader, root, root, &key.PublicKey, key)
	must(err)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "receiver.test"},
		DNSNames: []string{"receiver.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: root.NotBefore, NotAfter: root.NotAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	leafBytes, err := x509.CreateCertificate(rand.Reader, leaf, root, &key.PublicKey, key)
	must(err)
	return tls.Certificate{Certificate: [][]byte{leafBytes}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootBytes})
}

func answerNames(conn net.PacketConn) {
	buf := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var query dnsmessage.Message
		if query.Unpack(buf[:n]) != nil || len(query.Questions) != 1 {
			continue
		}
		q := query.Questions[0]
		reply := dnsmessage.Message{
			Header:    dnsmessage.Header{ID: query.ID, Response: true, RecursionAvailable: true},
			Questions: query.Questions,
		}
		name := strings.TrimSuffix(strings.ToLower(q.Name.String()), ".")
		text, known := names[name]
		head := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET}
		if list, ok := moving.Load(name); ok && q.Type == dnsmessage.TypeA {
			for address := range strings.SplitSeq(list.(string), ",") {
				reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: head,
					Body: &dnsmessage.AResource{A: netip.MustParseAddr(address).As4()}})
			}
		} else if ok {
			known = true // it has no address of the other family
		}
		if a, err := netip.ParseAddr(text); len(reply.Answers) == 0 && (err != nil || !known) {
			if _, ok := moving.Load(name); !ok {
				reply.RCode = dnsmessage.RCodeNameError
			}
		} else if a.Is4() && q.Type == dnsmessage.TypeA {
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: head,
				Body: &dnsmessage.AResource{A: a.As4()}})
		} else if !a.Is4() && q.Type == dnsmessage.TypeAAAA {
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: head,
				Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
		packed, err := reply.Pack()
		if err == nil {
			_, _ = conn.WriteTo(packed, from)
		}
	}
}

// request is one that a receiver got.
type request struct {
	method, path string
	header       http.Header
	body         string
}

// receiver is an HTTPS server that keeps what it got.
type receiver struct {
	url string

	mu       sync.Mutex
	requests []request
}

// newReceiver starts a receiver that answers 200, or calls answer when that is not nil.
func newReceiver(t *testing.T, answer http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		r.mu.Lock()
		r.requests = append(r.requests, request{req.Method, req.URL.RequestURI(), req.Header.Clone(), string(body)})
		r.mu.Unlock()
		if answer != nil {
			answer(w, req)
		}
	}))
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	_, port, err := net.SplitHostPort(srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	r.url = "https://receiver.test:" + port
	return r
}

func (r *receiver) got() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]request(nil), r.requests...)
}

// only returns the one request that the receiver got.
func (r *receiver) only(t *testing.T) request {
	t.Helper()
	got := r.got()
	if len(got) != 1 {
		t.Fatalf("the receiver got %d requests, want 1", len(got))
	}
	return got[0]
}

// secretFile writes a secret into a file and returns its reference.
func secretFile(t *testing.T, content string) destination.SecretRef {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return destination.SecretRef{File: path}
}

// newSender returns a sender that may call the receivers of the tests, which stand on 127.0.0.1.
func newSender(t *testing.T, cfg destination.Config, change ...func(*send.Options)) destination.Sender {
	t.Helper()
	cfg.Name, cfg.AllowPrivate = "test", true
	opt := send.Options{PublicAddress: "https://dvt.example.com", Version: "1.2.3"}
	for _, f := range change {
		f(&opt)
	}
	s, err := send.New(cfg, opt)
	if err != nil {
		t.Fatalf("a sender of the kind %s: %v", cfg.Kind, err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// development permits mail without TLS, as `dvt dev` does.
func development(o *send.Options) { o.AllowPrivate = true }

func eventMessage() destination.Message {
	return destination.Message{
		ID: "5f1c-17", Topic: destination.Events, Type: "StepFailed",
		At:       time.Date(2026, 11, 28, 6, 0, 0, 123000000, time.UTC),
		TenantID: "acme", ProjectID: "sales", EnvironmentID: "prod", PlanID: "nightly", RunID: "run-1", Seq: 17,
		Data: json.RawMessage(`{"stepId":"load","errorCode":"TIMEOUT","text":"<b>Grüße & \"so\"</b>"}`),
	}
}

func alertMessage() destination.Message {
	m := eventMessage()
	m.ID, m.Topic, m.Type, m.Seq, m.Level = "alert-1-3", destination.Alerts, "AlertOpened", 0, "HIGH"
	m.Alert = &destination.AlertText{
		Key: "NO_WORKER/acme/tq-data-prod", Code: "NO_WORKER", Title: "No worker takes steps of tq-data-prod",
		Detail: "Start a worker for this queue.\nAsk the administrator of the installation.",
		Link:   "/alerts/NO_WORKER", Count: 3,
	}
	return m
}

// hostile is text that a tenant may choose: it tries to end what it stands in.
const hostile = "x\r\nBcc: all@example.com\r\n\r\n<!channel> <@U1> <https://evil.example|ok> & \"] <165>1 - forged \x00\x1b[2J" +
	"\u2028\u202e\xff</p><script>"

func hostileAlert() destination.Message {
	m := alertMessage()
	m.ID, m.TenantID, m.PlanID, m.RunID, m.Type = hostile, hostile, hostile, hostile, "AlertOpened"
	m.Alert = &destination.AlertText{
		Key: hostile, Code: hostile, Title: hostile + strings.Repeat("é<", 4000), Detail: strings.Repeat(hostile, 3000),
		Link: "https://dvt.example.com/\"><script>|x", Count: 1,
	}
	return m
}

func decode(t *testing.T, body string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(body), &out); err != nil {
		t.Fatalf("the body is no JSON: %v", err)
	}
	return out
}

// kindOf names what the port promises about an error.
func kindOf(err error) string {
	var rejected *destination.RejectedError
	var retry *destination.RetryError
	switch {
	case err == nil:
		return "accepted"
	case errors.Is(err, destination.ErrGone):
		return "gone"
	case errors.As(err, &rejected):
		return "rejected"
	case errors.As(err, &retry):
		return "retry after " + retry.After.String()
	}
	return "again"
}

func wantKind(t *testing.T, err error, want string) {
	t.Helper()
	if got := kindOf(err); got != want {
		t.Errorf("the send ended with %q (%v), want %q", got, err, want)
	}
}

func newKey(fill byte) string {
	return fmt.Sprintf("whsec_%s", strings.Repeat(string([]byte{fill}), 32))
}
