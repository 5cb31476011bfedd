package vulncheck

import (
	"encoding/json"
	"os/exec"
	"testing"
)

// The packages of the UI have no known vulnerability of a high or critical severity. npm asks the registry for
// advisories. A mirror without advisories cannot answer, so the test is skipped; the report of `make test` lists the
// reason.
func TestNPM_NoKnownVulnerabilityOfTheUI(t *testing.T) {
	t.Parallel()
	c := exec.CommandContext(t.Context(), "npm", "audit", "--json", "--audit-level=high")
	c.Dir = root + "/web"
	out, err := c.Output()
	var report struct {
		Error *struct {
			Summary string `json:"summary"`
			Detail  string `json:"detail"`
		} `json:"error"`
		Message         string `json:"message"`
		StatusCode      int    `json:"statusCode"`
		Vulnerabilities map[string]struct {
			Severity string `json:"severity"`
			Range    string `json:"range"`
		} `json:"vulnerabilities"`
	}
	if jsonErr := json.Unmarshal(out, &report); jsonErr != nil {
		t.Fatalf("npm audit printed no JSON: %v, %v\n%s", err, jsonErr, out)
	}
	if report.Error != nil || report.Vulnerabilities == nil {
		t.Skipf("the npm registry does not serve advisories (status %d): run `npm audit` in web/ with a registry that does",
			report.StatusCode)
	}
	for name, v := range report.Vulnerabilities {
		if v.Severity == "high" || v.Severity == "critical" {
			t.Errorf("%s %s has a vulnerability of severity %s: npm audit in web/ says more", name, v.Range, v.Severity)
		}
	}
}
