package journal_test

import (
	"context"
	"errors"
	"net/url"
	"testing"

	"gocloud.dev/blob"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/journal"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// A plan by reference comes from a bucket of the tenant, on every kind of bucket, and from no other place of it.
// contract: T225
func TestFetch_ReadsPlansFromTheBucketsOfTheTenant(t *testing.T) {
	t.Parallel()
	s3 := testserver.S3(t)
	for name, address := range map[string]string{"s3": s3.URL(s3.Addr), "gs": testserver.GCSBucket(t),
		"azblob": testserver.AzureBucket(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc := controltest.Document(nil, "s1")
			p := controltest.Must[plan.Plan](t)(plan.Parse(doc, plan.Queues{Control: "tq-control-dev", Data: "tq-data-dev"}))
			b := controltest.Must[*blob.Bucket](t)(blob.OpenBucket(t.Context(), address))
			t.Cleanup(func() { _ = b.Close() })
			u := controltest.Must[*url.URL](t)(url.Parse(address))
			base := u.Scheme + "://" + u.Host + "/"
			for key, body := range map[string][]byte{"acme/a.json": doc, "globex/a.json": doc, "acme/other.json": doc[1:],
				"acme/large.json": make([]byte, plan.MaxDocumentBytes+1)} {
				if err := b.WriteAll(t.Context(), key, body, nil); err != nil {
					t.Fatal(err)
				}
			}
			f := journal.NewFetcher(nil, nil).SetBuckets(map[string][]string{"acme": {address + "&prefix=acme/"}})
			fetch := func(ctx context.Context, tenant, uri string) error {
				got, _, err := f.Fetch(ctx, tenant, plan.RefOf(doc, p, uri))
				if err == nil && string(got) != string(doc) {
					t.Errorf("%s: %d bytes, want those of the plan", uri, len(got))
				}
				return err
			}
			if err := fetch(t.Context(), "acme", base+"acme/a.json"); err != nil {
				t.Errorf("a plan of the tenant's bucket: %v, want the document", err)
			}
			for uri, c := range map[string]struct {
				tenant string
				code   run.Code
				cause  run.Category
			}{
				base + "acme/a.json":             {"globex", run.CodePlanFetchFailed, run.CategoryUser},
				base + "globex/a.json":           {"acme", run.CodePlanFetchFailed, run.CategoryUser},
				base + "acme/a.json?endpoint=x":  {"acme", run.CodePlanFetchFailed, run.CategoryUser},
				u.Scheme + "://elsewhere/acme/a": {"acme", run.CodePlanFetchFailed, run.CategoryUser},
				base + "acme/missing.json":       {"acme", run.CodePlanFetchFailed, run.CategorySystem},
				base + "acme/other.json":         {"acme", run.CodePlanHashMismatch, run.CategoryUser},
				base + "acme/large.json":         {"acme", run.CodePlanTooLarge, run.CategoryUser},
			} {
				var broken *journal.PlanError
				if err := fetch(t.Context(), c.tenant, uri); !errors.As(err, &broken) || broken.Code != c.code ||
					broken.Category != c.cause {
					t.Errorf("%s for %s: %v, want %s of %s", uri, c.tenant, err, c.code, c.cause)
				}
			}
		})
	}
}
