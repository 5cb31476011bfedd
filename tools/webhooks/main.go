// Command verify-webhook is a receiver of dvt's webhooks for tests: it verifies requests with the Go library of the
// specification Standard Webhooks and reads their bodies with the Go SDK of CloudEvents. Neither is ours.
//
// It reads one request a line, {"secret": …, "headers": {…}, "body": "…"}, and answers each with one line: "ok ID" or
// "refused: CAUSE". verify.mjs and verify.py speak the same protocol. The functions between the marks are the examples
// of docs/guides/destinations.md.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"

	"github.com/cloudevents/sdk-go/v2/event"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// begin of the example

// receive returns the event of a request, or an error for a request that dvt has not signed in the last 5 minutes.
func receive(secret string, header http.Header, body []byte) (event.Event, error) {
	var e event.Event
	webhook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return e, err
	}
	if err := webhook.Verify(body, header); err != nil {
		return e, err
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return e, err
	}
	return e, e.Validate()
}

// end of the example

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var request struct {
			Secret, Body string
			Headers      map[string]string
		}
		if err := json.Unmarshal(lines.Bytes(), &request); err != nil {
			fmt.Println("refused:", err)
			continue
		}
		header := http.Header{}
		for name, value := range request.Headers {
			header.Set(name, value)
		}
		e, err := receive(request.Secret, header, []byte(request.Body))
		if err != nil {
			fmt.Println("refused:", err)
			continue
		}
		fmt.Println("ok", e.ID())
	}
}
