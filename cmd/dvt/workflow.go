package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/installcmd"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/plancmd"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/server"
)

func workflowCommand() *cobra.Command {
	s := &session{}
	c := s.command("workflow", "Write a sample project, and inspect the Temporal workflow of a run",
		s.workflowDebugCommand())
	c.AddCommand(plancmd.NewWorkflow(&s.output, noteReceiver), replayCommand(&s.output),
		installcmd.CaptureHistories(&s.output))
	return c
}

// maxHistory bounds a history that is read, in bytes. Temporal ends a workflow at 50 MB.
const maxHistory = 128 << 20

func replayCommand(output *document.Format) *cobra.Command {
	c := &cobra.Command{
		Use: "replay FILE", Short: "Check whether this version can continue from a history of the engine",
		Args: cmdline.ExactArgs(1),
		Long: "FILE is what `temporal workflow show -w dvt/TENANT/RUN -o json` writes (- reads standard input): the " +
			"history of one execution.\n" +
			"The command calls no server and changes nothing: it replays the history with the workflow code of this program. " +
			"Exit status 0:\n" +
			"the decisions are the same. 1: they differ, and the output tells where; workers of this version must not get " +
			"that workflow.\n" +
			"2: the file is not a history of a run's workflow.",
	}
	c.PersistentPreRunE = func(*cobra.Command, []string) error { return nil } // calls no server
	var payloadKeys, dispatchKeys string
	c.Flags().StringVar(&payloadKeys, "payload-keys-file", "", "file with the keys of an encrypted history, one per line")
	c.Flags().StringVar(&dispatchKeys, "dispatch-keys-file", "", "file with the keys of its dispatches, one per line")
	c.RunE = func(c *cobra.Command, args []string) error {
		in := c.InOrStdin()
		if args[0] != "-" {
			f, err := os.Open(args[0])
			if err != nil {
				return cmdline.Usage(fmt.Errorf("the history %s cannot be read: %w", args[0], errors.Unwrap(err)))
			}
			defer f.Close()
			in = f
		}
		out, err := server.ReplayWorkflow(io.LimitReader(in, maxHistory), payloadKeys, dispatchKeys)
		var differs *server.HistoryMismatchError
		switch {
		case errors.Is(err, server.ErrNotHistory):
			return cmdline.Usage(err)
		case errors.Is(err, server.ErrPayloadKey):
			return cmdline.Usage(fmt.Errorf(
				"%w: give the files of your control workers with --payload-keys-file and --dispatch-keys-file", err))
		case output.IsData():
			answer := map[string]any{"replays": err == nil}
			if errors.As(err, &differs) {
				answer["mismatch"] = differs
			} else {
				answer["history"] = out
			}
			if werr := output.Write(c.OutOrStdout(), answer); werr != nil {
				return werr
			}
		case errors.As(err, &differs):
			fmt.Fprintf(c.OutOrStdout(), "events 1 to %d replay; this version decides differently about the next ones:\n  %s\n",
				differs.Replayed, strings.Join(differs.Events, "\n  "))
		case err == nil:
			fmt.Fprintf(c.OutOrStdout(), "%d events replay\n", out.Events)
		}
		return err
	}
	return c
}

// debugInfo is the part of the answer of /engine/runs/{runId}/debug that is printed.
type debugInfo struct {
	RunID  string `json:"runId"`
	Status string `json:"status"`
	RunSeq int64  `json:"runSeq"`
	Engine *struct {
		Ref struct {
			WorkflowID string `json:"workflowId"`
		} `json:"ref"`
		Executions []struct {
			EngineRunID   string
			Status        string
			StartedAt     string
			HistoryEvents int64
			HistoryBytes  int64
		} `json:"executions"`
		Total   int `json:"total"`
		Pending []struct {
			ID, Type, State, LastHeartbeat, LastFailure string
			Attempt                                     int
		} `json:"pending"`
		Last []struct {
			No       int64
			At, What string
		} `json:"last"`
	} `json:"engine"`
	Signals []struct {
		No                                        int64
		SignalID, SignalType, StepID, Application string
		Delivered                                 bool
	} `json:"signals"`
}

func (s *session) workflowDebugCommand() *cobra.Command {
	return &cobra.Command{
		Use: "debug RUN", Short: "Show what the engine knows about a run and which signals are pending (needs the role SRE)",
		Args: cmdline.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			raw, err := s.engine(c, "/engine/runs/"+url.PathEscape(args[0])+"/debug")
			if err != nil {
				return err
			}
			if s.output.IsData() {
				return s.print(json.RawMessage(raw))
			}
			var d debugInfo
			if err := json.Unmarshal(raw, &d); err != nil {
				return fmt.Errorf("the server's answer cannot be read: %w", err)
			}
			return s.printDebug(d)
		},
	}
}

// engine returns the document at a path under /engine of the server. Errors have the exit status of their code.
func (s *session) engine(c *cobra.Command, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(c.Context(), http.MethodGet, strings.TrimSuffix(s.server, "/")+path, nil)
	if err != nil {
		return nil, cmdline.Usage(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, cmdline.Failure(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusOK {
		return raw, nil
	}
	refused := &client.Error{Code: res.Status}
	_ = json.Unmarshal(raw, refused) // an answer without a code keeps the HTTP status
	return nil, cmdline.Failure(refused)
}

func (s *session) printDebug(d debugInfo) error {
	fmt.Fprintf(s.out, "run %s is %s at seq %d\n", d.RunID, runtext.Words(d.Status), d.RunSeq)
	var tables []*console.Table
	if e := d.Engine; e == nil {
		fmt.Fprintln(s.out, "the engine does not know the run")
	} else {
		fmt.Fprintf(s.out, "workflow %s, %d executions\n", e.Ref.WorkflowID, e.Total)
		chain, pending, last := s.table("EXECUTION", "STATUS", "STARTED", "EVENTS", "BYTES"),
			s.table("PENDING", "TYPE", "STATE", "ATTEMPT", "HEARTBEAT", "LAST FAILURE"), s.table("EVENT", "AT", "WHAT")
		for _, x := range e.Executions {
			chain.Row(x.EngineRunID, x.Status, s.engineTime(x.StartedAt), x.HistoryEvents, x.HistoryBytes)
		}
		for _, p := range e.Pending {
			pending.Row(p.ID, p.Type, p.State, p.Attempt, s.engineTime(p.LastHeartbeat), p.LastFailure)
		}
		for _, r := range e.Last {
			last.Row(r.No, s.engineTime(r.At), r.What)
		}
		tables = append(tables, chain, pending, last)
	}
	signals := s.table("SIGNAL", "NO", "TYPE", "STEP", "APPLICATION", "DELIVERED")
	for _, g := range d.Signals {
		signals.Row(g.SignalID, g.No, g.SignalType, g.StepID, g.Application, g.Delivered)
	}
	for _, t := range append(tables, signals) {
		fmt.Fprintln(s.out)
		if err := t.Print(); err != nil {
			return err
		}
	}
	return nil
}

// engineTime formats a time of the debug document as other lists do; "-" for none.
func (s *session) engineTime(text string) string {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || at.IsZero() {
		return "-"
	}
	return s.when(&at)
}
