package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

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

const maxRedirects = 5

// NewFetcher makes a Fetcher.
func NewFetcher(roots []string, allowPrivate bool) *Fetcher {
	f := &Fetcher{Roots: roots, AllowPrivate: allowPrivate}
	dialer := &net.Dialer{Timeout: 5 * time.Second, Control: f.checkAddress}
	f.client = &http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return errors.New("control: plan fetch: too many redirects")
			}
			return f.checkScheme(req.URL)
		},
	}
	return f
}

// Fetch returns the document's bytes as they are stored, checked against the
// reference's hash. A document whose bytes differ is asked for once more (L03).
func (f *Fetcher) Fetch(ctx context.Context, r plan.Ref) ([]byte, error) {
	if r.SizeBytes > plan.MaxDocumentBytes {
		return nil, planError(plan.ErrTooLarge)
	}
	other := false // its bytes were others once already
	for attempt := range fetchAttempts {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Duration(attempt) * 250 * time.Millisecond):
		}
		doc, err := f.get(ctx, r.URI)
		if err == nil {
			if err = r.Check(doc); err == nil {
				return doc, nil
			}
			if !errors.Is(err, plan.ErrHashMismatch) || other {
				return nil, planError(err)
			}
			other = true
		}
		var final *PlanError
		if errors.As(err, &final) {
			return nil, final
		}
	}
	return nil, &PlanError{Code: run.CodePlanFetchFailed, Message: "The plan document could not be fetched.", Category: run.CategorySystem}
}

func (f *Fetcher) get(ctx context.Context, uri string) ([]byte, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return nil, refusedURI("is not a URI")
	}
	if u.Scheme == "file" && u.Host == "" {
		return f.file(u.Path)
	}
	if err := f.checkScheme(u); err != nil {
		return nil, err
	}
	return f.http(ctx, uri)
}

// checkScheme holds for every address on the way.
func (f *Fetcher) checkScheme(u *url.URL) error {
	if u.Scheme == "https" || u.Scheme == "http" && f.AllowPrivate {
		return nil
	}
	return refusedURI("must begin with https: or file:///")
}

func refusedURI(why string) error {
	return &PlanError{Code: run.CodePlanFetchFailed, Message: "The reference's uri " + why + ".", Category: run.CategoryUser}
}

func (f *Fetcher) file(path string) ([]byte, error) {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("control: plan file: %w", err)
	}
	for _, root := range f.Roots {
		root, err := filepath.EvalSymlinks(root)
		if err != nil {
			continue
		}
		if rel, err := filepath.Rel(root, target); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			if info, err := os.Stat(target); err == nil && !info.Mode().IsRegular() {
				return nil, refusedURI("is not a file")
			}
			file, err := os.Open(target)
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
	if !f.AllowPrivate && !public(ap.Addr().Unmap()) {
		return refusedURI("leads into a private network")
	}
	return nil
}

// reserved are the networks that are not the internet although they look global:
// this network, carrier-grade NAT, protocol assignments, benchmarking, the former
// class E, and IPv4 inside IPv6.
var reserved = []netip.Prefix{ //nolint:gochecknoglobals // a table
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"),
}

func public(a netip.Addr) bool {
	return a.IsGlobalUnicast() && !a.IsPrivate() && !slices.ContainsFunc(reserved, func(p netip.Prefix) bool { return p.Contains(a) })
}
