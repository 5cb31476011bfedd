package send

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/egress"
)

const (
	maxAnswer = 200 // bytes of an answer in an error
	// maxDrain and drainTime bound the rest of an answer, which is read only so that the connection can be used again.
	maxDrain  = 4 << 10
	drainTime = time.Second
	// idleTime is shorter than the idle timeouts of common proxies, so that a kept connection is seldom a dead one.
	idleTime = 30 * time.Second
)

// poster sends JSON by POST. One poster belongs to one destination, so its connections can be kept.
type poster struct {
	client *http.Client
	agent  string
}

func newPoster(cfg destination.Config, opt Options) poster {
	agent := "dvt"
	if opt.Version != "" {
		agent += "/" + printable(opt.Version, 64)
	}
	return poster{agent: agent, client: &http.Client{
		Transport: opt.Guard.Transport(egress.Timeouts{Dial: cfg.Timeout, Answer: cfg.Timeout, Idle: idleTime}),
		// A redirect could lead a signed message to an address that nobody configured.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// httpSchemes are those that an installation permits: https outside of development.
func httpSchemes(opt Options) []string {
	if opt.AllowPrivate {
		return []string{"https", "http"}
	}
	return []string{"https"}
}

// post sends the body and classifies the answer. hidden are texts that no error may contain.
func (p poster) post(ctx context.Context, to *url.URL, header http.Header, body []byte, hidden ...string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(body))
	if err != nil {
		return errors.New("destination: the request cannot be made") // the cause quotes the address
	}
	req.Header = header
	req.Header.Set("User-Agent", p.agent)
	resp, err := p.client.Do(req)
	if err != nil {
		return transportError(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		// The body of this answer is the connection itself, whose reads no context ends.
		return errors.New("destination: the destination answered 101")
	}
	// The status decides. A destination that sends its body slowly costs drainTime, not the deadline.
	defer time.AfterFunc(drainTime, cancel).Stop()
	excerpt, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	_, _ = io.CopyN(io.Discard, resp.Body, maxDrain)
	return judge(resp, hide(string(excerpt), hidden...), time.Now())
}

// judge returns the error for an answer, nil for an accepted message.
func judge(resp *http.Response, excerpt string, now time.Time) error {
	code := resp.StatusCode
	answer := "the destination answered " + strconv.Itoa(code)
	if said := printable(excerpt, maxAnswer); said != "" {
		answer += ": " + said
	}
	switch {
	case code/100 == 2:
		return nil
	case code/100 == 3:
		return rejected("the destination answered %d, a redirect; redirects are not followed, so set the final url", code)
	case code == http.StatusGone:
		return fmt.Errorf("%w: %s", destination.ErrGone, answer)
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		if after, ok := retryAfter(resp.Header.Get("Retry-After"), now); ok {
			return &destination.RetryError{After: after, Reason: answer}
		}
	case code/100 == 4 && code != http.StatusRequestTimeout && code != http.StatusTooEarly:
		return rejected("%s", answer)
	}
	return errors.New("destination: " + answer)
}

// retryAfter reads the header Retry-After, seconds or a date, and returns a pause of one second to MaxRetryAfter.
func retryAfter(text string, now time.Time) (time.Duration, bool) {
	text = strings.TrimSpace(text)
	var after time.Duration
	if text != "" && strings.Trim(text, "0123456789") == "" {
		after = destination.MaxRetryAfter // for a number that does not fit
		if n, err := strconv.ParseInt(text, 10, 32); err == nil {
			after = time.Duration(n) * time.Second
		}
	} else {
		at, err := http.ParseTime(text)
		if err != nil {
			return 0, false
		}
		after = at.Sub(now)
	}
	return min(max(after, time.Second), destination.MaxRetryAfter), true
}

// printable returns the text on one line of at most n bytes: control and formatting characters become spaces.
func printable(text string, n int) string {
	text = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	return cut(strings.Join(strings.Fields(text), " "), n)
}

// cut returns at most n bytes of the text and ends at the border of a character. A shortened text ends with "…".
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	const mark = "…"
	end := max(n-len(mark), 0)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}
