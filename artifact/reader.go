package artifact

import (
	"context"
	"net/url"
	"strings"
)

// ReadObject reads the object that a URI such as s3://BUCKET/KEY names, of at most most bytes, from the first bucket
// that contains it among the addresses of buckets, as of Open. An address with a prefix permits only keys below it. The
// addresses come from an operator, and the URI may come from anybody: it adds nothing to an address. It writes nothing.
// Errors: ErrNotAllowed, ErrNotFound, ErrTooLarge, ErrUnavailable.
func ReadObject(ctx context.Context, addresses []string, uri string, most int64) ([]byte, error) {
	at, err := url.Parse(uri)
	if err != nil || at.User != nil || at.RawQuery != "" || at.Fragment != "" || len(at.Path) < 2 {
		return nil, ErrNotAllowed
	}
	key := strings.TrimPrefix(at.Path, "/")
	for _, address := range addresses {
		u, err := parseAddress(address)
		if err != nil {
			return nil, err
		}
		query := u.Query()
		prefix := query.Get("prefix")
		if u.Scheme != at.Scheme || u.Host != at.Host || !strings.HasPrefix(key, prefix) {
			continue
		}
		query.Del("prefix")
		u.RawQuery = query.Encode()
		b, err := openBucket(ctx, u)
		if err != nil {
			return nil, err
		}
		defer b.Close()
		body, err := b.readRange(ctx, key, 0, most+1)
		if err == nil && int64(len(body)) > most {
			err = ErrTooLarge
		}
		return body, err
	}
	return nil, ErrNotAllowed
}

// CheckSource returns an error for an address from which ReadObject cannot read: one that is no bucket of a cloud.
func CheckSource(address string) error {
	u, err := parseAddress(address)
	if err == nil && u.Scheme != schemeS3 && u.Scheme != schemeGCS && u.Scheme != schemeAzure {
		err = errBucketAddress
	}
	return err
}
