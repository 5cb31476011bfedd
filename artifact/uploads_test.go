package artifact_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/internal/testserver"
)

func TestPut_BoundsTheArtifactsOfAnAttempt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits artifact.Limits
		fits   int
	}{
		"number": {artifact.Limits{AttemptBlobs: 3}, 3},
		"bytes":  {artifact.Limits{AttemptBlobBytes: 10}, 2},
	} {
		s, err := artifact.OpenWithLimits(t.Context(), "mem://", c.limits)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		put := func(run string, file int) error {
			_, _, _, err := s.Put(t.Context(), fmt.Sprintf("acme/%s/s1/1/1/f%d", run, file), strings.NewReader("12345"))
			return err
		}
		for i := range c.fits {
			if err := put("r1", i); err != nil {
				t.Fatalf("%s: artifact %d: %v", name, i, err)
			}
		}
		if err := put("r1", 99); !errors.Is(err, artifact.ErrTooLarge) {
			t.Errorf("%s: an artifact beyond the bound: %v, want ErrTooLarge", name, err)
		}
		if err := put("r1", c.fits-1); err != nil && name == "number" {
			t.Errorf("%s: a repetition of the last artifact: %v", name, err)
		}
		if err := put("r2", 0); err != nil {
			t.Errorf("%s: an artifact of another run: %v", name, err)
		}
	}
}

func TestRemoveUnnamed_KeepsWhatEventsName(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"mem://", "file://" + t.TempDir()} {
		s, err := artifact.Open(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		uris := map[string]string{}
		for _, name := range []string{"acme/r1/s1/1/1/a b.json", "acme/r1/s1/1/1/dvt-try.json",
			"acme/r1/s1/1/2/lost.bin", "acme/r1/s1/1/3/lost.bin", "acme/r2/s1/1/1/lost.bin"} {
			if uris[name], _, _, err = s.Put(t.Context(), name, strings.NewReader("12345")); err != nil {
				t.Fatal(err)
			}
		}
		named := []string{uris["acme/r1/s1/1/1/a b.json"], "https://example.com/elsewhere"}
		var got []int64
		for more := true; more; {
			out, err := s.RemoveUnnamed(t.Context(), "acme", "r1", named, 2)
			if err != nil {
				t.Fatal(err)
			}
			got, more = append(got, out.Objects), out.More
		}
		if want := []int64{2, 1}; !slices.Equal(got, want) {
			t.Errorf("%s: the calls removed %v objects, want %v", address, got, want)
		}
		for name, uri := range uris {
			r, err := s.Open(t.Context(), uri)
			if err == nil {
				_ = r.Close()
			}
			if kept := err == nil; kept != (strings.Contains(name, "a b") || strings.Contains(name, "/r2/")) {
				t.Errorf("%s: %s is kept: %t", address, name, kept)
			}
		}
		if _, err := s.RemoveUnnamed(t.Context(), "acme", "", nil, 1); err == nil {
			t.Errorf("%s: a call without a run was accepted; it would remove the artifacts of the tenant", address)
		}
	}
}

// The parts of an upload that nobody finished are no objects, so no list shows them and nothing else removes them.
func TestAbortUploads_EndsTheOldOnesOfTheTenant(t *testing.T) {
	t.Parallel()
	server := testserver.S3(t)
	s, err := artifact.Open(t.Context(), server.URL(server.Addr)+"&prefix=dvt/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	cfg, err := config.LoadDefaultConfig(t.Context(), config.WithRegion("us-east-1"))
	if err != nil {
		t.Fatal(err)
	}
	client := s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.BaseEndpoint, o.UsePathStyle = aws.String("http://"+server.Addr), true
	})
	for _, key := range []string{"dvt/artifacts/acme/r1/s1/1/1/big.bin", "dvt/artifacts/acme2/r1/s1/1/1/big.bin",
		"artifacts/acme/r1/s1/1/1/of-another-program"} {
		if _, err := client.CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: &server.Bucket,
			Key: &key}); err != nil {
			t.Fatal(err)
		}
	}
	left := func() (keys []string) {
		out, err := client.ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: &server.Bucket})
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range out.Uploads {
			keys = append(keys, *u.Key)
		}
		return keys
	}
	if n, err := s.AbortUploads(t.Context(), "acme", time.Now().Add(-time.Hour), 10); err != nil || n != 0 {
		t.Errorf("uploads that are younger: %d were ended, %v; want none", n, err)
	}
	if n, err := s.AbortUploads(t.Context(), "acme", time.Now().Add(time.Hour), 10); err != nil || n != 1 {
		t.Errorf("uploads that are older: %d were ended, %v; want one", n, err)
	}
	if keys := left(); len(keys) != 2 || slices.ContainsFunc(keys, func(k string) bool {
		return strings.HasPrefix(k, "dvt/artifacts/acme/")
	}) {
		t.Errorf("uploads that are left: %q, want those of the other tenant and of the other program", keys)
	}
}
