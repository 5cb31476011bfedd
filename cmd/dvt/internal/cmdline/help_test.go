package cmdline_test

import (
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
)

func TestFold_FlowsSentencesAndKeepsColumnsAndExamples(t *testing.T) {
	t.Parallel()
	long := strings.TrimSpace(strings.Repeat("word ", 20))
	in := "One line\n" + long + "\n\nUsage:\n  dvt " + long + "\n\nExamples:\n  dvt run " + long + "\n\nFlags:\n" +
		"      --name string   " + long + "\n"
	want := "One line " + strings.TrimSpace(strings.Repeat("word ", 14)) + "\n" +
		strings.TrimSpace(strings.Repeat("word ", 6)) + "\n\nUsage:\n  dvt " + long + "\n\nExamples:\n  dvt run " + long +
		"\n\nFlags:\n      --name string   " + strings.TrimSpace(strings.Repeat("word ", 11)) + "\n" +
		strings.Repeat(" ", 22) + strings.TrimSpace(strings.Repeat("word ", 9)) + "\n"
	if got := cmdline.Fold(in); got != want {
		t.Errorf("the help is\n%s\nwant\n%s", got, want)
	}
}
