package aws_test

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/plan"
)

const (
	keyID  = "AKIDSTANDIN"
	key    = "stand-in/secret+key"
	region = "eu-central-1"
)

// standIn answers GetSecretValue as AWS Secrets Manager documents it: the JSON protocol 1.1, signatures of version 4,
// labels and ids of versions, and errors. It shares no code with the client.
type standIn struct {
	*httptest.Server

	mu        sync.Mutex
	secrets   map[string][]version
	forbidden map[string]bool
	throttled int
	unsigned  int // requests whose signature was wrong
	tokens    map[string]string
}

type version struct {
	id     string
	text   *string
	binary []byte
}

func newStandIn(t *testing.T) *standIn {
	t.Helper()
	s := &standIn{secrets: map[string][]version{}, forbidden: map[string]bool{},
		tokens: map[string]string{keyID: key}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *standIn) put(path string, v version) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b [16]byte
	_, _ = rand.Read(b[:])
	v.id = fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	s.secrets[path] = append(s.secrets[path], v)
	return v.id
}

// putFields stores a text, or an object of fields as the console of AWS does.
func (s *standIn) putFields(path string, fields map[string]string) string {
	text := textOf(fields)
	return s.put(path, version{text: &text})
}

// textOf returns the text of a secret with fields.
func textOf(fields map[string]string) string {
	text, whole := fields[plan.DefaultSecretField]
	if !whole || len(fields) > 1 {
		doc, _ := json.Marshal(fields)
		text = string(doc)
	}
	return text
}

func (s *standIn) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if code := s.verify(r, body); code != "" {
		s.unsigned++
		fail(w, http.StatusBadRequest, code, "The request signature we calculated does not match the signature you provided.")
		return
	}
	if r.Method != http.MethodPost || r.Header.Get("X-Amz-Target") != "secretsmanager.GetSecretValue" ||
		r.Header.Get("Content-Type") != "application/x-amz-json-1.1" {
		fail(w, http.StatusBadRequest, "UnknownOperationException", "")
		return
	}
	if s.throttled > 0 {
		s.throttled--
		fail(w, http.StatusBadRequest, "ThrottlingException", "Rate exceeded")
		return
	}
	var in struct{ SecretId, VersionId, VersionStage string }
	if json.Unmarshal(body, &in) != nil || in.SecretId == "" {
		fail(w, http.StatusBadRequest, "ValidationException", "")
		return
	}
	versions := s.secrets[in.SecretId]
	if s.forbidden[in.SecretId] {
		fail(w, http.StatusBadRequest, "AccessDeniedException",
			"User: arn:aws:sts::1:assumed-role/x is not authorized to perform: secretsmanager:GetSecretValue on resource: "+in.SecretId)
		return
	}
	at := slices.IndexFunc(versions, func(v version) bool { return v.id == in.VersionId })
	if in.VersionId == "" {
		switch in.VersionStage {
		case "", "AWSCURRENT":
			at = len(versions) - 1
		case "AWSPREVIOUS":
			at = len(versions) - 2
		}
	}
	if at < 0 {
		fail(w, http.StatusBadRequest, "ResourceNotFoundException",
			"Secrets Manager can't find the specified secret value for staging label: "+in.VersionStage)
		return
	}
	v := versions[at]
	if v.text == nil && v.binary == nil {
		fail(w, http.StatusBadRequest, "InvalidRequestException",
			"You can't perform this operation on the secret because it was marked for deletion.")
		return
	}
	out := map[string]any{"ARN": "arn:aws:secretsmanager:" + region + ":1:secret:" + in.SecretId + "-AbCdEf",
		"Name": in.SecretId, "VersionId": v.id, "VersionStages": []string{"AWSCURRENT"}, "CreatedDate": 1.7e9}
	if v.text != nil {
		out["SecretString"] = *v.text
	} else {
		out["SecretBinary"] = base64.StdEncoding.EncodeToString(v.binary)
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	_ = json.NewEncoder(w).Encode(out)
}

func fail(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"__type": code, "Message": message})
}

// verify returns the code of the error of a request that is not signed by a known key within the last five minutes.
func (s *standIn) verify(r *http.Request, body []byte) string {
	const scheme = "AWS4-HMAC-SHA256"
	header, ok := strings.CutPrefix(r.Header.Get("Authorization"), scheme+" ")
	if !ok {
		return "MissingAuthenticationTokenException"
	}
	parts := map[string]string{}
	for part := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		parts[name] = value
	}
	scope := strings.SplitN(parts["Credential"], "/", 2)
	secretKey, known := s.tokens[scope[0]]
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	switch {
	case !known || len(scope) < 2:
		return "UnrecognizedClientException"
	case err != nil || time.Since(at).Abs() > 5*time.Minute,
		scope[1] != at.Format("20060102")+"/"+region+"/secretsmanager/aws4_request":
		return "InvalidSignatureException"
	}
	names := strings.Split(parts["SignedHeaders"], ";")
	canonical := []string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery}
	for _, name := range names {
		value := r.Header.Get(name)
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = fmt.Sprint(len(body))
		}
		canonical = append(canonical, name+":"+strings.TrimSpace(value))
	}
	if !slices.Contains(names, "host") || !slices.Contains(names, "x-amz-date") || !slices.IsSorted(names) {
		return "IncompleteSignatureException"
	}
	canonical = append(canonical, "", parts["SignedHeaders"], sum(strings.NewReader(string(body))))
	toSign := strings.Join([]string{scheme, at.Format("20060102T150405Z"), scope[1],
		sum(strings.NewReader(strings.Join(canonical, "\n")))}, "\n")
	signing := []byte("AWS4" + secretKey)
	for part := range strings.SplitSeq(scope[1], "/") {
		signing = mac(signing, part)
	}
	if hex.EncodeToString(mac(signing, toSign)) != parts["Signature"] {
		return "InvalidSignatureException"
	}
	return ""
}

func sum(r io.Reader) string {
	h := sha256.New()
	_, _ = io.Copy(h, r)
	return hex.EncodeToString(h.Sum(nil))
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = io.WriteString(h, text)
	return h.Sum(nil)
}
