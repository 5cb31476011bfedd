package limit

import (
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
)

// maxRated is the number of keys that a RequestRate remembers. A forgotten key starts with a full minute's allowance.
const maxRated = 16384

// RequestRate limits the requests of each key per minute. A quiet key may send a full minute's allowance at once. It is
// safe for concurrent use.
type RequestRate struct {
	perMinute int
	whose     string // in messages: "your account" or "your address"
	buckets   *lru.Cache[string, *rate.Limiter]
}

// NewRequestRate returns a limiter of perMinute requests for each key. whose names the keys in messages: "your account"
// or "your address".
func NewRequestRate(perMinute int, whose string) *RequestRate {
	buckets, err := lru.New[string, *rate.Limiter](maxRated)
	if err != nil {
		panic(err) // cannot happen: the size is a positive constant
	}
	return &RequestRate{perMinute: perMinute, whose: whose, buckets: buckets}
}

// Take counts one request of key. Its error is REQUEST_RATE_LIMITED when key has used its allowance.
func (r *RequestRate) Take(key string) error {
	bucket, known := r.buckets.Get(key)
	if !known {
		bucket = rate.NewLimiter(rate.Limit(float64(r.perMinute)/60), r.perMinute)
		if before, raced, _ := r.buckets.PeekOrAdd(key, bucket); raced {
			bucket = before
		}
	}
	if bucket.Allow() {
		return nil
	}
	return &control.Error{
		Code: run.CodeRequestRate, Limit: int64(r.perMinute), RetryAfter: time.Second,
		Message: fmt.Sprintf(
			"More than %d requests a minute came from %s. Send fewer, or subscribe instead of polling.",
			r.perMinute, r.whose),
	}
}
