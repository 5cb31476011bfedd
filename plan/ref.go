package plan

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"
)

// ErrHashMismatch is returned for a document that is not the one that the Ref pins (contract L03).
var ErrHashMismatch = errors.New("plan: document differs from its reference")

const (
	maxURI = 2048 // bytes
	// MaxMirrors is the maximum number of further addresses of a document: one for each further try of its fetch.
	MaxMirrors = 2
	// maxEvolution is the maximum number of versions in a SchemaEvolutionPath.
	maxEvolution = 20
)

var (
	sha256Pattern  = regexp.MustCompile(`^[0-9a-f]{64}$`)
	versionPattern = regexp.MustCompile(`^v[0-9]{1,4}(\.[0-9]{1,4}){0,2}$`)
)

// RefOf returns the reference to doc, which is stored uncompressed at uri. p must be the plan that was parsed from doc.
func RefOf(doc []byte, p Plan, uri string) Ref {
	sum := sha256.Sum256(doc)
	return Ref{
		URI: uri, SHA256: hex.EncodeToString(sum[:]), SchemaVersion: p.SchemaVersion,
		PlanID: p.Metadata.PlanID, PlanVersion: p.Metadata.PlanVersion, SizeBytes: int64(len(doc)),
	}
}

// Validate checks the reference without fetching the document. Errors, in this order: ErrUnsupportedSchema (contract
// W-10, T140), ErrTooLarge for a SizeBytes above MaxDocumentBytes (contract L04), *InvalidError with all other
// violations. It does not restrict the hosts of a URI; the fetcher does (contract T225).
func (r Ref) Validate() error {
	v := &reader{}
	if r.SchemaVersion == "" {
		v.report(field("schemaVersion"), CodeMissing, "add schemaVersion: the document's own")
	} else if err := checkSchema(r.SchemaVersion); err != nil {
		return err
	}
	if r.SizeBytes > MaxDocumentBytes {
		return fmt.Errorf("%w: sizeBytes is %d, at most %d", ErrTooLarge, r.SizeBytes, MaxDocumentBytes)
	}
	if r.URI == "" {
		v.report(field("uri"), CodeMissing, "add uri: the address of the stored document")
	} else {
		v.address(field("uri"), r.URI)
	}
	if r.SHA256 == "" {
		v.report(field("sha256"), CodeMissing, "add sha256: the hash of the bytes stored at uri")
	} else if !sha256Pattern.MatchString(r.SHA256) {
		v.report(field("sha256"), CodeInvalid, "write 64 lower-case hexadecimal digits")
	}
	v.namedID("planId", r.PlanID)
	v.namedID("planVersion", r.PlanVersion)
	if r.SizeBytes < 0 {
		v.report(field("sizeBytes"), CodeRange, "write the number of bytes stored at uri, or leave it out")
	}
	if r.Compression != "" && r.Compression != "none" && r.Compression != "gzip" {
		v.report(field("compression"), CodeUnknown, "%s is not known; use one of none, gzip", quote(r.Compression))
	}
	if len(r.Mirrors) > MaxMirrors {
		v.report(field("mirrors"), CodeRange, "keep at most %d further addresses", MaxMirrors)
	} else {
		for i, uri := range r.Mirrors {
			v.address(field("mirrors").item(i), uri)
		}
	}
	v.evolution(r.SchemaEvolutionPath, r.SchemaVersion)
	if h := r.MigrationHint; h != nil {
		v.version(field("migrationHint").field("sourceVersion"), h.SourceVersion)
		v.version(field("migrationHint").field("targetVersion"), h.TargetVersion)
		if h.TransformScript != "" {
			v.address(field("migrationHint").field("transformScript"), h.TransformScript)
		}
	}
	return v.err()
}

// Expired reports whether the bytes that r refers to need not be at any address any more.
func (r Ref) Expired(now time.Time) bool { return !r.ExpiresAt.IsZero() && !now.Before(r.ExpiresAt) }

// Addresses returns the addresses of the document in the order in which they are tried.
func (r Ref) Addresses() []string { return append([]string{r.URI}, r.Mirrors...) }

func (r *reader) address(at *at, uri string) {
	switch u, err := url.Parse(uri); {
	case len(uri) > maxURI:
		r.report(at, CodeRange, "shorten this to %d bytes", maxURI)
	case err != nil || u.Scheme == "" || strings.ContainsFunc(uri, unicode.IsControl):
		r.report(at, CodeInvalid, "write an absolute address, such as file:///plans/nightly.json")
	}
}

func (r *reader) version(at *at, v string) {
	if !versionPattern.MatchString(v) {
		r.report(at, CodeInvalid, "%s is not a version; write one such as v1.2", quote(v))
	}
}

// evolution checks a path of versions, whose last one is that of the document.
func (r *reader) evolution(path, last string) {
	if path == "" {
		return
	}
	at, versions := field("schemaEvolutionPath"), strings.Split(path, "→")
	if len(versions) > maxEvolution {
		r.report(at, CodeRange, "keep at most %d versions", maxEvolution)
		return
	}
	for i, v := range versions {
		versions[i] = strings.TrimSpace(v)
		if !versionPattern.MatchString(versions[i]) {
			r.report(at, CodeInvalid, "write versions with arrows between them, such as v1.0 → v1.1 → v1.2")
			return
		}
	}
	if last != "" && canonicalSchema(versions[len(versions)-1]) != canonicalSchema(last) {
		r.report(at, CodeInvalid, "end the path with the document's own schemaVersion, %s", last)
	}
}

func field(key string) *at { return (*at)(nil).field(key) }

func (r *reader) namedID(key, id string) {
	if id == "" {
		r.report(field(key), CodeMissing, "add %s: the document's own", key)
	} else if !idPattern.MatchString(id) {
		r.report(field(key), CodeInvalid, "%s is not an id: %s", quote(id), idAdvice)
	}
}

// Check compares the bytes fetched from URI, before decompression, with the reference (contract T139). It returns
// ErrTooLarge above MaxDocumentBytes, and ErrHashMismatch if the bytes are not those that the reference pins.
func (r Ref) Check(doc []byte) error {
	if max(r.SizeBytes, int64(len(doc))) > MaxDocumentBytes {
		return fmt.Errorf("%w: at most %d bytes", ErrTooLarge, MaxDocumentBytes)
	}
	if r.SizeBytes != 0 && r.SizeBytes != int64(len(doc)) {
		return fmt.Errorf("%w: %d bytes, sizeBytes says %d", ErrHashMismatch, len(doc), r.SizeBytes)
	}
	sum := sha256.Sum256(doc)
	if got := hex.EncodeToString(sum[:]); got != r.SHA256 {
		return fmt.Errorf("%w: its sha256 is %s", ErrHashMismatch, got)
	}
	return nil
}

// Open checks the bytes fetched from URI and returns the document, decompressed if Compression is gzip. It returns the
// errors of Check; ErrTooLarge also if the decompressed document exceeds MaxDocumentBytes, in which case decompression
// stops there (contract L04); and *InvalidError if the bytes are not gzip although Compression says so.
func (r Ref) Open(doc []byte) ([]byte, error) {
	if err := r.Check(doc); err != nil {
		return nil, err
	}
	if r.Compression != "gzip" {
		return doc, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(doc))
	if err != nil {
		return nil, notGzip()
	}
	out, err := io.ReadAll(io.LimitReader(z, MaxDocumentBytes+1))
	switch {
	case len(out) > MaxDocumentBytes:
		return nil, fmt.Errorf("%w: decompressed, at most %d bytes", ErrTooLarge, MaxDocumentBytes)
	case err != nil:
		return nil, notGzip()
	}
	return out, nil
}

func notGzip() error {
	v := &reader{}
	v.report(field("compression"), CodeInvalid, "the bytes at uri are not gzip; store them compressed or write none")
	return v.err()
}
