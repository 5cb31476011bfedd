package admission_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/store/admission"
)

var epoch = time.Date(2026, 2, 16, 12, 0, 0, 0, time.UTC)

// contract: Q01
func TestTake_AFullBucketGivesItsSizeAtOnceThenItsRate(t *testing.T) {
	t.Parallel()
	for _, perMinute := range []int{1, 2, 5, 7, 10, 60, 600, 6000} {
		var fullAt time.Time
		now := epoch
		for i := range perMinute {
			var wait time.Duration
			if fullAt, wait = admission.Take(fullAt, now, perMinute); wait != 0 {
				t.Fatalf("%d per minute: token %d of a full bucket comes after %v, want at once", perMinute, i+1, wait)
			}
		}
		for i := range 3 { // then one token comes in each minute/perMinute, and not before
			old := fullAt
			same, wait := admission.Take(fullAt, now, perMinute)
			if wait <= 0 || wait > time.Minute/time.Duration(perMinute) || !same.Equal(old) {
				t.Fatalf("%d per minute: an empty bucket has a token after %v and is full at %v, want within minute/%d and %v",
					perMinute, wait, same, perMinute, old)
			}
			if _, early := admission.Take(fullAt, now.Add(wait-time.Microsecond), perMinute); early != time.Microsecond {
				t.Fatalf("%d per minute: 1 µs early the wait is %v, want 1 µs", perMinute, early)
			}
			now = now.Add(wait)
			if fullAt, wait = admission.Take(fullAt, now, perMinute); wait != 0 {
				t.Fatalf("%d per minute: token %d takes another %v after the announced wait", perMinute, i+1, wait)
			}
		}
	}
}

// contract: Q01
func TestTake_SizeZeroNeverGivesAndNegativeAlwaysGives(t *testing.T) {
	t.Parallel()
	if at, wait := admission.Take(epoch, epoch, 0); wait >= 0 || !at.Equal(epoch) {
		t.Errorf("size 0: full at %v, wait %v; want an unchanged bucket and a negative wait", at, wait)
	}
	if at, wait := admission.Take(epoch, epoch, -1); wait != 0 || !at.Equal(epoch) {
		t.Errorf("no bucket: full at %v, wait %v; want an unchanged time and 0", at, wait)
	}
}

// However callers come, no minute has more than twice the size of the bucket. A long time has at most the tokens of its
// rate and one bucket more.
// contract: Q01
func TestTake_LimitsEveryMinuteToTwiceTheSize(t *testing.T) {
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
				t.Fatalf("seed %d: %d tokens within a minute, want at most twice the size %d", seed, n, perMinute)
			}
		}
		if most := perMinute + int(now.Sub(epoch)*time.Duration(perMinute)/time.Minute) + 1; len(taken) > most {
			t.Fatalf("seed %d: %d tokens in all, want at most %d", seed, len(taken), most)
		}
	}
}
