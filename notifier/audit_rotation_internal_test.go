package notifier

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/store"
)

// The operations guide says how late the first record of a quiet tenant may be looked at; its numbers are those of the
// code.
func TestAuditHeads_TheGuideSaysHowLongARotationTakes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	guide := strings.Join(strings.Fields(string(text)), " ")
	timing := Timing{}.withDefaults()
	perLook := headPages * store.MaxPage
	within := func(tenants int) string {
		return plan.DurationWords(time.Duration((tenants+perLook-1)/perLook) * timing.Idle)
	}
	for _, want := range []string{
		fmt.Sprintf("one look for each %d tenants", perLook),
		fmt.Sprintf("%s with up to %d tenants, %s with 10,000 and %s with 100,000", within(perLook), perLook, within(10_000),
			within(100_000)),
		"wrote in the last " + plan.DurationWords(busyFor),
	} {
		if !strings.Contains(guide, want) {
			t.Errorf("docs/operations.md does not say %q", want)
		}
	}
}
