package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"net"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// PlanError says that the plan of a run can never be had. Anything else that
// goes wrong while fetching is temporary and tried again.
type PlanError struct {
	Code     run.Code
	Message  string
	Category run.Category
}

func (e *PlanError) Error() string { return string(e.Code) + ": " + e.Message }

// planError makes what Parse and Ref say of a document final.
func planError(err error) error {
	out := &PlanError{Code: run.CodePlanInvalid, Message: err.Error(), Category: run.CategoryUser}
	var own *Error
	switch {
	case errors.Is(err, plan.ErrUnsupportedSchema):
		out.Code, out.Message = run.CodePlanSchema, "The document's schemaVersion is not supported."
	case errors.Is(err, plan.ErrTooLarge):
		out.Code, out.Message = run.CodePlanTooLarge, "The document is larger than 10 MiB."
	case errors.Is(err, plan.ErrHashMismatch):
		out.Code, out.Message = run.CodePlanHashMismatch, "The document's bytes are not those of the reference."
	case errors.As(err, &own):
		out.Code, out.Message = own.Code, own.Message
	}
	return out
}

// Fetcher gets plan documents by reference (T225): files under the allowed
// roots, and https. Addresses inside private networks are refused unless allowed.
type Fetcher struct {
	Roots        []string // directories below which file: references may point
	AllowPrivate bool
	client       *http.Client
}

// fetchAttempts is how often a document is asked for before the run fails with PLAN_FETCH_FAILED (T144).
const fetchAttempts = 3

// NewFetcher makes a Fetcher.
func NewFetcher(roots []string, allowPrivate bool) *Fetcher {
	f := &Fetcher{Roots: roots, AllowPrivate: allowPrivate}
	dialer := &net.Dialer{Timeout: 5 * time.Second, Control: f.checkAddress}
	f.client = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DialContext: dialer.DialContext}}
	return f
}

// Fetch returns the document's bytes as they are stored, checked against the
// reference's hash. A document whose bytes differ is asked for once more (L03).
func (f *Fetcher) Fetch(ctx context.Context, r plan.Ref) ([]byte, error) {
	if r.SizeBytes > plan.MaxDocumentBytes {
		return nil, planError(plan.ErrTooLarge)
	}
	var err error
	for attempt := range fetchAttempts {
		var doc []byte
		if doc, err = f.get(ctx, r.URI); err == nil {
			if err = r.Check(doc); err == nil {
				return doc, nil
			}
			if !errors.Is(err, plan.ErrHashMismatch) || attempt > 0 {
				return nil, planError(err)
			}
		}
		var final *PlanError
		if errors.As(err, &final) || ctx.Err() != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Duration(attempt) * 500 * time.Millisecond):
		}
	}
	return nil, &PlanError{Code: run.CodePlanFetchFailed, Message: "The plan document could not be fetched.", Category: run.CategorySystem}
}

func (f *Fetcher) get(ctx context.Context, uri string) ([]byte, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return nil, refusedURI("is not a URI")
	}
	switch {
	case u.Scheme == "file":
		return f.file(u.Path)
	case u.Scheme == "https", u.Scheme == "http" && f.AllowPrivate:
		return f.http(ctx, uri)
	}
	return nil, refusedURI("must begin with https: or file:")
}

func refusedURI(why string) error {
	return &PlanError{Code: run.CodePlanFetchFailed, Message: "The reference's uri " + why + ".", Category: run.CategoryUser}
}

func (f *Fetcher) file(path string) ([]byte, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("control: plan file: %w", err)
	}
	for _, root := range f.Roots {
		root, err := filepath.EvalSymlinks(root)
		if err != nil {
			continue
		}
		if rel, err := filepath.Rel(root, real); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			file, err := os.Open(real)
			if err != nil {
				return nil, fmt.Errorf("control: plan file: %w", err)
			}
			defer file.Close()
			return bounded(file)
		}
	}
	return nil, refusedURI("is outside the directories that plans may come from")
}

func (f *Fetcher) http(ctx context.Context, uri string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, http.NoBody)
	if err != nil {
		return nil, refusedURI("is not a URI")
	}
	res, err := f.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("control: plan fetch: status %d", res.StatusCode)
	}
	return bounded(res.Body)
}

func bounded(r io.Reader) ([]byte, error) {
	doc, err := io.ReadAll(io.LimitReader(r, plan.MaxDocumentBytes+1))
	if err == nil && len(doc) > plan.MaxDocumentBytes {
		err = planError(plan.ErrTooLarge)
	}
	return doc, err
}

// checkAddress sees the address that is really dialled, after name resolution
// and on every redirect.
func (f *Fetcher) checkAddress(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	a := ap.Addr().Unmap()
	if !f.AllowPrivate && (a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsUnspecified() || a.IsMulticast()) {
		return refusedURI("leads into a private network")
	}
	return nil
}
