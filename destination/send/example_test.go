package send_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/destination/send"
)

// A sender tries a message once. The caller repeats it unless the error says that the destination refuses it for good.
func ExampleNew() {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Method, r.Header.Get("Webhook-Id"), strings.HasPrefix(r.Header.Get("Webhook-Signature"), "v1,"))
	}))
	defer receiver.Close()
	sender, err := send.New(destination.Config{
		Name: "billing", Kind: destination.Webhook, URL: receiver.URL,
		Secrets: []destination.SecretRef{{Env: "WEBHOOK_KEY"}},
	}, send.Options{
		AllowPrivate: true, // the receiver of the example is on this machine
		LookupEnv:    func(string) (string, bool) { return "whsec_bXkgc2VjcmV0IG9mIHRoaXJ0eS10d28gYnl0ZXMu", true },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sender.Close()
	fmt.Println(sender.Send(context.Background(), destination.Message{
		ID: "e-1", Topic: destination.Events, Type: "RunCompleted", TenantID: "acme", RunID: "run-1",
	}))
	// Output:
	// POST e-1 true
	// <nil>
}
