package archtest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/internal/archtest"
)

const (
	pictureScript = "web/docs/pictures.ts"
	pictureDir    = "docs/images/"
	// Pictures are cloned by everybody, for ever.
	maxPicture  = 200_000
	maxPictures = 2_500_000
)

var (
	taken = regexp.MustCompile(`\bpicture\(page, "([a-z-]+)"`)
	shown = regexp.MustCompile(`!\[[^\]]+\]\((?:[./]|docs/)*images/([a-z-]+)\.png\)`)
)

// Every picture that a document shows is taken by the script, is there with its words, is small, and none is there that
// nobody shows.
func TestPictures_AreTakenByTheScriptAndShown(t *testing.T) {
	t.Parallel()
	root, files := repository(t)
	names := func(pattern *regexp.Regexp, file string, into map[string]bool) {
		text, _, err := archtest.ReadText(root, file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range pattern.FindAllStringSubmatch(text, -1) {
			into[match[1]] = true
		}
	}
	byScript, inDocs, there, inWords := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	names(taken, pictureScript, byScript)
	total := int64(0)
	for _, file := range files {
		switch {
		case strings.HasSuffix(file, ".md"):
			names(shown, file, inDocs)
		case strings.HasPrefix(file, pictureDir) && strings.HasSuffix(file, ".txt"):
			inWords[strings.TrimSuffix(filepath.Base(file), ".txt")] = true
		case strings.HasPrefix(file, pictureDir):
			there[strings.TrimSuffix(filepath.Base(file), ".png")] = true
			info, err := os.Stat(filepath.Join(root, file))
			if err != nil {
				t.Fatal(err)
			}
			total += info.Size()
			if info.Size() > maxPicture {
				t.Errorf("%s has %d bytes, at most %d", file, info.Size(), maxPicture)
			}
		}
	}
	if len(byScript) == 0 {
		t.Fatalf("%s takes no picture", pictureScript)
	}
	if diff := cmp.Diff(byScript, there); diff != "" {
		t.Errorf("run make docs/screenshots: pictures (-by %s +in %s):\n%s", pictureScript, pictureDir, diff)
	}
	if diff := cmp.Diff(there, inWords); diff != "" {
		t.Errorf("run make docs/screenshots: pictures in words (-there +in words):\n%s", diff)
	}
	if diff := cmp.Diff(there, inDocs); diff != "" {
		t.Errorf("pictures (-there +shown by a document):\n%s", diff)
	}
	if total > maxPictures {
		t.Errorf("the pictures have %d bytes together, at most %d", total, maxPictures)
	}
}
