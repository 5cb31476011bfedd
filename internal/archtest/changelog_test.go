package archtest_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A change without a place in the changelog is one that nobody hears of.
func TestChangelog_IsInKeepAChangelogForm(t *testing.T) {
	t.Parallel()
	page := text(t, "CHANGELOG.md")
	heading := regexp.MustCompile(`(?m)^## \[(Unreleased|\d+\.\d+\.\d+)\](?: - (\d{4}-\d\d-\d\d|not released yet))?$`)
	versions := heading.FindAllStringSubmatch(page, -1)
	if len(versions) < 2 || versions[0][1] != "Unreleased" {
		t.Fatalf("CHANGELOG.md has the versions %q: want Unreleased first, then those that were released", versions)
	}
	if all := strings.Count(page, "\n## "); all != len(versions) {
		t.Errorf("CHANGELOG.md has %d headings of versions, and %d of them read as [Unreleased] or [1.2.3] - 2026-01-31",
			all, len(versions))
	}
	for _, v := range versions[1:] {
		if v[2] == "" {
			t.Errorf("version %s has no date; write \"not released yet\" if it has no tag", v[1])
		}
	}
	for _, v := range versions {
		// A version without a tag has no page that a link could name.
		released := v[2] != "not released yet"
		if linked := strings.Contains(page, "\n["+v[1]+"]: "); linked != released {
			t.Errorf("version %s has a link at the end of CHANGELOG.md: %t, want %t", v[1], linked, released)
		}
	}
	kinds := []string{"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security", "Known limits"}
	for _, m := range regexp.MustCompile(`(?m)^### (.+)$`).FindAllStringSubmatch(page, -1) {
		if !slices.Contains(kinds, m[1]) {
			t.Errorf("CHANGELOG.md has the heading %q, which Keep a Changelog does not know", m[1])
		}
	}
}
