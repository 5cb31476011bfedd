package testserver

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Credentials of the servers of buckets. The SDKs take them from the environment of the process, so that all tests of a
// process use the same.
const (
	s3Key, s3Secret = "test", "testtest"
	azureAccount    = "devstoreaccount1"
	// azureKey is the well-known key of every Azurite.
	azureKey = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// S3Server is a server of one s3 bucket on disk that a test may kill and start again on the same port.
type S3Server struct {
	// Addr is host:port. Bucket is the name of its bucket.
	Addr, Bucket string

	t    testing.TB
	bin  string
	box  *sandbox
	proc *process
}

// S3 starts a server that only t uses and stops it when t ends.
func S3(t testing.TB) *S3Server {
	t.Helper()
	s := &S3Server{t: t, Bucket: "dvt", bin: bucketProgram(t, "bin/versitygw")}
	var err error
	if s.box, err = newSandbox("s3", syscall.SIGKILL); err != nil {
		t.Fatalf("testserver: no S3 server: %v", err)
	}
	t.Cleanup(func() {
		if err := s.box.close(); err != nil {
			t.Errorf("testserver: clean up after the S3 server: %v", err)
		}
	})
	if err := os.MkdirAll(filepath.Join(s.box.dir, "data", s.Bucket), 0o700); err != nil {
		t.Fatalf("testserver: no S3 server: %v", err)
	}
	err = retry(func() error {
		port, err := freePort()
		if err != nil {
			return err
		}
		s.Addr = net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
		return s.start()
	})
	if err != nil {
		t.Fatalf("testserver: no S3 server: %v", err)
	}
	setEnv("AWS_ACCESS_KEY_ID", s3Key, "AWS_SECRET_ACCESS_KEY", s3Secret, "AWS_EC2_METADATA_DISABLED", "true")
	return s
}

// URL returns the address of the bucket at a host:port, which is that of the server or of a proxy before it.
func (s *S3Server) URL(addr string) string {
	return fmt.Sprintf("s3://%s?endpoint=http://%s&use_path_style=true&region=us-east-1", s.Bucket, addr)
}

// Kill kills the server; its bucket stays. It does nothing when the server is stopped.
func (s *S3Server) Kill() {
	s.t.Helper()
	if s.proc == nil {
		return
	}
	if err := s.box.stop(s.proc, syscall.SIGKILL); err != nil {
		s.t.Fatalf("testserver: kill the S3 server: %v", err)
	}
	s.proc = nil
}

// Start starts a killed server on the same address and returns when it answers.
func (s *S3Server) Start() {
	s.t.Helper()
	if s.proc != nil {
		return
	}
	if err := retry(s.start); err != nil {
		s.t.Fatalf("testserver: start the S3 server again: %v", err)
	}
}

// Pause freezes the server, which keeps its connections; Resume lets it go on.
func (s *S3Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *S3Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *S3Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.proc.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("testserver: signal the S3 server: %v", err)
	}
}

func (s *S3Server) start() (err error) {
	cmd := exec.Command(s.bin, "--port", s.Addr, "posix", filepath.Join(s.box.dir, "data"))
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+s3Key, "ROOT_SECRET_KEY="+s3Secret)
	s.proc, err = s.box.run(cmd, func(*process) bool { return accepts(s.Addr) })
	return err
}

// GCSBucket returns the address of a new gs bucket. Its server starts once per test process, because the SDK takes the
// server's address from the environment.
func GCSBucket(t testing.TB) string {
	t.Helper()
	bin := bucketProgram(t, "bin/fake-gcs-server")
	addr := gcs.get(t, func(box *sandbox, addr string) *exec.Cmd {
		host, port, _ := net.SplitHostPort(addr)
		return exec.Command(bin, "-scheme", "http", "-host", host, "-port", port, "-backend", "filesystem",
			"-filesystem-root", filepath.Join(box.dir, "data"), "-public-host", addr)
	})
	setEnv("STORAGE_EMULATOR_HOST", addr)
	name := "dvt-" + strings.ToLower(rand.Text())
	body := strings.NewReader(fmt.Sprintf(`{"name":%q}`, name))
	send(t, http.MethodPost, "http://"+addr+"/storage/v1/b?project=p", body, http.Header{
		"Content-Type": {"application/json"}})
	return "gs://" + name + "?anonymous=true"
}

// AzureBucket returns the address of a new azblob container. Its server starts once per test process, because it takes
// seconds.
func AzureBucket(t testing.TB) string {
	t.Helper()
	bin := bucketProgram(t, "buckets/node_modules/.bin/azurite-blob")
	addr := azurite.get(t, func(box *sandbox, addr string) *exec.Cmd {
		host, port, _ := net.SplitHostPort(addr)
		return exec.Command(bin, "--blobHost", host, "--blobPort", port, "--location", filepath.Join(box.dir, "data"),
			"--silent", "--disableTelemetry", "--skipApiVersionCheck")
	})
	setEnv("AZURE_STORAGE_ACCOUNT", azureAccount, "AZURE_STORAGE_KEY", azureKey)
	name := "dvt-" + strings.ToLower(rand.Text())
	date, version := time.Now().UTC().Format(http.TimeFormat), "2021-12-02"
	path := "/" + azureAccount + "/" + name
	key, _ := base64.StdEncoding.DecodeString(azureKey) // a constant
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:%s\nx-ms-version:%s\n/%s%s\nrestype:container", date,
		version, azureAccount, path)
	send(t, http.MethodPut, "http://"+addr+path+"?restype=container", nil, http.Header{
		"X-Ms-Date": {date}, "X-Ms-Version": {version},
		"Authorization": {"SharedKey " + azureAccount + ":" + base64.StdEncoding.EncodeToString(mac.Sum(nil))}})
	return fmt.Sprintf("azblob://%s?protocol=http&domain=%s&localemu=true", name, addr)
}

// sharedServer is a server of buckets that starts once per test process.
type sharedServer struct {
	mu   sync.Mutex
	box  *sandbox // kept, because the watchdog ends the server when its pipe is closed
	addr string
}

var gcs, azurite sharedServer //nolint:gochecknoglobals // one of each per process

// get starts the server if it does not run, and returns its address.
func (s *sharedServer) get(t testing.TB, command func(*sandbox, string) *exec.Cmd) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.addr != "" {
		return s.addr
	}
	box, err := newSandbox("bucket", syscall.SIGKILL)
	if err != nil {
		t.Fatalf("testserver: no server of buckets: %v", err)
	}
	s.box = box
	var addr string
	err = retry(func() error {
		port, err := freePort()
		if err != nil {
			return err
		}
		addr = net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
		_, err = box.run(command(box, addr), func(*process) bool { return accepts(addr) })
		return err
	})
	if err != nil {
		t.Fatalf("testserver: no server of buckets: %v", err)
	}
	s.addr = addr
	return addr
}

// bucketProgram returns the path of a server of buckets.
func bucketProgram(t testing.TB, name string) string {
	t.Helper()
	bin, err := program(name)
	if errors.Is(err, exec.ErrNotFound) {
		t.Fatalf("testserver: %s is missing: run `make tools/buckets`", filepath.Base(name))
	}
	if err != nil {
		t.Fatalf("testserver: %v", err)
	}
	return bin
}

// setEnv sets variables of this process, given as names and values, for all its tests.
func setEnv(pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		_ = os.Setenv(pairs[i], pairs[i+1])
	}
}

// send makes a request to a server of buckets and fails t unless it succeeds.
func send(t testing.TB, method, url string, body io.Reader, headers http.Header) {
	t.Helper()
	if body == nil {
		body = bytes.NewReader(nil)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = headers
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("testserver: make a bucket: %v", err)
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		text, _ := io.ReadAll(res.Body)
		t.Fatalf("testserver: make a bucket: %s: %s", res.Status, text)
	}
}
