package errorline

import (
	"regexp"
	"strings"
)

var (
	// escapes matches control sequences (ECMA-48 CSI), operating system commands (OSC) and shorter sequences.
	escapes = regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*(?:[@-~]|$)|\\][^\x07\x1b]*(?:\x07|\x1b\\\\|$)|[ -/]*(?:[0-~]|$))")

	// levels finds the first level of a log line. The = excludes summaries such as dbt's "WARN=0 ERROR=1".
	levels = regexp.MustCompile(
		`\b(ERROR|FATAL|CRITICAL|PANIC|SEVERE|WARN|WARNING|INFO|DEBUG|TRACE|NOTICE)\b(?:[^=]|$)`)
	// levelFields finds the level in lines of structured logs: level=error, "level":"error".
	levelFields = regexp.MustCompile(
		`(?i)\b(?:level|lvl|severity|levelname)"?\s*[=:]\s*"?(error|fatal|critical|panic|warn|warning|info|debug|trace)\b`)
	// refused finds the path or address in a line of dvt about something that the sandbox refused.
	refused  = regexp.MustCompile(`^sandbox \([a-z]+\): (?:\w+ of|connect to) "?([^"\s]+)"? was refused`)
	lowWords = regexp.MustCompile(`(?i)^(?:\S+\s)?(?:warn|warning|info|debug|notice)\b\s*[:\]]`)

	// progress matches dbt's lines while it works; its report at the end has the reason.
	progress = regexp.MustCompile(`\b\d+ of \d+ (?:ERROR|FAIL)\b`)
	// header matches the lines of dbt's report before the reason.
	header = regexp.MustCompile(
		`^(?:\d\d:\d\d:\d\d\s+)?(?:[A-Z]\w+ Error(?: in .*\))?|Failure in \w+ \S+ \(.*\)|Encountered an error:)$`)

	exception = regexp.MustCompile(`^(?:E {2,})?(?:Uncaught )?(?:[A-Za-z_$][\w$]*\.)*[\w$]*` +
		`(?:Error|Exception|Interrupt)(?: \[\w+\])?(?::|$)` +
		`|^Exception in thread "|^Caused by: |^panic: |^fatal error: |^thread '.*' panicked at `)
	// raised matches the line after a traceback, whatever the name of the exception.
	raised = regexp.MustCompile(`^[A-Za-z_][\w.]*(?:: |:?$)`)
	// curl explains its error in the lines after it.
	prefix = regexp.MustCompile(`(?i)^curl: \(\d+\) |(?:^|[\s:\]│])(?:error|fatal|failure)(?:\[[^\]]*\]|\s*\([^)]*\))?:\s*\S`)
	// system matches what shells and programs print when a call of the system fails.
	system = regexp.MustCompile(`(?i): (?:no such file or directory|permission denied|connection refused|is a directory` +
		`|(?:command )?not found|unbound variable|parameter not set)$`)
	word = regexp.MustCompile(`(?i)error|fail|fatal|exception|panic`)

	// summary matches counts of errors and reports about the end of another program.
	summary = regexp.MustCompile(`(?i)\b\d+ (?:errors?|failures?|failed)\b|\bno errors?\b|(?:errors?|fail\w*)[=:] ?\d+\b` +
		`|non-zero exit|exit (?:status|code) -?\d|exited with`)
	retried = regexp.MustCompile(`(?i)\bretry|\bretries\b|\btry(?:ing)? again\b`)
)

// rankOf returns how well a line names an error. ok is false for a line that does not.
func rankOf(t string) (r rank, ok bool) {
	if strings.HasPrefix(t, "+ ") { // a command that a shell prints before it runs
		return 0, false
	}
	switch level := levelOf(t); {
	case level == low || lowWords.MatchString(t):
		return 0, false
	case progress.MatchString(t):
		return byMention, true
	case level == high:
		r = byLevel
	case summary.MatchString(t):
		return bySummary, true
	case exception.MatchString(t):
		r = byException
	case prefix.MatchString(t), system.MatchString(t):
		r = byPrefix
	case word.MatchString(t):
		return byMention, true
	default:
		return byPhrase, true
	}
	if retried.MatchString(t) {
		r = byMention
	}
	return r, true
}

// level is the level of a log line as its program says it.
type level int

const (
	unknown level = iota
	low
	high
)

func levelOf(t string) level {
	found := levels.FindStringSubmatch(t)
	if found == nil {
		if found = levelFields.FindStringSubmatch(t); found == nil {
			return unknown
		}
	}
	switch strings.ToUpper(found[1]) {
	case "ERROR", "FATAL", "CRITICAL", "PANIC", "SEVERE":
		return high
	}
	return low
}

// IsReportHeader reports whether a line, without blanks around it, stands in a report of dbt before the reason.
func IsReportHeader(t string) bool { return header.MatchString(t) }

// triggers are the beginnings of words without which no line names an error. They keep the regular expressions away
// from most lines.
var triggers = []string{
	"error", "exception", "exit status", "exit code", "exited with", "fail", "fatal", "panic", "parameter not set",
	"traceback", "timed out", "caused by", "critical", "cannot", "can't", "could not", "core dumped", "not found",
	"no such", "no rule", "non-zero", "unbound", "unable to", "undefined", "denied", "does not exist", "refused",
	"invalid", "interrupt", "killed", "segmentation", "severe", "curl: (",
}

// triggersBy lists the triggers by their first two letters. Other pairs of bytes may have the same index.
var triggersBy = func() (by [1 << 10][]string) {
	for _, t := range triggers {
		by[pair(t[0], t[1])] = append(by[pair(t[0], t[1])], t)
	}
	return by
}()

func pair(a, b byte) int { return int(a&31)<<5 | int(b&31) }

// mayName reports whether a line has a trigger.
func mayName(t string) bool {
	for i := range len(t) - 1 {
		for _, word := range triggersBy[pair(t[i], t[i+1])] {
			if len(t)-i >= len(word) && strings.EqualFold(t[i:i+len(word)], word) {
				return true
			}
		}
	}
	return false
}
