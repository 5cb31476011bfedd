package artifact_test

import (
	"testing"

	"github.com/dvt-engine/dvt/artifact/artifacttest"
	"github.com/dvt-engine/dvt/internal/testserver"
)

// contract: R086, R087
func TestBuckets_PassTheSuite(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]artifacttest.Buckets{
		"mem":  {New: func(*testing.T) string { return "mem://" }, Private: true},
		"file": {New: folder},
		"s3": {Signs: true, New: func(t *testing.T) string {
			s := testserver.S3(t)
			return s.URL(s.Addr)
		}},
		"gs":     {New: func(t *testing.T) string { return testserver.GCSBucket(t) }},
		"azblob": {Signs: true, New: func(t *testing.T) string { return testserver.AzureBucket(t) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			artifacttest.Run(t, b)
		})
	}
}
