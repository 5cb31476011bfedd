// Package errorlinetest has outputs of real programs with the line that names the error of each. Every reader of logs
// that chooses such a line is tested with them.
package errorlinetest

import (
	_ "embed"
	"strings"
)

//go:embed outputs.txt
var outputs string

// Output is what a program printed before it failed.
type Output struct {
	Name  string
	Lines []Line
	Want  int // number of the line that names the error, from 1; 0 when nothing was printed
}

// Line is a line of an Output.
type Line struct{ Stream, Text string }

// Outputs returns all outputs. In outputs.txt each begins with "=== " and a name. The first letter of a line is > for
// the line that names the error, the second the stream: o for stdout, e for stderr, a blank for both in one pipe.
func Outputs() (all []Output) {
	streams := map[byte]string{' ': "output", 'o': "stdout", 'e': "stderr"}
	for text := range strings.Lines(outputs) {
		text = strings.TrimSuffix(text, "\n")
		if name, ok := strings.CutPrefix(text, "=== "); ok {
			all = append(all, Output{Name: name})
			continue
		}
		of := &all[len(all)-1]
		line := Line{Stream: streams[' ']}
		if len(text) >= len(">e ") {
			line = Line{Stream: streams[text[1]], Text: text[len(">e "):]}
		}
		of.Lines = append(of.Lines, line)
		if strings.HasPrefix(text, ">") {
			of.Want = len(of.Lines)
		}
	}
	return all
}
