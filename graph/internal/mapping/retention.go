package mapping

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/retention"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/plan"
)

// RetentionDocument returns the policy that a caller wrote. Control checks its values. BAD_USER_INPUT for a kind that
// is named twice.
func RetentionDocument(in model.RetentionDaysInput) (retention.Document, error) {
	doc := retention.Document{
		Runs:     retention.RunDays{ArchiveAfterDays: in.ArchiveRuns, DeleteArchiveAfterDays: in.DeleteArchives},
		StepLogs: in.StepLogs, Receipts: in.Receipts, DeadLetters: in.DeadLetters, Alerts: in.Alerts,
		Audit: in.Audit,
	}
	for i, a := range in.Artifacts {
		if _, twice := doc.Artifacts[a.Kind]; twice {
			return doc, control.BadInput([]plan.Violation{{Path: fmt.Sprintf("retention.artifacts[%d].kind", i),
				Code: "DUPLICATE", Message: "is named twice"}})
		}
		if doc.Artifacts == nil {
			doc.Artifacts = map[string]int{}
		}
		doc.Artifacts[a.Kind] = a.Days
	}
	return doc, nil
}

// RetentionPolicy maps one version of the policy.
func RetentionPolicy(p retention.Policy) (*model.RetentionPolicy, error) {
	own, err := json.Marshal(retentionInput(p.Document))
	if err != nil {
		return nil, err
	}
	d := p.Effective
	out := &model.RetentionPolicy{
		Version: int(p.Version), Own: own, Actor: Text(p.Actor), Reason: Text(p.Reason), At: Optional(p.At),
		Changed: append([]string{}, p.Changed...),
		Days: &model.RetentionDays{ArchiveRuns: d.ArchiveRuns, DeleteArchives: d.DeleteArchive, StepLogs: d.StepLogs,
			Receipts: d.Receipts, DeadLetters: d.DeadLetters, Alerts: d.Alerts, Audit: d.Audit,
			Artifacts: artifactDays(d.Artifacts)},
	}
	if l := p.LastPass; l != nil {
		out.LastPass = &model.RetentionPass{
			StartedAt: l.StartedAt, EndedAt: l.EndedAt, Archived: int(l.Archived), ArchivedBytes: int(l.Bytes),
			DeletedEvents: int(l.Events), Deleted: int(l.Deleted), RemovedObjects: int(l.Objects), DeletedRows: int(l.Rows),
			Held: int(l.Held), Waiting: int(l.Waiting), Failed: int(l.Failed), Error: Text(l.Error),
			OverdueSince: l.OverdueSince, CutRecords: int(l.CutRecords),
		}
	}
	return out, nil
}

// retentionInput returns the values that a document sets, as the input that makes it.
func retentionInput(doc retention.Document) map[string]any {
	out := map[string]any{}
	for name, days := range map[string]*int{"archiveRuns": doc.Runs.ArchiveAfterDays,
		"deleteArchives": doc.Runs.DeleteArchiveAfterDays, "stepLogs": doc.StepLogs, "receipts": doc.Receipts,
		"deadLetters": doc.DeadLetters, "alerts": doc.Alerts, "audit": doc.Audit} {
		if days != nil {
			out[name] = *days
		}
	}
	if len(doc.Artifacts) > 0 {
		list := []map[string]any{}
		for _, a := range artifactDays(doc.Artifacts) {
			list = append(list, map[string]any{"kind": a.Kind, "days": a.Days})
		}
		out["artifacts"] = list
	}
	return out
}

func artifactDays(days map[string]int) []model.ArtifactRetention {
	return MapSlice(slices.Sorted(maps.Keys(days)), func(kind string) model.ArtifactRetention {
		return model.ArtifactRetention{Kind: kind, Days: days[kind]}
	})
}

// RetentionHistory maps a page of versions. hasPrev says that the caller came from an earlier page.
func RetentionHistory(page retention.PolicyPage, hasPrev bool) (*model.RetentionPolicyConnection, error) {
	edges := []model.RetentionPolicyEdge{}
	for _, p := range page.Policies {
		node, err := RetentionPolicy(p)
		if err != nil {
			return nil, err
		}
		edges = append(edges, model.RetentionPolicyEdge{Cursor: EncodeCursor(strconv.FormatInt(p.Version, 10)), Node: node})
	}
	return &model.RetentionPolicyConnection{
		Edges: edges, PageInfo: PageInfo(edges, func(e model.RetentionPolicyEdge) string { return e.Cursor }, page.HasNext,
			hasPrev),
	}, nil
}

// RetentionPreview maps what a policy would do.
func RetentionPreview(e retention.Effect) *model.RetentionPreview {
	return &model.RetentionPreview{Changed: append([]string{}, e.Changed...), Warnings: append([]string{}, e.Warnings...),
		Archive: retentionEstimate(e.Archive), Delete: retentionEstimate(e.Delete)}
}

func retentionEstimate(e retention.Estimate) *model.RetentionEstimate {
	return &model.RetentionEstimate{Runs: int(e.Runs), Events: int(e.Events), Bytes: int(e.Bytes), Held: int(e.Held),
		More: e.More}
}

// LegalHold maps a hold.
func LegalHold(h retention.Hold) *model.LegalHold {
	return &model.LegalHold{ID: h.ID, Kind: model.HoldKind(h.Kind), Subject: h.Subject, Reason: h.Reason,
		PlacedBy: h.PlacedBy, PlacedAt: h.PlacedAt, LiftedBy: Text(h.LiftedBy), LiftedAt: h.LiftedAt,
		LiftedFor: Text(h.LiftedFor)}
}

// LegalHolds maps a page of holds. hasPrev says that the caller came from an earlier page.
func LegalHolds(page retention.HoldPage, hasPrev bool) *model.LegalHoldConnection {
	edges := MapSlice(page.Holds, func(h retention.Hold) model.LegalHoldEdge {
		return model.LegalHoldEdge{Cursor: EncodeCursor(h.ID), Node: LegalHold(h)}
	})
	return &model.LegalHoldConnection{
		Edges: edges, PageInfo: PageInfo(edges, func(e model.LegalHoldEdge) string { return e.Cursor }, page.HasNext,
			hasPrev),
	}
}
