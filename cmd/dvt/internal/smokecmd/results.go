package smokecmd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/plan"
)

type rawMessage = json.RawMessage

// pageSize is how many events and artifacts one request reads.
const pageSize = 200

// readLog reads back what a step printed, which proves the bucket.
func (s *smoke) readLog(ctx context.Context) (string, error) {
	switch {
	case s.noCommand:
		return "", skippedError("there are no COMMAND steps")
	case !s.ended:
		return "", skippedError("the run did not end")
	}
	first := pageSize
	for {
		out, err := client.ReadStepLog(ctx, s.api, s.runID, stepHello, nil, nil, &first)
		if err == nil && out.StepLog != nil {
			for _, l := range out.StepLog.Lines {
				if strings.Contains(l.Text, s.hello) {
					return "the log has the line that the step printed", nil
				}
			}
		}
		if !pause(ctx) {
			if err != nil {
				return "", err
			}
			return "", fmt.Errorf("the log of the step %s lacks the line that it printed: the bucket may accept nothing",
				stepHello)
		}
	}
}

// readArtifacts downloads each artifact and compares its SHA-256 with the one in the log.
func (s *smoke) readArtifacts(ctx context.Context) (string, error) {
	switch {
	case s.dbt == "":
		return "", skippedError("only dbt steps leave artifacts: give --dbt")
	case !s.ended:
		return "", skippedError("the run did not end")
	}
	first, count := pageSize, 0
	out, err := client.ListArtifacts(ctx, s.api, s.runID, nil, nil, &first, nil)
	if err != nil {
		return "", err
	}
	if out.Run == nil || len(out.Run.ArtifactList.Edges) == 0 {
		return "", fmt.Errorf("the dbt steps left no artifacts")
	}
	for _, e := range out.Run.ArtifactList.Edges {
		a := e.Node
		path, ok := pathOf(a.Uri)
		if !ok || a.Sha256 == nil {
			continue // at another address
		}
		sum, err := s.digest(ctx, path)
		if err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		if sum != *a.Sha256 {
			return "", fmt.Errorf("%s has the SHA-256 %s, and the log says %s", path, sum, *a.Sha256)
		}
		count++
	}
	return fmt.Sprintf("%d artifacts have the SHA-256 of the log", count), nil
}

// pathOf returns the path below the run of the address artifact:TENANT/RUN/PATH.
func pathOf(uri string) (string, bool) {
	rest, ok := strings.CutPrefix(uri, "artifact:")
	parts := strings.SplitN(rest, "/", 3)
	if !ok || len(parts) != 3 {
		return "", false
	}
	path, err := url.PathUnescape(parts[2])
	return path, err == nil
}

func (s *smoke) digest(ctx context.Context, path string) (string, error) {
	body, _, err := s.api.OpenArtifact(ctx, s.runID, path, 0)
	if err != nil {
		return "", err
	}
	defer body.Close()
	h := sha256.New()
	if _, err := io.Copy(h, body); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// readEvents reads the whole log of the run: its numbers have no holes, every id and key is there once, it begins and
// ends as a log must, and each step that began ended.
func (s *smoke) readEvents(ctx context.Context) (string, error) {
	var all []client.EventRow
	first, after := pageSize, int64(0)
	for {
		out, err := client.ReadEvents(ctx, s.api, s.runID, &first, &after, nil)
		if err != nil {
			return "", err
		}
		if out.Run == nil {
			return "", fmt.Errorf("the server does not know the run %s", s.runID)
		}
		for _, e := range out.Run.Events.Edges {
			all, after = append(all, e.Node), e.Node.RunSeq
		}
		if !out.Run.Events.PageInfo.HasNextPage || len(out.Run.Events.Edges) == 0 {
			break
		}
	}
	if err := verify(all, s.ended); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d events without a hole", len(all)), nil
}

// verify returns the first thing that is wrong with a log. A log that ended has an end, and no step without one.
func verify(all []client.EventRow, ended bool) error {
	seen, open, finished := map[string]bool{}, map[string]bool{}, false
	for i, e := range all {
		step := runtext.Deref(e.StepId)
		switch {
		case e.RunSeq != int64(i+1):
			return fmt.Errorf("the event after %d has the number %d", i, e.RunSeq)
		case seen[e.EventId] || seen["key "+e.IdempotencyKey]:
			return fmt.Errorf("the event %d (%s) is there twice", e.RunSeq, e.EventType)
		}
		seen[e.EventId], seen["key "+e.IdempotencyKey] = true, true
		switch e.EventType {
		case "StepStarted":
			open[step] = true
		case "StepCompleted", "StepFailed", "StepSkipped":
			delete(open, step)
		case "RunCompleted", "RunFailed", "RunCancelled":
			finished = true
		}
	}
	switch {
	case len(all) == 0:
		return fmt.Errorf("the log is empty")
	case ended && !finished:
		return fmt.Errorf("the log has no end")
	case ended && len(open) > 0:
		return fmt.Errorf("%d steps began and did not end", len(open))
	}
	return nil
}

// drainWorker drains a worker whose queues others serve too, runs a step meanwhile, and ends the drain.
func (s *smoke) drainWorker(ctx context.Context) (string, error) {
	switch {
	case !s.drain:
		return "", skippedError("not asked: give --drain")
	case !s.ended:
		return "", skippedError("the run did not end")
	}
	out, err := client.ShowWorkers(ctx, s.api)
	if err != nil {
		return "", err
	}
	w, ok := spareWorker(out.Workers)
	if !ok {
		return "", skippedError("no queue has two workers, so a drain would stop its steps")
	}
	set := func(ctx context.Context, drain bool) error {
		_, err := client.DrainWorker(ctx, s.api, client.DrainWorkerInput{RequestId: uuid.NewString(), Account: w.Account,
			Worker: w.Worker, Drain: drain, Reason: "dvt smoke"})
		return err
	}
	if err := set(ctx, true); err != nil {
		return "", err
	}
	s.undrain = func(ctx context.Context) error { return set(ctx, false) }
	for !s.drained(ctx, w) {
		if !pause(ctx) {
			return "", fmt.Errorf("the worker %s was not drained within %s", w.Worker, plan.DurationWords(s.timeout))
		}
	}
	second := options{project: s.project, environment: s.environment, noManual: true, noCommand: s.noCommand}
	doc, err := second.drainPlan(s.tenant, s.hello)
	if err != nil {
		return "", err
	}
	if _, err := s.startPlan(ctx, doc); err != nil {
		return "", err
	}
	if _, err := s.end(ctx); err != nil {
		return "", fmt.Errorf("while the worker %s was drained: %w", w.Worker, err)
	}
	if err := s.undrain(ctx); err != nil {
		return "", err
	}
	s.undrain = nil
	return fmt.Sprintf("the worker %s was drained, another one ran a step, and the drain was ended", w.Worker), nil
}

// spareWorker returns a worker that is not drained and each of whose queues another such worker serves.
func spareWorker(all []client.WorkerRow) (client.WorkerRow, bool) {
	serving := map[string]int{}
	for _, w := range all {
		if w.Live && !w.Overdue && !w.Drained && w.Drain == nil {
			serving[w.Queue]++
		}
	}
	for _, w := range all {
		spare := w.Live && !w.Overdue && !w.Drained && w.Drain == nil
		for _, other := range all {
			if other.Account == w.Account && other.Worker == w.Worker && serving[other.Queue] < 2 {
				spare = false
			}
		}
		if spare {
			return w, true
		}
	}
	return client.WorkerRow{}, false
}

func (s *smoke) drained(ctx context.Context, w client.WorkerRow) bool {
	out, err := client.ShowWorkers(ctx, s.api)
	if err != nil {
		return false
	}
	for _, now := range out.Workers {
		if now.Account == w.Account && now.Worker == w.Worker && now.Drained {
			return true
		}
	}
	return false
}
