package secret

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// pauseLeast is how long a reader waits at least before it asks a provider again that limits its requests.
const pauseLeast = 200 * time.Millisecond

// ThrottledError says that a provider limits the rate of requests.
type ThrottledError struct {
	After time.Duration // when the provider answers again; 0 when it does not say
}

func (e *ThrottledError) Error() string { return "secret: the provider limits the rate of requests" }

// ask reads from the provider. While the provider limits its requests, ask waits as long as the provider says, and a
// random part longer so that workers do not come back together, if the time of ctx permits that.
func (s *source) ask(ctx context.Context, path, version string) (Answer, error) {
	for {
		began := time.Now()
		answer, err := s.Provider.Read(ctx, path, version)
		s.asked(began, err)
		throttled, ok := errors.AsType[*ThrottledError](err)
		if !ok {
			return answer, err
		}
		pause := max(throttled.After, pauseLeast)
		pause += rand.N(pause/4 + 1)
		if end, bounded := ctx.Deadline(); bounded && time.Until(end) < pause {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, err
		case <-time.After(pause):
		}
	}
}
