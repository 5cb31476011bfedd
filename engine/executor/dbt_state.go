package executor

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/nodeset"
	"github.com/dvt-engine/dvt/store"
)

const (
	// stateDir is the directory within that of an attempt from which dbt reads the manifest to compare with.
	stateDir = "state"
	// slimSelect is the selection of a slim step whose inputs select nothing.
	slimSelect = "state:modified+"
)

// stateOf returns a function that reads the manifest with which an execution compares; nil for a Journal that has none.
func (r *Runner) stateOf(x execution) func(context.Context) ([]byte, error) {
	reader, ok := r.Journal.(engine.StateReader)
	if !ok {
		return nil
	}
	return func(ctx context.Context) (out []byte, err error) {
		var answer error
		err = persist(ctx, shipRetryFirst, shipRetryMost, func() error {
			out, answer = reader.ReadState(ctx, engine.StateRead{RunID: x.RunID, StepID: x.StepID,
				LogicalAttempt: x.LogicalAttempt, N: x.N, EngineAttempt: x.EngineAttempt, StartedSeq: x.startedSeq, Key: x.key})
			if errors.Is(answer, engine.ErrRefused) || errors.Is(answer, store.ErrNotFound) {
				return nil
			}
			return answer
		})
		return out, errors.Join(err, answer)
	}
}

// slim makes the inputs of a step those of a slim one: it stores the manifest to compare with below own, and returns
// the arguments that name it; none for a step that runs in full. The error is a *Failure for a step that must not run
// in full and has no manifest.
func slim(ctx context.Context, h Host, files workspace, own string, t Task, in *plan.DBTInputs) ([]string, error) {
	if in.State == nil {
		return nil, nil
	}
	doc, missing, err := t.manifestToCompare(ctx)
	switch {
	case err != nil:
		return nil, err
	case missing != "" && in.State.Otherwise == plan.FullWithoutState:
		h.Print("dvt", "the step runs in full: "+missing)
		return nil, nil
	case missing != "":
		return nil, &Failure{Code: CodeDBTNoState, Category: run.CategoryUser, Class: plan.ClassValidation,
			Message: "the step runs only what was modified, but " + missing + ": run it once in full, or give " +
				"state.otherwise: FULL"}
	}
	dir := filepath.Join(own, stateDir)
	if err := files.create(filepath.Join(dir, manifestFile), doc); err != nil {
		return nil, fmt.Errorf("executor: dbt: the manifest to compare with: %w", err)
	}
	h.Print("dvt", fmt.Sprintf("compares with the manifest of run %s, attempt %d (sha256 %s)", t.State.RunID,
		t.State.LogicalAttempt, t.State.Manifest.SHA256))
	if t.Nodes != nil { // a person chose the nodes: only what they read is deferred
		return []string{"--defer", "--defer-state", dir}, nil
	}
	if in.Select == "" {
		in.Select = slimSelect
	}
	return []string{"--defer", "--state", dir}, nil
}

// manifestToCompare reads the manifest with which a task compares, and checks its bytes. missing says why there is
// none.
func (t Task) manifestToCompare(ctx context.Context) (doc []byte, missing string, err error) {
	switch {
	case t.State == nil || t.readState == nil:
		return nil, "the server chose no run to compare with, because `state` is not in the plan itself", nil
	case t.State.RunID == "" || t.State.Manifest == nil:
		return nil, "no completed run of this plan and environment has a manifest of this step", nil
	}
	packed, err := t.readState(ctx)
	if errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Sprintf("the manifest of run %s is no longer stored, or too large", t.State.RunID), nil
	}
	if err == nil {
		var unpack *gzip.Reader
		if unpack, err = gzip.NewReader(bytes.NewReader(packed)); err == nil {
			doc, err = io.ReadAll(io.LimitReader(unpack, engine.MaxState))
		}
	}
	if err != nil {
		return nil, "", fmt.Errorf("executor: dbt: the manifest to compare with: %w", err)
	}
	if sum := sha256.Sum256(doc); hex.EncodeToString(sum[:]) != t.State.Manifest.SHA256 {
		return nil, "", fmt.Errorf("executor: dbt: the manifest of run %s has other bytes than the log says", t.State.RunID)
	}
	return doc, "", nil
}

// keepReasons stores why the nodes of the results ran: what of each was modified since the manifest below own, or which
// modified node it reads. It prints the reason for manifests that cannot be compared, which is no failure of the step.
func keepReasons(ctx context.Context, h Host, files workspace, own string, t Task, results runResults) (
	[]run.ArtifactRef, error) {
	var shapes [2]nodeset.Shape
	for i, dir := range []string{stateDir, targetDir} {
		err := files.open(filepath.Join(own, dir, manifestFile), maxTrackedManifest, func(f io.Reader, n int64) (err error) {
			shapes[i], err = nodeset.ReadShape(io.LimitReader(f, n))
			return err
		})
		if err != nil {
			h.Print("dvt", "the reasons of the selection are not known: "+err.Error())
			return nil, nil //nolint:nilerr // the line says it
		}
	}
	ran := make([]string, len(results.Results))
	for i, n := range results.Results {
		ran[i] = n.UniqueID
	}
	doc, err := json.Marshal(nodeset.Reasons{Against: *t.State, Nodes: nodeset.Why(shapes[0], shapes[1], ran)})
	if err != nil {
		return nil, err
	}
	ref, err := h.KeepJSON(ctx, run.KindCustom, nodeset.ReasonsFile, bytes.NewReader(doc))
	if err != nil {
		return nil, err
	}
	return []run.ArtifactRef{ref}, nil
}
