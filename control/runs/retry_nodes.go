package runs

import (
	"context"
	"errors"
	"strings"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/nodes"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/nodeset"
	"github.com/dvt-engine/dvt/store"
)

// retryStep is the part of the payload of a RETRY_STEP that chooses nodes.
type retryStep struct {
	Nodes *struct {
		Mode      nodeset.Mode `json:"mode"`
		UniqueIDs []string     `json:"uniqueIds"`
	} `json:"nodes"`
}

// nodesOf returns the nodes that a signal asks for, and false for one that is not about nodes.
func nodesOf(in SignalRun) (nodeset.Request, bool) {
	if in.Signal.Type != run.RetryStep {
		return nodeset.Request{}, false
	}
	p, err := run.PayloadOf[retryStep](in.Payload)
	switch {
	case err != nil || p.Nodes == nil:
		return nodeset.Request{}, false
	case p.Nodes.UniqueIDs != nil:
		return nodeset.Request{Mode: nodeset.Listed, IDs: p.Nodes.UniqueIDs}, true
	}
	return nodeset.Request{Mode: p.Nodes.Mode}, true
}

// nodes checks the form of a request for nodes. Only the manifest says whether the ids are right.
func (c *content) nodes(in SignalRun) {
	req, asked := nodesOf(in)
	switch {
	case !asked:
	case req.Mode == nodeset.Listed && len(req.IDs) == 0:
		c.add("nodes.uniqueIds", plan.CodeMissing, "name at least one node")
	case len(req.IDs) > nodeset.MaxListed:
		c.add("nodes.uniqueIds", plan.CodeRange, "at most %d ids are allowed; use a mode for more", nodeset.MaxListed)
	case req.Mode == nodeset.Listed:
		for _, id := range req.IDs {
			if strings.TrimSpace(id) == "" || len(id) > run.MaxNodeID {
				c.add("nodes.uniqueIds", plan.CodeInvalid, "an id has from 1 to %d bytes", run.MaxNodeID)
				return
			}
		}
	case req.Mode != nodeset.Failed && req.Mode != nodeset.FailedAndTestedParents:
		c.add("nodes.mode", plan.CodeInvalid, "use FAILED or FAILED_AND_THEIR_TESTED_PARENTS")
	}
}

// NodeSource reads the states from which the sets of nodes are computed.
type NodeSource interface {
	Load(ctx context.Context, runID string) (store.Loaded, error)
}

// UseNodes lets signals choose nodes. Call it before the first signal; without it they are NOT_SUPPORTED.
func (s *SignalChecker) UseNodes(from NodeSource, sets *nodes.Sets) { s.nodes, s.sets = from, sets }

// chosenNodes is the set of a RETRY_STEP, or the reason why there is none. The zero value is that of a signal that is
// not about nodes.
type chosenNodes struct {
	asked bool
	set   nodes.Set
	event *run.SignalNodes // for the event; nil for a refusal
	err   *control.Error
}

// choose computes the set that a signal asks for, and stores it if keep is set. It reads the state before the head of
// the run is locked, because a manifest can be large; judging compares the attempt again. A set that cannot be computed
// is a part of the answer: a repeated signal gets its receipt all the same.
func (s *SignalChecker) choose(ctx context.Context, r store.Run, in SignalRun, keep bool) (out chosenNodes, err error) {
	req, asked := nodesOf(in)
	if !asked {
		return out, nil
	}
	out.asked = true
	if s.sets == nil {
		out.err = control.Refuse(run.CodeNotSupported, "This server cannot choose nodes.")
		return out, nil
	}
	l, err := s.nodes.Load(ctx, in.RunID)
	if err != nil {
		return out, err
	}
	step, _ := l.State.Step(in.Signal.StepID)
	if step == nil || step.Status != run.StepFailed {
		return out, nil // run.Judge says why; a step that fails meanwhile has moved
	}
	out.set, err = s.sets.Compute(ctx, r.TenantID, l, in.Signal.StepID, req)
	if errors.As(err, &out.err) {
		return out, nil
	}
	if err == nil && keep {
		out.event, err = s.sets.Keep(ctx, r.TenantID, r.RunID, out.set)
	}
	return out, err
}

// judgeNodes decides about the set of an admissible RETRY_STEP, and reports whether the decision is made.
func (j *judging) judgeNodes(ctx context.Context, tx store.RunTx, st run.State) (bool, error) {
	c := &j.nodes
	if !c.asked {
		return false, nil
	}
	step, ok := st.Step(j.in.Signal.StepID)
	switch {
	case c.err != nil && strings.HasPrefix(string(c.err.Code), "NODES_"):
		return true, j.reject(ctx, tx, c.err.Code, c.err.Message)
	case c.err != nil:
		j.refusal = c.err
		return true, j.auditTx(ctx, tx, "REJECTED", c.err.Code)
	case c.event == nil || !ok || step.LogicalAttempt != c.set.Attempt:
		j.refusal = control.Refuse(run.CodeRunMoved, "The step has moved while its nodes were chosen. Look again and decide "+
			"again.")
		j.refusal.RunSeq = st.Seq
		return true, j.auditTx(ctx, tx, "REJECTED", run.CodeRunMoved)
	}
	j.in.Signal.ExpectedAttempt = c.set.Attempt
	return false, nil
}
