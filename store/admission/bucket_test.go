package admission_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/store/admission"
)

var epoch = time.Date(2026, 2, 16, 12, 0, 0, 0, time.UTC)

// contract: Q01
func TestTake_ABucketIsItsSizeThenItsRate(t *testing.T) {
	t.Parallel()
	for _, perMinute := range []int{1, 2, 5, 7, 10, 60, 600, 6000} {
		var fullAt time.Time
		now := epoch
		for i := range perMinute {
			var wait time.Duration
			if fullAt, wait = admission.Take(fullAt, now, perMinute); wait != 0 {
				t.Fatalf("%d per minute: token %d after %v", perMinute, i+1, wait)
			}
		}
		for i := range 3 { // then one comes each part of a minute, and not before
			old := fullAt
			same, wait := admission.Take(fullAt, now, perMinute)
			if wait <= 0 || wait > time.Minute/time.Duration(perMinute) || !same.Equal(old) {
				t.Fatalf("%d per minute: after %v, full at %v, %v before", perMinute, wait, same, old)
			}
			if _, early := admission.Take(fullAt, now.Add(wait-time.Microsecond), perMinute); early != time.Microsecond {
				t.Fatalf("%d per minute: a moment early it is %v", perMinute, early)
			}
			now = now.Add(wait)
			if fullAt, wait = admission.Take(fullAt, now, perMinute); wait != 0 {
				t.Fatalf("%d per minute: %v more at the time it was told (%d)", perMinute, wait, i)
			}
		}
	}
}

// contract: Q01
func TestTake_NoneAndNoBucket(t *testing.T) {
	t.Parallel()
	if at, wait := admission.Take(epoch, epoch, 0); wait >= 0 || !at.Equal(epoch) {
		t.Errorf("of none: %v, %v", at, wait)
	}
	if at, wait := admission.Take(epoch, epoch, -1); wait != 0 || !at.Equal(epoch) {
		t.Errorf("of no bucket: %v, %v", at, wait)
	}
}

// However takers come, no minute has more than twice the size of the bucket, and a long time
// has its rate and one size more.
// contract: Q01
func TestTake_RateHolds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		perMinute := 1 + random.IntN(40)
		var fullAt time.Time
		var taken []time.Time
		now := epoch
		for range 2000 {
			now = now.Add(time.Duration(random.IntN(int(2*time.Minute) / perMinute)))
			next, wait := admission.Take(fullAt, now, perMinute)
			if fullAt = next; wait == 0 {
				taken = append(taken, now)
			}
		}
		first := 0
		for i, at := range taken {
			for !taken[first].After(at.Add(-time.Minute)) {
				first++
			}
			if n := i - first + 1; n > 2*perMinute {
				t.Fatalf("seed %d: %d of %d within a minute", seed, n, perMinute)
			}
		}
		if most := perMinute + int(now.Sub(epoch)*time.Duration(perMinute)/time.Minute) + 1; len(taken) > most {
			t.Fatalf("seed %d: %d taken, at most %d", seed, len(taken), most)
		}
	}
}
