// Package nodeset computes which nodes of dbt a retry runs again, from the manifest of an attempt and the results of
// its nodes. It is pure: the preview, the signal and the tests call the same functions.
package nodeset

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dvt-engine/dvt/run"
)

// Mode says how the set of a retry is chosen.
type Mode string

// Modes of a retry of nodes.
const (
	// Failed is every node that failed or did not end, and every node that dbt skipped because of them.
	Failed Mode = "FAILED"
	// FailedAndTestedParents is Failed, and the models that a failed test tests, with the tests of theirs that the step
	// has run: the models are built again before their tests.
	FailedAndTestedParents Mode = "FAILED_AND_THEIR_TESTED_PARENTS"
	// Listed is a list of unique ids.
	Listed Mode = "LISTED"
)

// MaxListed is the largest number of ids of a Listed request.
const MaxListed = 1000

// Reason says why a node is in a set.
type Reason string

// Reasons, in the order in which the first one that applies is given.
const (
	DidFail      Reason = "FAILED"
	DidNotEnd    Reason = "UNFINISHED"
	WasSkipped   Reason = "SKIPPED"    // Of is the failed node that made dbt skip it, if known
	TestedParent Reason = "TESTED_BY"  // Of is the failed test
	TestOfParent Reason = "TEST_OF"    // Of is the model that is built again
	WasListed    Reason = "LISTED"     // and ended well
	NeverRan     Reason = "LISTED_NEW" // listed, and the attempt did not run it
)

// Request says which nodes to retry.
type Request struct {
	Mode Mode
	IDs  []string // of Listed
}

// Selected is a node of a set.
type Selected struct {
	ID  string `json:"id"`
	Why Reason `json:"why"`
	Of  string `json:"of,omitempty"`
}

// Errors of Select.
var (
	// ErrOther means that the manifest does not name a node that failed: it is the manifest of another project.
	ErrOther = errors.New("nodeset: the manifest does not name the nodes of the attempt")
	// ErrNone means that no node is to be retried.
	ErrNone = errors.New("nodeset: no node is to be retried")
)

// UnknownError lists the ids of a request that cannot be retried, with the reason for each.
type UnknownError struct{ IDs, Reasons []string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("nodeset: %d ids cannot be retried: %s", len(e.IDs), strings.Join(e.IDs, ", "))
}

// Select returns the nodes that a retry runs again, in the order of their ids, each once. results are the newest
// results of the nodes that the attempt ran. Hooks and analyses are in no set, because dbt runs hooks with every
// execution, and neither are ephemeral models, which have no table. Errors: ErrOther, ErrNone, *UnknownError.
func Select(m Manifest, results []run.Node, req Request) ([]Selected, error) {
	s := selection{m: m, status: make(map[string]run.NodeStatus, len(results)), set: map[string]Selected{}}
	for _, n := range results {
		s.status[n.ID] = n.Status
	}
	for _, n := range results {
		_, named := m.Nodes[n.ID]
		switch {
		case !named && kindOf(n.ID) != "operation":
			return nil, ErrOther
		case n.Status == run.NodeFailed:
			s.add(n.ID, DidFail, "")
		case !n.Status.Ended():
			s.add(n.ID, DidNotEnd, "")
		case n.Status == run.NodeSkipped:
			s.add(n.ID, WasSkipped, n.SkippedBy)
		}
	}
	switch req.Mode {
	case FailedAndTestedParents:
		s.addTestedParents(results)
	case Listed:
		if err := s.keepListed(req.IDs); err != nil {
			return nil, err
		}
	case Failed:
	}
	if len(s.set) == 0 {
		return nil, ErrNone
	}
	out := make([]Selected, 0, len(s.set))
	for _, n := range s.set {
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b Selected) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

type selection struct {
	m      Manifest
	status map[string]run.NodeStatus
	set    map[string]Selected
}

// isRunnable reports whether dbt can be told to run a node.
func (s *selection) isRunnable(id string) bool {
	n, named := s.m.Nodes[id]
	return named && !n.Ephemeral && kindOf(id) != "operation" && kindOf(id) != "analysis"
}

// add adds a node; the first reason stays.
func (s *selection) add(id string, why Reason, of string) {
	if _, known := s.set[id]; !known && s.isRunnable(id) {
		s.set[id] = Selected{ID: id, Why: why, Of: of}
	}
}

// addTestedParents adds what the failed tests test, and the tests of it that ran.
func (s *selection) addTestedParents(results []run.Node) {
	for _, test := range results {
		if test.Status != run.NodeFailed || !isTest(test.ID) {
			continue
		}
		for _, parent := range s.m.Nodes[test.ID].Needs {
			switch kindOf(parent) {
			case "model", "seed", "snapshot":
			default:
				continue
			}
			s.add(parent, TestedParent, test.ID)
			if !s.isRunnable(parent) {
				continue
			}
			for _, id := range s.m.Nodes[parent].Tests {
				if _, ran := s.status[id]; ran {
					s.add(id, TestOfParent, parent)
				}
			}
		}
	}
}

// keepListed makes the set that of a list. The nodes keep the reasons that they have.
func (s *selection) keepListed(ids []string) error {
	var unknown UnknownError
	listed := make(map[string]Selected, len(ids))
	for _, id := range ids {
		status, ran := s.status[id]
		known, has := s.set[id]
		_, named := s.m.Nodes[id]
		why := ""
		switch {
		case has:
			listed[id] = known
		case !named:
			why = "the manifest of the attempt does not name it"
		case !s.isRunnable(id):
			why = "dbt does not run it by itself: it is a hook, an analysis or an ephemeral model"
		case !ran || status == "":
			listed[id] = Selected{ID: id, Why: NeverRan}
		default:
			listed[id] = Selected{ID: id, Why: WasListed}
		}
		if why != "" && !slices.Contains(unknown.IDs, id) {
			unknown.IDs, unknown.Reasons = append(unknown.IDs, id), append(unknown.Reasons, why)
		}
	}
	if len(unknown.IDs) > 0 {
		return &unknown
	}
	s.set = listed
	return nil
}

// Rest returns the nodes of a set that did not end well in an execution of it: those that a further execution of the
// same set runs. results are those of the executions of the set alone. It is empty, and not nil, when all of them did.
func Rest(ids []string, results map[string]run.NodeStatus) []string {
	out := []string{}
	for _, id := range ids {
		if s := results[id]; s != run.NodeSuccess && s != run.NodeWarn {
			out = append(out, id)
		}
	}
	return out
}

// Verb returns the command of dbt that runs a set. verb is that of the step; it stays when it runs every node of the
// set, and otherwise dbt build does.
func Verb(verb string, ids []string) string {
	runs := func(id string) bool { return kindOf(id) == "model" }
	switch verb {
	case "run":
	case "test":
		runs = isTest
	default:
		return verb
	}
	for _, id := range ids {
		if !runs(id) {
			return "build"
		}
	}
	return verb
}

// SelectsByID reports whether a version of dbt selects nodes by their ids: dbt 1 does so by the results of an earlier
// execution, where only the ids count. Versions without that need the name and the file of each node.
func SelectsByID(version string) bool { return strings.HasPrefix(version, "1.") }
