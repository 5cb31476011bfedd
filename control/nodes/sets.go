package nodes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/internal/sizedlru"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/nodeset"
	"github.com/dvt-engine/dvt/store"
)

// Bounds of manifests.
const (
	// MaxManifest is the size of the largest manifest from which a set is computed, in bytes.
	MaxManifest       = 128 << 20
	manifestFile      = "manifest.json"
	keptManifests     = 16
	keptManifestNodes = 200_000
	manifestReads     = 2 // at once
)

// KindSet is the kind of the document with a set.
const KindSet = "node-set"

// maxInlineIDs bounds the ids in the event of the signal; the document has those of a larger set.
const maxInlineIDs = 50

// Sets computes the sets of nodes that retries run again. It is safe for concurrent use.
type Sets struct {
	folds     *Folds
	blobs     artifact.Blobs
	manifests *sizedlru.Cache[nodeset.Manifest] // by digest
	reading   chan struct{}
}

// NewSets makes a Sets.
func NewSets(folds *Folds, blobs artifact.Blobs) *Sets {
	return &Sets{folds: folds, blobs: blobs, reading: make(chan struct{}, manifestReads),
		manifests: sizedlru.New[nodeset.Manifest](keptManifests, keptManifestNodes)}
}

// Set is the set of nodes of one retry.
type Set struct {
	Mode       nodeset.Mode `json:"mode"`
	Attempt    int          `json:"attempt"` // the logical attempt that failed
	DBTVersion string       `json:"dbtVersion"`
	Nodes      []Node       `json:"nodes"` // in the order of their ids
}

// Node is a node of a set. FQN and Path are set for versions of dbt that cannot select by the id.
type Node struct {
	nodeset.Selected
	FQN  []string `json:"fqn,omitempty"`
	Path string   `json:"path,omitempty"`
}

// Compute returns the set of a retry of the latest attempt of a step. Its error is a *control.Error with one of the
// codes NODES_… when there is no set, BAD_USER_INPUT with a violation for each id that cannot be retried, or the error
// of the store or the bucket.
func (s *Sets) Compute(ctx context.Context, tenantID string, l store.Loaded, stepID string, req nodeset.Request) (Set,
	error) {
	step, known := l.State.Step(stepID)
	if !known {
		return Set{}, control.Refuse(run.CodeStepNotFound, "The run has no step %q.", stepID)
	}
	if plan.StepType(step.Type).WorkloadOn("") != plan.DBTWorkload {
		return Set{}, control.Refuse(run.CodeNodesNotDBT,
			"Step %q is a %s step; only dbt steps have nodes. Retry it without nodes.", stepID, step.Type)
	}
	i := slices.IndexFunc(step.Attempts, func(a run.Attempt) bool { return a.LogicalAttempt == step.LogicalAttempt })
	if i < 0 || step.Attempts[i].Nodes == nil {
		return Set{}, noManifest(stepID, step.LogicalAttempt, "reported no nodes")
	}
	a := step.Attempts[i]
	results, err := s.folds.Of(ctx, l, stepID, a, l.State.Seq)
	if err != nil {
		return Set{}, err
	}
	if results.Omitted > 0 || len(results.List) >= run.MaxNodes {
		return Set{}, noManifest(stepID, a.LogicalAttempt, "has more nodes than the log lists")
	}
	for j := range results.List {
		if n := &results.List[j]; !n.Status.Ended() {
			n.Status = run.NodeUnfinished
		}
	}
	m, err := s.manifestOf(ctx, artifact.AttemptID{TenantID: tenantID, RunID: l.State.RunID, StepID: stepID}, l.State, a)
	if err != nil {
		return Set{}, err
	}
	selected, err := nodeset.Select(m, results.List, req)
	if err != nil {
		return Set{}, refusalOf(err, stepID, a.LogicalAttempt, req)
	}
	out := Set{Mode: req.Mode, Attempt: a.LogicalAttempt, DBTVersion: m.DBTVersion, Nodes: make([]Node, len(selected))}
	for j, n := range selected {
		out.Nodes[j] = Node{Selected: n}
		if !nodeset.SelectsByID(m.DBTVersion) {
			out.Nodes[j].FQN, out.Nodes[j].Path = m.Nodes[n.ID].FQN, m.Nodes[n.ID].Path
		}
	}
	return out, nil
}

func noManifest(stepID string, attempt int, why string) *control.Error {
	return control.Refuse(run.CodeNodesNoManifest,
		"Attempt %d of step %q %s, so its nodes cannot be chosen. Retry the whole step.", attempt, stepID, why)
}

// refusalOf returns the error for people for an error of nodeset.Select.
func refusalOf(err error, stepID string, attempt int, req nodeset.Request) error {
	var unknown *nodeset.UnknownError
	switch {
	case errors.As(err, &unknown):
		vs := make([]plan.Violation, len(unknown.IDs))
		for i, id := range unknown.IDs {
			vs[i] = plan.Violation{Code: plan.CodeInvalid,
				Path:    fmt.Sprintf("signal.retryStep.nodes.uniqueIds[%d]", slices.Index(req.IDs, id)),
				Message: fmt.Sprintf("%q cannot be retried: %s", run.Text(id, run.MaxNodeID), unknown.Reasons[i])}
		}
		return control.BadInput(vs)
	case errors.Is(err, nodeset.ErrOther):
		return control.Refuse(run.CodeNodesOther, "The manifest of attempt %d of step %q does not name the nodes of the "+
			"step: it is that of another project. Retry the whole step.", attempt, stepID)
	case errors.Is(err, nodeset.ErrNone):
		return control.Refuse(run.CodeNodesNone, "No model, test, seed or snapshot of attempt %d of step %q failed. Retry "+
			"the whole step, or list nodes.", attempt, stepID)
	}
	return err
}

// manifestOf returns the manifest that an attempt stored. An attempt that continues another one and was stopped before
// it stored a manifest has that of its base.
func (s *Sets) manifestOf(ctx context.Context, id artifact.AttemptID, st run.State, a run.Attempt) (nodeset.Manifest,
	error) {
	latest := a.LogicalAttempt
	for {
		id.LogicalAttempt = a.LogicalAttempt
		own := artifact.URI(artifact.Name(id, a.EngineAttempt, manifestFile))
		i := slices.IndexFunc(a.Artifacts, func(ref run.ArtifactRef) bool {
			return ref.Kind == run.KindDBTManifest && ref.URI == own
		})
		if i >= 0 {
			return s.read(ctx, a.Artifacts[i], id)
		}
		base, ok := BaseOf(st, id.StepID, a)
		if !ok {
			return nodeset.Manifest{}, noManifest(id.StepID, latest, "stored no manifest of dbt")
		}
		a = base
	}
}

func (s *Sets) read(ctx context.Context, ref run.ArtifactRef, id artifact.AttemptID) (nodeset.Manifest, error) {
	gone := func(why string) error {
		return control.Refuse(run.CodeNodesGone, "The manifest of attempt %d of step %q %s. Retry the whole step.",
			id.LogicalAttempt, id.StepID, why)
	}
	if ref.SizeBytes > MaxManifest {
		return nodeset.Manifest{}, gone("is larger than 128 MiB")
	}
	// The URI is a part of the key, so that nobody reads the manifest of another tenant by a digest that a worker
	// invented.
	key := ref.URI + "#" + ref.SHA256
	if m, known := s.manifests.Get(key); known {
		return m, nil
	}
	select {
	case s.reading <- struct{}{}:
		defer func() { <-s.reading }()
	case <-ctx.Done():
		return nodeset.Manifest{}, ctx.Err()
	}
	if m, known := s.manifests.Get(key); known {
		return m, nil
	}
	body, err := s.blobs.Open(ctx, ref.URI)
	if errors.Is(err, artifact.ErrNotFound) {
		return nodeset.Manifest{}, gone("is no longer stored")
	}
	if err != nil {
		return nodeset.Manifest{}, err
	}
	defer func() { _ = body.Close() }()
	digest := sha256.New()
	content := io.TeeReader(io.LimitReader(body, MaxManifest), digest)
	m, err := nodeset.ReadManifest(content)
	if err == nil {
		_, err = io.Copy(io.Discard, content)
	}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.Is(err, nodeset.ErrManifest), errors.As(err, &syntax), errors.As(err, &kind),
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return nodeset.Manifest{}, noManifest(id.StepID, id.LogicalAttempt, "stored a manifest that dvt cannot read")
	case err != nil:
		return nodeset.Manifest{}, err
	case ref.SHA256 != "" && hex.EncodeToString(digest.Sum(nil)) != ref.SHA256:
		return nodeset.Manifest{}, gone("has other bytes than the log says")
	}
	s.manifests.Put(key, m, 1+len(m.Nodes))
	return m, nil
}

// Keep stores the document of a set and returns the part of the signal's event that names it. It is idempotent.
func (s *Sets) Keep(ctx context.Context, tenantID, runID string, set Set) (*run.SignalNodes, error) {
	doc, err := json.Marshal(set)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(doc)
	digest := hex.EncodeToString(sum[:])
	name := strings.Join([]string{tenantID, runID, "signals", digest + ".json"}, "/")
	if _, _, _, err := s.blobs.Put(ctx, name, bytes.NewReader(doc)); err != nil {
		return nil, err
	}
	out := &run.SignalNodes{Mode: string(set.Mode), Attempt: set.Attempt, Count: len(set.Nodes), Set: run.ArtifactRef{
		URI: artifact.URI(name), Kind: KindSet, SHA256: digest, SizeBytes: int64(len(doc)), ContentType: "application/json"}}
	if len(set.Nodes) <= maxInlineIDs {
		for _, n := range set.Nodes {
			out.IDs = append(out.IDs, n.ID)
		}
	}
	return out, nil
}

// Read returns the set that the event of a signal names. It checks the bytes against
// the hash that was accepted with the signal.
func Read(ctx context.Context, blobs artifact.Blobs, of run.SignalNodes) (Set, error) {
	body, err := blobs.Open(ctx, of.Set.URI)
	if err != nil {
		return Set{}, fmt.Errorf("control: the set of nodes: %w", err)
	}
	defer func() { _ = body.Close() }()
	doc, err := io.ReadAll(io.LimitReader(body, of.Set.SizeBytes+1))
	if err != nil {
		return Set{}, fmt.Errorf("control: the set of nodes: %w", err)
	}
	if sum := sha256.Sum256(doc); hex.EncodeToString(sum[:]) != of.Set.SHA256 {
		return Set{}, fmt.Errorf("control: %s has other bytes than the accepted set", of.Set.URI)
	}
	var out Set
	return out, json.Unmarshal(doc, &out)
}
