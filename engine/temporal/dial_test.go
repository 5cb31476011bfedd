package temporal

import "testing"

func TestOnThisMachine_IsOnlyTheLoopback(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"127.0.0.1:7233": true, "localhost:7233": true, "[::1]:7233": true, "127.4.4.4:1": true,
		"10.0.0.5:7233": false, "temporal.example:7233": false, "dns:///localhost.example:7233": false, "": false,
	} {
		if got := onThisMachine(address); got != want {
			t.Errorf("onThisMachine(%q) = %t, want %t", address, got, want)
		}
	}
}
