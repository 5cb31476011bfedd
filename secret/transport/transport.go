// Package transport is how providers of secrets speak HTTP. Answers are bounded. Redirects are refused, because they
// would carry a credential to another address. Errors repeat neither an answer nor an address.
package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/secret"
)

const (
	maxAnswer  = 1 << 20 // bytes
	maxCAFile  = 1 << 20
	maxPause   = time.Hour // of Retry-After
	headerTime = 30 * time.Second
)

// errRedirected is the error of an answer that names another address.
var errRedirected = errors.New("the provider redirected the request, which is refused")

// New returns a client of Base behind Guard.
func New(caFile string) (*http.Client, error) {
	t, err := Base(caFile)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: Guard(t)}, nil
}

// Base returns a transport that trusts the certificates in a PEM file, or those of the system without one, and uses the
// proxy of the environment.
func Base(caFile string) (*http.Transport, error) {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		t = &http.Transport{Proxy: http.ProxyFromEnvironment}
	}
	t = t.Clone()
	t.ResponseHeaderTimeout = headerTime
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		pem, err := readCA(caFile)
		if err != nil {
			return nil, err
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the file %s has no certificate", caFile)
		}
	}
	return t, nil
}

func readCA(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the file %s of certificates cannot be opened", path)
	}
	defer f.Close()
	pem, err := io.ReadAll(io.LimitReader(f, maxCAFile))
	if err != nil {
		return nil, fmt.Errorf("the file %s of certificates cannot be read", path)
	}
	return pem, nil
}

// Guard returns a round tripper that bounds answers, refuses redirects, and returns a *secret.ThrottledError for an
// answer with status 429.
func Guard(next http.RoundTripper) http.RoundTripper { return guard{next} }

type guard struct{ next http.RoundTripper }

func (g guard) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := g.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	switch {
	case answer.StatusCode == http.StatusTooManyRequests:
		err = &secret.ThrottledError{After: retryAfter(answer.Header.Get("Retry-After"), time.Now())}
	case answer.StatusCode >= 300 && answer.StatusCode < 400:
		err = errRedirected
	}
	if err != nil {
		_ = answer.Body.Close()
		return nil, err
	}
	answer.Body = http.MaxBytesReader(nil, answer.Body, maxAnswer)
	return answer, nil
}

// retryAfter returns the pause that a header asks for: seconds, or the end of the pause as a date. It is 0 when the
// header says nothing.
func retryAfter(header string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(header); err == nil && n > 0 {
		return min(time.Duration(min(n, int(maxPause/time.Second)))*time.Second, maxPause)
	}
	if at, err := http.ParseTime(header); err == nil && at.After(now) {
		return min(at.Sub(now), maxPause)
	}
	return 0
}

// StatusError is an answer with a status from 400.
type StatusError struct {
	Status int
	Code   string // the provider's own word, such as FAILED_PRECONDITION; "" when it gave none
}

func (e *StatusError) Error() string { return fmt.Sprintf("the provider answered status %d", e.Status) }

// GetJSON sends a GET request with a bearer token, and decodes the answer into out. Errors: *StatusError, and those of
// the client. codeOf finds the provider's own word in the answer that is an error.
func GetJSON(ctx context.Context, client *http.Client, address, token string, out any,
	codeOf func(body []byte) string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return errors.New("the address of the provider is wrong")
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", "application/json")
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode >= 400 {
		return &StatusError{answer.StatusCode, codeOf(body)}
	}
	if answer.StatusCode != http.StatusOK || json.Unmarshal(body, out) != nil {
		return errMalformed
	}
	return nil
}

var errMalformed = errors.New("the provider's answer cannot be read")

// Reason returns what an error of a request says, without the address and the answer.
func Reason(err error) error {
	if throttled, ok := errors.AsType[*secret.ThrottledError](err); ok {
		return throttled
	}
	if answered, ok := errors.AsType[*StatusError](err); ok {
		switch answered.Status {
		case http.StatusUnauthorized:
			return fmt.Errorf("%w: it does not accept the identity of the worker (status 401)", secret.ErrDenied)
		case http.StatusForbidden:
			return secret.ErrDenied
		case http.StatusNotFound:
			return secret.ErrNotFound
		}
		return answered
	}
	var large *http.MaxBytesError
	switch {
	case errors.Is(err, errRedirected):
		return errRedirected
	case errors.Is(err, errMalformed):
		return errMalformed
	case errors.As(err, &large):
		return fmt.Errorf("the provider's answer has more than %d bytes", maxAnswer)
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("the provider did not answer in time")
	case errors.Is(err, context.Canceled):
		return context.Canceled
	}
	return errors.New("the provider cannot be reached, or its answer cannot be read")
}

// Fields returns the fields of a secret that is one text: those of a JSON object, and the whole text as the field named
// whole unless the object has such a field. Numbers keep their digits; fields that are objects, lists or null are left
// out.
func Fields(text []byte, whole string) map[string]secret.Value {
	out := map[string]secret.Value{whole: secret.NewValue(string(text))}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var object map[string]any
	if !strings.HasPrefix(strings.TrimSpace(string(text)), "{") || d.Decode(&object) != nil || d.More() {
		return out
	}
	for name, v := range object {
		switch v := v.(type) {
		case string:
			out[name] = secret.NewValue(v)
		case json.Number:
			out[name] = secret.NewValue(v.String())
		case bool:
			out[name] = secret.NewValue(strconv.FormatBool(v))
		}
	}
	return out
}
