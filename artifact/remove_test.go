package artifact_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/artifact"
)

func TestRemove_DeletesTheScopeInBatches(t *testing.T) {
	t.Parallel()
	for _, bucket := range []string{"mem://", "file://" + t.TempDir()} {
		s, err := artifact.Open(t.Context(), bucket)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		var uris []string
		for _, owner := range []string{"acme/r1", "acme/r2", "acme2/r1"} {
			for i := range 5 {
				uri, _, _, err := s.Put(t.Context(), fmt.Sprintf("%s/s1/1/1/f%d", owner, i), strings.NewReader("12345"))
				if err != nil {
					t.Fatal(err)
				}
				uris = append(uris, uri)
			}
		}
		r1 := artifact.Scope{Kind: artifact.KindArtifacts, TenantID: "acme", RunID: "r1"}
		want := []artifact.Removed{{Objects: 3, Bytes: 15, More: true}, {Objects: 2, Bytes: 10}, {}}
		for i, w := range want {
			if got, err := s.Remove(t.Context(), r1, 3); err != nil || got != w {
				t.Fatalf("%s: batch %d removed %+v, %v, want %+v", bucket, i, got, err, w)
			}
		}
		tenant := artifact.Scope{Kind: artifact.KindArtifacts, TenantID: "acme"}
		for _, call := range []func(context.Context, artifact.Scope, int) (artifact.Removed, error){s.Measure, s.Remove} {
			if got, err := call(t.Context(), tenant, 100); err != nil || got != (artifact.Removed{Objects: 5, Bytes: 25}) {
				t.Fatalf("%s: the tenant has %+v, %v, want the 5 objects of r2", bucket, got, err)
			}
		}
		for i := range 2 { // the second call finds nothing
			if err := s.RemoveArtifact(t.Context(), uris[10]); err != nil {
				t.Fatalf("%s: call %d of RemoveArtifact: %v", bucket, i+1, err)
			}
		}
		if _, err := s.Open(t.Context(), uris[10]); !errors.Is(err, artifact.ErrNotFound) {
			t.Fatalf("%s: a removed artifact opens with %v, want ErrNotFound", bucket, err)
		}
		if r, err := s.Open(t.Context(), uris[14]); err != nil {
			t.Fatalf("%s: an artifact of another tenant is lost: %v", bucket, err)
		} else {
			_ = r.Close()
		}
		for _, bad := range []artifact.Scope{{}, {Kind: artifact.KindLogs}, {Kind: "x", TenantID: "acme"},
			{Kind: artifact.KindLogs, TenantID: ".."}, {Kind: artifact.KindLogs, TenantID: "a/b"}} {
			if _, err := s.Remove(t.Context(), bad, 1); err == nil {
				t.Fatalf("%s: the scope %+v was accepted", bucket, bad)
			}
		}
	}
}
