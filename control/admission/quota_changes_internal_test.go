package admission

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestQuotaLines_SayTimesAsPeopleDo(t *testing.T) {
	t.Parallel()
	got := new(Allowances).quotaLines("acme", QuotaDocument{TTLMS: 5_400_000})
	if diff := cmp.Diff([]string{"longest wait of a run: 1 h 30 min"}, got); diff != "" {
		t.Errorf("the lines of quotas that let runs wait 90 minutes (-want +got):\n%s", diff)
	}
}
