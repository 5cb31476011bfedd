package artifact_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/internal/testserver"
)

func TestOpen_SaysWhatIsWrongWithTheAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"http://hunter2.example/":                "none of file, s3, gs, azblob",
		"s3://key:hunter2@bucket":                "must not hold credentials",
		"s3://?region=eu-west-1":                 "names no bucket",
		"s3://bucket/folder":                     "prefix=FOLDER/",
		"s3://bucket?secret_key=hunter2":         `no parameter "secret_key"`,
		"azblob://bucket?sas_token=hunter2":      `no parameter "sas_token"`,
		"gs://bucket?private_key_path=/no/such":  "open bucket",
		"s3://bucket?use_path_style=hunter2-yes": "open bucket",
	} {
		_, err := artifact.Open(t.Context(), address)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", address, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2@") {
			t.Errorf("%s: the error quotes the key: %v", address, err)
		}
	}
}

// Settings of earlier versions may have parameters that are now always set.
func TestOpen_AcceptsTheParametersOfEarlierVersions(t *testing.T) {
	t.Parallel()
	open(t, "file://"+t.TempDir()+"/blobs?create_dir=true&no_tmp_dir=true&metadata=skip", artifact.Limits{})
}

func TestOpen_SaysWhichRightABucketRefuses(t *testing.T) {
	t.Parallel()
	server := testserver.S3(t)
	good := server.URL(server.Addr)
	for name, c := range map[string]struct{ address, want string }{
		"no such bucket": {strings.Replace(good, "s3://dvt", "s3://other", 1), "cannot write objects"},
		"no rights":      {good + "&anonymous=true", "cannot write objects"},
		"no such host":   {strings.Replace(good, server.Addr, "no.such.host.invalid", 1), "cannot write objects"},
		"no such container": {strings.Replace(testserver.AzureBucket(t), "azblob://dvt", "azblob://no", 1),
			"cannot write objects"},
	} {
		_, err := artifact.Open(t.Context(), c.address)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "testtest") {
			t.Errorf("%s: %v, want an error with %q and without the key", name, err, c.want)
		}
	}
}

// A process starts while the service of its bucket is down, and its health says so.
func TestOpen_AServiceThatDoesNotAnswerIsNoErrorAtStart(t *testing.T) {
	t.Parallel()
	server := testserver.S3(t)
	server.Kill()
	s := open(t, server.URL(server.Addr), artifact.Limits{})
	if err := s.CheckWritable(t.Context()); !errors.Is(err, artifact.ErrUnavailable) {
		t.Errorf("CheckWritable: %v, want ErrUnavailable", err)
	}
	server.Start()
	if err := s.CheckWritable(t.Context()); err != nil {
		t.Errorf("CheckWritable after the service has returned: %v, want nil", err)
	}
}

// A service that stops in the middle of a call delays the call and tears nothing.
func TestLogs_AServiceThatIsFrozenTearsNothing(t *testing.T) {
	t.Parallel()
	server := testserver.S3(t)
	s := open(t, server.URL(server.Addr), artifact.Limits{})
	add(t, s, 1, 1, text(1, 10))
	server.Pause()
	done := make(chan error, 1)
	go func() { done <- s.Append(t.Context(), attempt, 1, 11, text(11, 20)) }()
	select {
	case err := <-done:
		t.Errorf("Append ended with %v while the service was frozen", err)
	default:
	}
	server.Resume()
	if err := <-done; err != nil {
		t.Errorf("Append: %v, want nil once the service goes on", err)
	}
	if got, total := read(t, s, 1, 100); total != 20 || len(got) != 20 {
		t.Errorf("the log has %d of %d lines, want 20", len(got), total)
	}
}
