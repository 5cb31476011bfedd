package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/watchview"
)

func (s *session) diffCommand() *cobra.Command {
	return &cobra.Command{
		Use: "diff RUN SEQ [SEQ]", Short: "Show what changed in a run from one seq of its log to another, or to now",
		Args: cmdline.RangeArgs(2, 3),
		RunE: func(c *cobra.Command, args []string) error {
			from, err := seqOf(args[1])
			if err != nil {
				return err
			}
			var to int64
			if len(args) > 2 {
				if to, err = seqOf(args[2]); err != nil {
					return err
				}
				from, to = min(from, to), max(from, to)
			} else {
				head, err := client.HeadOfRun(c.Context(), s.client, args[0])
				if err != nil {
					return cmdline.Failure(err)
				}
				if head.Run == nil {
					return cmdline.NotFound("run")
				}
				if to = head.Run.RunSeq; to < from {
					return cmdline.Usage(fmt.Errorf("the run's log ends at seq %d, before seq %d", to, from))
				}
			}
			out, err := client.DiffRun(c.Context(), s.client, args[0], from, to)
			if err != nil {
				return cmdline.Failure(err)
			}
			if out.RunDiff == nil {
				return cmdline.NotFound("run")
			}
			if s.output.IsData() {
				return s.print(out.RunDiff)
			}
			return s.diff(out.RunDiff)
		},
	}
}

func seqOf(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, cmdline.Usage(fmt.Errorf("a seq must be a number from 0, not %q: dvt run events shows the seqs of a run", text))
	}
	return n, nil
}

func (s *session) diff(d *client.DiffRunRunDiff) error {
	was := runtext.Words(d.From.StatusRaw) + runtext.Substatus(d.From.Substatus)
	is := runtext.Words(d.To.StatusRaw) + runtext.Substatus(d.To.Substatus)
	fmt.Fprintf(s.out, "from seq %d to seq %d the run ", d.From.RunSeq, d.To.RunSeq)
	if was == is {
		fmt.Fprintf(s.out, "stayed %s\n", is)
	} else {
		fmt.Fprintf(s.out, "went from %s to %s\n", was, is)
	}
	changed := slices.DeleteFunc(slices.Clone(d.Steps), isSame)
	if added := len(d.Steps) - len(changed); added > 0 {
		fmt.Fprintf(s.out, "%s of the plan became known, all pending\n", cmdline.Count(added, "more step"))
	}
	if len(changed) == 0 {
		fmt.Fprintln(s.out, "no step changed")
	} else {
		fmt.Fprintln(s.out)
		t := s.table("STEP", "WAS", "IS", "ATTEMPT", "ERROR")
		for _, st := range changed {
			is, why := st.To.StatusRaw, ""
			if e := st.To.Error; e != nil {
				is, why = runtext.StepStatus(is, &e.Code), console.OneLine(e.Code+": "+runtext.Deref(e.Message))
			}
			t.Row(st.StepId, before(st), console.Span{Text: is, Style: watchview.StepSigns[st.To.Status].Style},
				nth(st.To.LogicalAttemptId), why)
		}
		if err := t.Print(); err != nil {
			return err
		}
	}
	if len(d.Decisions) == 0 {
		return nil
	}
	fmt.Fprintln(s.out)
	t := s.table("SEQ", "AT", "DECIDED")
	for _, x := range d.Decisions {
		t.Row(x.RunSeq, s.when(&x.PersistedAt), x.EventType+decisionText(x.Payload))
	}
	return t.Print()
}

// isSame reports whether a step looks the same at both moments. The API lists such steps when the run read its plan in
// between.
func isSame(st client.DiffRunRunDiffStepsStepDiff) bool {
	attempt := 0
	if st.From != nil {
		attempt = st.From.LogicalAttemptId
	}
	return before(st) == st.To.StatusRaw && attempt == st.To.LogicalAttemptId
}

// before returns the earlier status of a step. A run that has not read its plan has no steps yet; they count as
// PENDING.
func before(st client.DiffRunRunDiffStepsStepDiff) string {
	if st.From == nil {
		return string(client.StepStatusPending)
	}
	return st.From.StatusRaw
}

// decisionText returns the signal, the step, the person and the reason in the payload of a decision's event, as far as
// it has them.
func decisionText(payload *json.RawMessage) string {
	var p struct{ SignalType, StepID, Actor, PauseRequestedBy, Principal, Reason string }
	if payload == nil || json.Unmarshal(*payload, &p) != nil {
		return ""
	}
	out := strings.Join(strings.Fields(p.SignalType+" "+p.StepID), " ")
	if out != "" {
		out = " " + out
	}
	if who := cmp.Or(p.Actor, p.PauseRequestedBy, p.Principal); who != "" {
		out += " by " + who
	}
	if p.Reason != "" {
		out += ": " + console.OneLine(p.Reason)
	}
	return out
}
