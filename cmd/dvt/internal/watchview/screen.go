package watchview

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
)

// header is the number of lines above the steps.
const header = 5

// Lines returns the lines for a screen of that size in cells. There are at most height lines, and none is wider than
// width.
func (v *View) Lines(now time.Time, width, height int) (out []console.Line) {
	if v.Sync == "" {
		return []console.Line{{{Text: "… connecting", Style: console.Dim}}}
	}
	r := v.Run
	started := "not started"
	if r.StartedAt != nil {
		started = v.elapsed(r.StartedAt, now)
		if r.TotalDurationMs != nil {
			started = ShortDuration(time.Duration(*r.TotalDurationMs * float64(time.Millisecond)))
		}
	}
	state := console.Line{withSign(RunSigns, r.Status, runtext.Status(r)), {Text: "  " + started, Style: console.Plain}}
	if left := v.timeLeft(now); left != "" {
		state = append(state, console.Span{Text: "  " + left, Style: console.Warn})
	}
	if r.Message != nil && *r.Message != "" {
		state = append(state, console.Span{Text: "  " + console.OneLine(*r.Message), Style: console.Plain})
	}
	out = []console.Line{
		{{Text: fmt.Sprintf("%s@%s", r.Plan.PlanId, r.Plan.PlanVersion), Style: console.Bold},
			{Text: fmt.Sprintf("  %s/%s  %s", r.ProjectId, r.EnvironmentId, r.RunId), Style: console.Plain}},
		state, bar(r, v.manual(), width), v.syncLine(now), {},
	}
	if height < header {
		out = []console.Line{out[1], out[3], out[2]}
	}
	out = append(out, v.stepLines(now, width, height-header)...)
	for i := range out {
		out[i] = v.Fit(out[i], width-1) // a terminal that is told to clear the rest of a full line clears its last cell
	}
	return out[:min(len(out), height)]
}

// bar draws the progress of a run. Each part has a character of its own beside its colour. manual is the number of
// RUNNING steps that wait for a person.
func bar(r client.RunRow, manual, width int) console.Line {
	n := r.StepCounts
	running := n.Running - manual
	done := n.Success + n.Skipped
	percent := 0
	if n.Total > 0 {
		percent = done * 100 / n.Total
	}
	says := fmt.Sprintf("  %d/%d  %d %%", done, n.Total, percent)
	for _, c := range []struct {
		n    int
		word string
	}{{n.Failed - n.Stopped, "failed"}, {n.Stopped, "cancelled"}, {manual, "waiting for a person"}, {running, "running"},
		{n.Pending, "pending"}} {
		if c.n > 0 {
			says += fmt.Sprintf(" · %d %s", c.n, c.word)
		}
	}
	cells := min(40, width-3-console.Line{{Text: says, Style: console.Plain}}.Width())
	if cells < 10 || n.Total == 0 {
		return console.Line{{Text: strings.TrimSpace(says), Style: console.Plain}}
	}
	out, used, counted := console.Line{{Text: "[", Style: console.Dim}}, 0, 0
	for _, part := range []struct {
		n int
		c string
		console.Style
	}{{done, "█", console.Good}, {n.Failed, "×", console.Bad}, {manual, "‖", console.Warn}, {running, "▒", console.Busy},
		{n.Total - done - n.Failed - n.Running, "·", console.Dim}} {
		counted += part.n
		to := cells * counted / n.Total
		if part.n > 0 && to == used && used < cells && part.c != "·" {
			to++ // a part with at least one step has at least one cell
		}
		to = max(to, used)
		out, used = append(out, console.Span{Text: strings.Repeat(part.c, to-used), Style: part.Style}), to
	}
	return append(out, console.Span{Text: "]", Style: console.Dim}, console.Span{Text: says, Style: console.Plain})
}

// syncLine returns the line that tells whether the view is fresh, and otherwise since when it is not, and why.
func (v *View) syncLine(now time.Time) console.Line {
	word := string(v.Sync)
	if v.Sync != client.SyncStateLive {
		word += " " + ShortDuration(now.Sub(v.since).Truncate(time.Second))
	}
	if v.Sync == client.SyncStateResyncing && v.Last.HeadSeq != nil {
		word += fmt.Sprintf(" %d of %d", v.Last.RunSeq, *v.Last.HeadSeq)
	}
	if v.reason != "" {
		word += fmt.Sprintf(" (%s)", v.reason)
	}
	out := console.Line{withSign(Signs, v.Sync, word)}
	if v.Sync == client.SyncStateLive {
		out = append(out, console.Span{Text: fmt.Sprintf("  seq %d, as of %s", v.Last.RunSeq,
			v.Last.AsOf.UTC().Format("15:04:05Z")), Style: console.Dim})
	} else {
		out = append(out, console.Span{Text: fmt.Sprintf("  last known: seq %d at %s", v.Last.RunSeq,
			v.Last.AsOf.UTC().Format("15:04:05Z")), Style: console.Plain})
	}
	if v.lost != nil {
		wait := "trying again now"
		if left := v.next.Sub(now); left > 0 {
			wait = "next try in " + ShortDuration(left.Round(time.Second))
		}
		out = append(out, console.Span{Text: fmt.Sprintf("; %s; %s", wait, console.OneLine(v.lost.Error())),
			Style: console.Plain})
	} else if why := causes[v.reason]; why != "" {
		out = append(out, console.Span{Text: ": " + why, Style: console.Plain})
	}
	return out
}

// besideID is the least number of cells for the state before a step's id and the time behind it.
const besideID = 26

// fitID returns a step's id in width cells. A longer id keeps its beginning and end, because ids often differ there.
func fitID(id string, width int) string {
	over := runewidth.StringWidth(id) - width
	if over <= 0 {
		return console.Pad(id, width)
	}
	head := runewidth.Truncate(id, width/2, "")
	tail := runewidth.TruncateLeft(id, runewidth.StringWidth(id)-(width-1-runewidth.StringWidth(head)), "")
	return console.Pad(head+"…"+tail, width)
}

// hintRoom is the number of free lines from which on the screen also tells what one can do next.
const hintRoom = 10

// stepLines returns at most room lines about the failed steps, those that wait for a person and the running ones.
func (v *View) stepLines(now time.Time, width, room int) (out []console.Line) {
	failed, waits, running := v.current()
	var hint []console.Line
	if room >= hintRoom {
		hint = v.nextLines(failed)
		room -= len(hint)
	}
	idWidth := 12
	for _, list := range [][]client.StepRow{failed, waits, running} {
		for _, st := range list[:min(len(list), max(room, 0))] {
			idWidth = max(idWidth, min(runewidth.StringWidth(st.StepId), 32, width-besideID))
		}
	}
	shown, all := 0, len(failed)+len(waits)+len(running)
	add := func(block []console.Line) bool {
		left := room - len(out)
		if all-shown > 1 {
			left-- // the line that counts the steps that are not shown
		}
		if left < 1 {
			return false
		}
		out, shown = append(out, block[:min(len(block), left)]...), shown+1
		return true
	}
	full := false
	for _, st := range failed {
		if full = full || !add(v.failedLines(st, idWidth, width)); full {
			break
		}
	}
	for _, st := range append(waits, running...) {
		if full = full || !add([]console.Line{v.runningLine(st, idWidth, now)}); full {
			break
		}
	}
	if rest := all - shown; rest > 0 && len(out) < room {
		says := fmt.Sprintf("… and %d more: %d failed, ", rest, len(failed))
		if len(waits) > 0 {
			says += fmt.Sprintf("%d waiting for a person, ", len(waits))
		}
		out = append(out, console.Line{{Text: fmt.Sprintf("%s%d running in all", says, len(running)), Style: console.Dim}})
	}
	return append(out, hint...)
}

// timeLeft says how long the run still waits for a person to retry a failed step; "" when it does not wait.
func (v *View) timeLeft(now time.Time) string {
	if v.Run.RetryDeadline == nil || v.IsOver() {
		return ""
	}
	at := v.Last.AsOf
	if v.Sync == client.SyncStateLive {
		at = at.Add(now.Sub(v.came))
	}
	return ShortDuration(v.Run.RetryDeadline.Sub(at)) + " left to retry"
}

// nextLines returns what one can do next, below an empty line: the commands for a failed step, the page of the run, and
// how to leave the screen.
func (v *View) nextLines(failed []client.StepRow) []console.Line {
	out := []console.Line{{}}
	add := func(what, how string) {
		out = append(out, console.Line{{Text: console.Pad(what, 6), Style: console.Dim}, {Text: how, Style: console.Plain}})
	}
	if len(failed) > 0 {
		for _, next := range runtext.NextCommands(v.Run, failed[0].StepId) {
			add(next.Name, next.Command)
		}
	}
	if v.Server != "" {
		add("open", v.Server+"/runs/"+v.Run.RunId)
	}
	if !v.IsOver() {
		out = append(out, console.Line{{Text: "Ctrl-C stops watching, not the run", Style: console.Dim}})
	}
	return out
}

// runningLine returns the line of a step that runs or waits for a person.
func (v *View) runningLine(st client.StepRow, idWidth int, now time.Time) console.Line {
	word, look := "RUNNING", withSign(StepSigns, st.Status, "")
	if st.Substatus != nil {
		word, look = string(*st.Substatus), console.Span{Text: "‖ ", Style: console.Warn}
	}
	return console.Line{{Text: look.Text + console.Pad(word, 14) + " ", Style: look.Style},
		{Text: fitID(st.StepId, idWidth), Style: console.Plain},
		{Text: "  " + v.elapsed(st.StartedAt, now) + Attempt(st) + nodes(st), Style: console.Plain}}
}

// failedLines returns the lines of a failed step: its error, and the steps that cannot start because of it.
func (v *View) failedLines(st client.StepRow, idWidth, width int) (out []console.Line) {
	look := withSign(StepSigns, st.Status, "")
	first := console.Line{{Text: look.Text + console.Pad("FAILED", 14) + " ", Style: look.Style},
		{Text: fitID(st.StepId, idWidth), Style: console.Bold}}
	if st.DurationMs != nil {
		first = append(first, console.Span{
			Text: "  " + ShortDuration(time.Duration(*st.DurationMs*float64(time.Millisecond))), Style: console.Plain})
	}
	first = append(first, console.Span{Text: Attempt(st) + nodes(st), Style: console.Plain})
	if st.PendingRetry {
		first = append(first, console.Span{Text: "  a retry is accepted", Style: console.Plain})
	}
	indent := strings.Repeat(" ", 17)
	if st.Error != nil {
		why := console.Span{
			Text:  console.OneLine(strings.TrimSuffix(st.Error.Code+": "+runtext.Deref(st.Error.Message), ": ")),
			Style: console.Bad}
		if one := append(first, console.Span{Text: "  ", Style: console.Plain}, why); one.Width() < width {
			first = one
		} else {
			out = append(out, console.Line{{Text: indent, Style: console.Plain}, why})
		}
	}
	if held := v.heldWords(st.StepId); held != "" {
		out = append(out, console.Line{{Text: indent + held, Style: console.Plain}})
	}
	return append([]console.Line{first}, out...)
}

// heldWords returns what the failed step holds, with the names of the steps that need it; "" for nothing.
func (v *View) heldWords(failed string) string {
	blocked := v.blocked(failed)
	out := ""
	if c := v.Run.RootCause; c != nil && runtext.Deref(c.StepId) == failed {
		out = runtext.Held(c)
	}
	if len(blocked) == 0 {
		return out
	}
	if out == "" {
		if out = fmt.Sprintf("%d steps need it", len(blocked)); len(blocked) == 1 {
			out = "1 step needs it"
		}
	}
	return out + ": " + strings.Join(blocked[:min(len(blocked), 20)], ", ")
}

// nodes returns how many nodes of the step ended, behind two spaces; "" for a step without nodes.
func nodes(st client.StepRow) string {
	if words := runtext.Nodes(st.NodeCounts); words != "" {
		return "  " + words
	}
	return ""
}

// Attempt returns the number of the retry that the step is in; "" for the first attempt.
func Attempt(st client.StepRow) string {
	if st.LogicalAttemptId > 1 {
		return fmt.Sprintf("  Retry #%d", st.LogicalAttemptId-1)
	}
	return ""
}

// A screen is drawn at most ten times a second after changes, and once a second without one, because it shows running
// times.
const (
	minDrawInterval = 100 * time.Millisecond
	maxDrawInterval = time.Second
)

// Escape sequences. screenBegins opens the alternate screen, hides the cursor and turns wrapping off; screenEnds undoes
// that. frameBegins and frameEnds make a frame appear at once (synchronised output; terminals without it ignore the
// sequence). lineEnds clears the rest of the line.
const (
	screenBegins = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	screenEnds   = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	frameBegins  = "\x1b[?2026h\x1b[H"
	frameEnds    = "\x1b[J\x1b[?2026l"
	lineEnds     = "\x1b[K"
)

// Screen draws a view on a terminal until it is closed, and then restores the terminal. Change, See and Lose are safe
// for concurrent use; the View itself may be read only after Close.
type Screen struct {
	d  console.Display
	mu sync.Mutex // guards View and changed
	*View
	changed bool

	stop   context.CancelFunc
	drawer sync.WaitGroup
}

// OpenScreen opens the alternate screen of a terminal and draws the view there until it is closed or ctx ends.
// server is the base URL of the UI, for the link to the run; "" shows none.
func OpenScreen(ctx context.Context, d console.Display, server string) *Screen {
	ctx, stop := context.WithCancel(ctx)
	s := &Screen{d: d, View: &View{Charset: d.Charset, Server: server}, stop: stop}
	s.drawer.Go(func() { s.draw(ctx) })
	return s
}

// Close stops drawing and restores the terminal. It returns when the terminal is restored.
func (s *Screen) Close() {
	s.stop()
	s.drawer.Wait()
}

// Change calls do with the view under the lock, and lets the view be drawn again.
func (s *Screen) Change(do func(*View)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do(s.View)
	s.changed = true
}

func (s *Screen) draw(ctx context.Context) {
	tick := time.NewTicker(minDrawInterval)
	defer tick.Stop()
	var drawn time.Time
	var size [2]int
	defer func() {
		if !drawn.IsZero() {
			_, _ = io.WriteString(s.d.Out, console.MarkEscapes(screenEnds))
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		width, height := s.d.Size()
		now := time.Now()
		s.mu.Lock()
		due := s.changed || size != [2]int{width, height} || now.Sub(drawn) >= maxDrawInterval
		s.changed = false
		var lines []console.Line
		if due {
			lines = s.Lines(now, width, height)
		}
		s.mu.Unlock()
		if !due {
			continue
		}
		var b strings.Builder
		if drawn.IsZero() {
			b.WriteString(console.MarkEscapes(screenBegins))
		}
		b.WriteString(console.MarkEscapes(frameBegins))
		for i, l := range lines {
			if i > 0 {
				b.WriteString("\r\n")
			}
			b.WriteString(s.d.Render(l) + console.MarkEscapes(lineEnds))
		}
		b.WriteString(console.MarkEscapes(frameEnds))
		if _, err := io.WriteString(s.d.Out, b.String()); err != nil {
			return
		}
		drawn, size = now, [2]int{width, height}
	}
}

// See applies a frame and returns the status of the run.
func (s *Screen) See(f Frame) (is client.RunStatus, _ error) {
	s.Change(func(v *View) { v.Frame(f, time.Now()); is = v.Run.Status })
	return is, nil
}

// Lose shows that the connection was lost because of why, and that the next attempt to connect is at next.
func (s *Screen) Lose(why error, next time.Time) {
	s.Change(func(v *View) { v.GoOffline(why, next, time.Now()) })
}
