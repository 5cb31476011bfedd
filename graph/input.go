package graph

import (
	"fmt"
	"strings"

	"github.com/dvt-engine/dvt/graph/internal/mapping"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

func badInput(path, code, message string) error {
	return &control.Error{
		Code: run.CodeBadInput, Message: fmt.Sprintf("%s: %s.", path, message),
		Violations: []plan.Violation{{Path: path, Code: code, Message: message}},
	}
}

// pageSizes rejects page sizes below 1 with BAD_USER_INPUT, because control takes 0 for "not given". control checks the
// maximum.
func pageSizes(first, last *int) error {
	for path, n := range map[string]*int{"first": first, "last": last} {
		if n != nil && *n < 1 {
			return badInput(path, plan.CodeRange, "must be from 1 to 200")
		}
	}
	return nil
}

// runOrder splits an order into what it sorts by, which is "" for the creation, and its direction.
func runOrder(o model.RunOrder) (by control.RunSort, ascending bool) {
	name, ascending := strings.CutSuffix(string(o), "_ASC")
	if name = strings.TrimSuffix(name, "_DESC"); name != "CREATED" {
		by = control.RunSort(name)
	}
	return by, ascending
}

func runsQuery(f *model.RunFilter, first, last *int) (control.RunsQuery, error) {
	q := control.RunsQuery{First: mapping.OrZero(first), Last: mapping.OrZero(last)}
	if err := pageSizes(first, last); err != nil || f == nil {
		return q, err
	}
	q.Filter = control.RunFilter{
		EnvironmentID: mapping.OrZero(f.EnvironmentID), PlanID: mapping.OrZero(f.PlanID),
		TriggeredBy: mapping.OrZero(f.TriggeredBy),
		Text:        mapping.OrZero(f.Text),
		Tag:         mapping.OrZero(f.Tag), AwaitingOperator: mapping.OrZero(f.AwaitingOperator),
		CreatedFrom: mapping.OrZero(f.CreatedFrom), CreatedTo: mapping.OrZero(f.CreatedTo),
	}
	if f.ProjectID != nil {
		q.Filter.ProjectIDs = []string{*f.ProjectID}
	}
	for _, s := range f.Statuses {
		if s == model.RunStatusUnknown {
			return q, badInput("filter.statuses", plan.CodeUnknown, "UNKNOWN is for reading only")
		}
		q.Filter.Statuses = append(q.Filter.Statuses, run.Status(s))
	}
	return q, nil
}
