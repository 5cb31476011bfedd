package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/egress"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// PlanError is the error of a plan that can never be fetched or is invalid. Other errors of a fetch are temporary; the
// engine tries again.
type PlanError struct {
	Code     run.Code
	Message  string
	Category run.Category
}

func (e *PlanError) Error() string { return string(e.Code) + ": " + e.Message }

// planError converts an error of plan.Parse, of a plan.Ref or of the checks of a run to the final PlanError.
func planError(err error) error {
	out := &PlanError{Code: run.CodePlanInvalid, Message: err.Error(), Category: run.CategoryUser}
	var own *control.Error
	switch {
	case errors.Is(err, plan.ErrUnsupportedSchema):
		out.Code, out.Message = run.CodePlanSchema, "The document's schemaVersion is not supported."
	case errors.Is(err, plan.ErrTooLarge):
		out.Code, out.Message = run.CodePlanTooLarge, "The document is larger than 10 MiB."
	case errors.Is(err, plan.ErrHashMismatch):
		out.Code, out.Message = run.CodePlanHashMismatch, "The document's digest differs from that of the reference."
	case errors.As(err, &own):
		out.Code, out.Message = own.Code, own.Message
	}
	return out
}

// Fetcher fetches plan documents by reference (contract T225): files below the allowed roots, objects of the buckets of
// the tenant, and https URLs. The guard checks each address of a URL, also after redirects. It is safe for concurrent
// use.
type Fetcher struct {
	buckets map[string][]string // addresses by tenant; those of "*" are for every tenant
	roots   []string            // clean and absolute directories below which file: references may point
	private bool
	client  *http.Client
}

// fetchAttempts is the number of tries before the run fails with PLAN_FETCH_FAILED (contract T144).
const fetchAttempts = 3

// fetchTry is the time of one try, and fetchPause the pause before the second one, which doubles. All tries together
// take less than the activity in which the engine makes them; see engine/temporal.
const (
	fetchTry   = 15 * time.Second
	fetchPause = 500 * time.Millisecond
)

const maxRedirects = 5

// NewFetcher makes a Fetcher. A nil guard permits public addresses only. With a guard that permits private networks,
// http URLs are allowed too.
func NewFetcher(roots []string, guard *egress.Guard) *Fetcher {
	f := &Fetcher{private: guard.Private()}
	for _, root := range roots {
		if abs, err := filepath.Abs(root); err == nil {
			f.roots = append(f.roots, abs)
		}
	}
	f.client = &http.Client{
		Timeout:   fetchTry,
		Transport: guard.Transport(egress.Timeouts{Dial: 5 * time.Second}),
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return errors.New("control: plan fetch: too many redirects")
			}
			return f.checkScheme(req.URL)
		},
	}
	return f
}

// SetTry sets the time of one try of an http fetch. Call it before the first Fetch.
func (f *Fetcher) SetTry(d time.Duration) { f.client.Timeout = d }

// SetBuckets sets the addresses of the buckets that s3:, gs: and azblob: references of a tenant may point into. Those
// of "*" are for every tenant. Call it before the first Fetch.
func (f *Fetcher) SetBuckets(byTenant map[string][]string) *Fetcher {
	f.buckets = byTenant
	return f
}

// Fetch returns the document of a reference for a run of the tenant, after checking its digest. The result has the
// stored form: it may be compressed. from is the address that gave it: each further try asks the next address of the
// reference. A document with another digest is fetched once more and then fails the run (contract L03). Errors:
// *PlanError, or the error of ctx.
func (f *Fetcher) Fetch(ctx context.Context, tenant string, r plan.Ref) (doc []byte, from string, err error) {
	ctx = egress.WithTenant(ctx, tenant)
	if r.SizeBytes > plan.MaxDocumentBytes {
		return nil, "", planError(plan.ErrTooLarge)
	}
	addresses := r.Addresses()
	other := false // the digest was wrong once
	ends := time.Now().Add(fetchAttempts*f.client.Timeout + pauseBefore(1) + pauseBefore(2))
	for attempt := range fetchAttempts {
		select {
		case <-ctx.Done():
			return nil, "", ctx.Err()
		case <-time.After(pauseBefore(attempt)):
		}
		engine.ReportLoad(ctx, attempt+1, fetchAttempts, ends)
		from = addresses[attempt%len(addresses)]
		doc, err := f.get(ctx, tenant, from)
		if err == nil {
			if err = r.Check(doc); err == nil {
				return doc, from, nil
			}
			if !errors.Is(err, plan.ErrHashMismatch) || other {
				return nil, "", planError(err)
			}
			other = true
		}
		var final *PlanError
		if errors.As(err, &final) {
			return nil, "", final
		}
	}
	return nil, "", &PlanError{Code: run.CodePlanFetchFailed, Message: "The plan document could not be fetched.",
		Category: run.CategorySystem}
}

// tellAboutHost raises an alert when the host of a plan did not give the document, also when a mirror, the address
// from, gave it instead, and resolves it when the host did. A fetch that a person caused to fail, for example by a
// wrong digest, says nothing about the host.
func (j *Journal) tellAboutHost(ctx context.Context, r store.Run, from string, fetchErr error) {
	u, err := url.Parse(r.PlanRef.URI)
	if j.cfg.Alerts == nil || err != nil || u.Host == "" {
		return
	}
	a := store.Alert{TenantID: r.TenantID, ProjectID: r.ProjectID, RunID: r.RunID, Level: store.AlertMedium,
		Code: run.CodePlanFetchFailed, Subject: u.Host, Shared: true, Actor: control.EngineActor,
		Note: fmt.Sprintf("The host %s did not give the document of a plan in %d tries, so the run failed. Check the host, "+
			"then rerun.", u.Host, fetchAttempts)}
	var failed *PlanError
	switch {
	case errors.Is(fetchErr, errNotStored):
	case fetchErr == nil && from != r.PlanRef.URI:
		a.Level, a.Note = store.AlertLow, fmt.Sprintf("The host %s did not give the document of a plan; the address %s gave "+
			"it instead. Check the host.", u.Host, from)
		_, err = j.cfg.Alerts.Raise(ctx, a)
	case fetchErr == nil:
		err = j.cfg.Alerts.Resolve(ctx, "The host gave a document again.", a)
	case errors.As(fetchErr, &failed) && failed.Code == run.CodePlanFetchFailed && failed.Category == run.CategorySystem:
		_, err = j.cfg.Alerts.Raise(ctx, a)
	}
	if err != nil && ctx.Err() == nil {
		j.cfg.Logger.WarnContext(ctx, "the alert about the host of a plan was not written", slog.String("host", u.Host),
			slog.Any("error", err))
	}
}

// fetchLook is the interval at which a fetch looks whether its run was cancelled.
const fetchLook = time.Second

// fetchUnlessEnded fetches the document of a run's plan. It gives up when the run ends meanwhile, because a host that
// hangs would otherwise hold the worker and the execution of a cancelled run.
func (j *Journal) fetchUnlessEnded(ctx context.Context, r store.Run, fetch fetchFunc) (doc []byte, from string,
	err error) {
	if r.PlanRef.Expired(j.cfg.Now()) {
		return nil, "", expiredBefore(r.PlanRef)
	}
	fetching, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		tick := time.NewTicker(fetchLook)
		defer tick.Stop()
		for {
			select {
			case <-fetching.Done():
				return
			case <-tick.C:
			}
			heads, err := j.cfg.Store.Log.Heads(fetching, []string{r.RunID})
			if err == nil && heads.ByRun[r.RunID].Terminal {
				stop(errRunEnded)
				return
			}
		}
	}()
	doc, from, err = fetch(fetching, r.TenantID, r.PlanRef)
	if err != nil && errors.Is(context.Cause(fetching), errRunEnded) {
		return nil, "", errRunEnded
	}
	return doc, from, err
}

// expiredBefore is the error of a document that the run did not read while its reference was good.
func expiredBefore(r plan.Ref) error {
	return &PlanError{Code: run.CodePlanFetchFailed, Category: run.CategoryUser, Message: fmt.Sprintf("The reference to "+
		"the plan expired at %s, before the run read the plan. Start a run with a new reference.",
		r.ExpiresAt.UTC().Format(time.RFC3339))}
}

// errRunEnded is a PlanError, so that the engine ends the execution. Nothing of it reaches the log, which is closed.
var errRunEnded = &PlanError{Code: run.CodeRunTerminal, Message: "The run ended while its plan was loaded.",
	Category: run.CategoryUser}

// pauseBefore returns the pause before a try, counted from 0.
func pauseBefore(attempt int) time.Duration {
	if attempt == 0 {
		return 0
	}
	return fetchPause << (attempt - 1)
}

func (f *Fetcher) get(ctx context.Context, tenant, uri string) ([]byte, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return nil, refusedURI("is not a URI")
	}
	if u.Scheme == "file" && u.Host == "" {
		return f.file(u.Path)
	}
	if u.Scheme == "s3" || u.Scheme == "gs" || u.Scheme == "azblob" {
		return f.object(ctx, tenant, uri)
	}
	if err := f.checkScheme(u); err != nil {
		return nil, err
	}
	return f.http(ctx, uri)
}

// checkScheme returns a PlanError for a scheme that is not allowed. It checks redirects too.
func (f *Fetcher) checkScheme(u *url.URL) error {
	if u.Scheme == "https" || u.Scheme == "http" && f.private {
		return nil
	}
	return refusedURI("must begin with https: or file:///")
}

// object reads an object of a bucket that the tenant may read plans from. It answers the same for a bucket of another
// tenant and for one that does not exist.
func (f *Fetcher) object(ctx context.Context, tenant, uri string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, f.client.Timeout)
	defer cancel()
	doc, err := artifact.ReadObject(ctx, append(slices.Clone(f.buckets[tenant]), f.buckets["*"]...), uri,
		plan.MaxDocumentBytes)
	switch {
	case errors.Is(err, artifact.ErrNotAllowed):
		return nil, refusedURI("is outside the buckets that plans of this tenant may come from (plan-buckets)")
	case errors.Is(err, artifact.ErrTooLarge):
		return nil, planError(plan.ErrTooLarge)
	}
	return doc, err
}

func refusedURI(why string) error {
	return &PlanError{Code: run.CodePlanFetchFailed, Message: "The reference's uri " + why + ".",
		Category: run.CategoryUser}
}

// file reads a file below one of the roots. It checks the path itself before it accesses the file system, so that a
// path outside the roots gets the same answer whether or not a file exists there.
func (f *Fetcher) file(path string) ([]byte, error) {
	path = filepath.Clean(path)
	for _, root := range f.roots {
		if rel, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(rel) {
			return readBelow(root, rel)
		}
	}
	return nil, refusedOutside()
}

func refusedOutside() error { return refusedURI("is outside the directories that plans may come from") }

// readBelow reads a file through an os.Root, which refuses a link that leads out of the directory, even if the link was
// created after the check and whether or not it leads to a file.
func readBelow(root, rel string) ([]byte, error) {
	dir, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("control: plan file: %w", err)
	}
	defer dir.Close()
	file, err := dir.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe without a writer would block
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno):
		return nil, fmt.Errorf("control: plan file: %w", err) // an error of the file system may be temporary
	case err != nil:
		return nil, refusedOutside() // the only other error of an os.Root: the path leaves it
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, refusedURI("is not a file")
	}
	return readLimited(file)
}

func (f *Fetcher) http(ctx context.Context, uri string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, http.NoBody)
	if err != nil {
		return nil, refusedURI("is not a URI")
	}
	res, err := f.client.Do(req)
	if errors.Is(err, egress.ErrRefused) {
		return nil, refusedURI("leads to no host that plans may be fetched from")
	}
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("control: plan fetch: status %d", res.StatusCode)
	}
	return readLimited(res.Body)
}

func readLimited(r io.Reader) ([]byte, error) {
	doc, err := io.ReadAll(io.LimitReader(r, plan.MaxDocumentBytes+1))
	if err == nil && len(doc) > plan.MaxDocumentBytes {
		err = planError(plan.ErrTooLarge)
	}
	return doc, err
}
