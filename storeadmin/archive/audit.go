package archive

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/auditdoc"
)

// ErrTornAudit says that an object does not have the rows of the audit that were archived.
var ErrTornAudit = errors.New("archive: the archived rows of the audit are damaged")

// WriteAudit writes the rows of a tenant's audit with numbers above after, up to the number to, that a cut deletes, as
// JSON lines of auditdoc.Doc in gzip. Names are sealed as in the store, so that destroying a key erases them here too.
// It reads the object back, and returns its name and its digest in hex. ErrTornAudit when a row is missing, or when
// what was read back differs.
func (a Archive) WriteAudit(ctx context.Context, tenantID string, after, to int64) (location, sum string, err error) {
	spool, err := os.CreateTemp("", "dvt-audit-*")
	if err != nil {
		return "", "", fmt.Errorf("archive: %w", err)
	}
	defer func() { _, _ = spool.Close(), os.Remove(spool.Name()) }()
	hash := sha256.New()
	z := gzip.NewWriter(io.MultiWriter(spool, hash))
	if err := a.packAudit(ctx, json.NewEncoder(z), tenantID, after, to); err != nil {
		return "", "", err
	}
	if err = z.Close(); err == nil {
		_, err = spool.Seek(0, io.SeekStart)
	}
	if err != nil {
		return "", "", fmt.Errorf("archive: %w", err)
	}
	sum = hex.EncodeToString(hash.Sum(nil))
	location = fmt.Sprintf("%s/audit/%015d-%s.ndjson.gz", tenantID, after+1, sum[:16])
	if err := a.Objects.PutArchived(ctx, location, spool); err != nil {
		return "", "", err
	}
	return location, sum, a.CheckAudit(ctx, location, sum)
}

func (a Archive) packAudit(ctx context.Context, into *json.Encoder, tenantID string, after, to int64) error {
	var previous [sha256.Size]byte
	from := max(after-1, 0) // the link before has the hash that the next one continues
	for at := from; at < to; {
		links, err := a.Store.AuditLinks(ctx, store.AuditFilter{TenantID: tenantID, After: at, Before: to + 1,
			Limit: store.MaxPage, WithMissingRows: true})
		if err != nil {
			return err
		}
		if len(links) == 0 {
			return ErrTornAudit
		}
		for _, l := range links {
			switch {
			case l.No > after && l.Row == nil:
				return fmt.Errorf("%w: number %d was removed", ErrTornAudit, l.No)
			case l.No > after && !store.OutlivesCut(l.Row.Object):
				if err := into.Encode(auditdoc.Of(tenantID, l, previous, 0)); err != nil {
					return fmt.Errorf("archive: %w", err)
				}
			}
			at, previous = l.No, l.Hash
		}
	}
	return nil
}

// CheckAudit reads an object of WriteAudit, computes the hash of each row and compares the digest of the object.
// ErrTornAudit when it differs; fs.ErrNotExist when it is missing; else the error of the bucket.
func (a Archive) CheckAudit(ctx context.Context, location, sum string) error {
	in, err := a.Objects.OpenArchived(ctx, location)
	if err != nil {
		return fmt.Errorf("archive: rows of the audit: %w", err)
	}
	defer func() { _ = in.Close() }() // everything was read
	hash := sha256.New()
	stored := &source{from: in}
	hashed := io.TeeReader(stored, hash)
	err = readAudit(io.LimitReader(hashed, maxUnpacked))
	if err == nil {
		_, err = io.Copy(io.Discard, hashed)
	}
	switch {
	case stored.err != nil:
		return fmt.Errorf("archive: rows of the audit: %w", stored.err)
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return errors.Join(ErrTornAudit, err)
	case hex.EncodeToString(hash.Sum(nil)) != sum:
		return ErrTornAudit
	}
	return nil
}

func readAudit(in io.Reader) error {
	z, err := gzip.NewReader(in)
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	d := json.NewDecoder(bufio.NewReader(io.LimitReader(z, maxUnpacked)))
	for {
		var doc auditdoc.Doc
		if err := d.Decode(&doc); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("archive: %w", err)
		}
		if err := doc.Verify(); err != nil {
			return fmt.Errorf("archive: number %d: %w", doc.No, err)
		}
	}
}
