package egress_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/dvt-engine/dvt/egress"
)

// Each tenant may call only what the rules of the installation permit.
func ExampleGuard_Judge() {
	guard, err := egress.New(egress.Settings{Rules: map[string]egress.Rules{
		"acme": {Allow: []string{"10.1.0.0/16"}},
	}}, slog.New(slog.DiscardHandler))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, address := range []string{"10.1.2.3", "10.2.0.1", "169.254.169.254"} {
		fmt.Println(address, guard.Judge("acme", netip.MustParseAddr(address)) == nil)
	}
	// Output:
	// 10.1.2.3 true
	// 10.2.0.1 false
	// 169.254.169.254 false
}

// Without rules a Guard permits public addresses only.
func ExampleNew() {
	guard, err := egress.New(egress.Settings{}, slog.New(slog.DiscardHandler))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(guard.Judge("acme", netip.MustParseAddr("203.0.114.7")))
	fmt.Println(errors.Is(guard.Judge("acme", netip.MustParseAddr("127.0.0.1")), egress.ErrNotPermitted))
	// Output:
	// <nil>
	// true
}
