package graph

import (
	"strconv"
	"time"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/graph/internal/model"
)

func mapQueue(v control.RunView) *model.QueueEntry {
	if v.Queue == nil {
		return nil
	}
	return mapQueueEntry(*v.Queue)
}

func mapQueueEntry(q control.QueueEntry) *model.QueueEntry {
	e := &model.QueueEntry{
		RunID: q.RunID, ProjectID: q.ProjectID, EnvironmentID: q.EnvironmentID, PlanID: q.PlanID, PlanVersion: q.PlanVersion,
		TriggeredBy: q.TriggeredBy, Status: string(q.Status), Priority: q.Priority,
		CreatedAt: q.CreatedAt, Attempts: q.Attempts,
	}
	if !q.Waiting {
		e.NotBefore = optional(q.NotBefore)
		return e
	}
	e.ExpiresAt, e.Position, e.EstimatedWaitMs = optional(q.ExpiresAt), optional(q.Position), optional(q.Wait)
	if w := model.QueueWait(q.Why); w.IsValid() {
		e.WaitsFor = &w
	}
	return e
}

func mapQueuePage(page admission.QueuePage, hasPrev bool) *model.QueueEntryConnection {
	edges := each(page.Entries, func(q control.QueueEntry) model.QueueEntryEdge {
		return model.QueueEntryEdge{Cursor: encodeCursor(q.RunID), Node: mapQueueEntry(q)}
	})
	return &model.QueueEntryConnection{
		Edges: edges, Depth: page.Depth, PageInfo: pageInfo(edges, func(e model.QueueEntryEdge) string { return e.Cursor },
			page.HasNext, hasPrev),
	}
}

func mapQuotaSnapshot(q admission.QuotaSnapshot) model.QuotaSnapshot {
	return model.QuotaSnapshot{
		ProjectID: text(q.ProjectID), Active: q.Active, MaxActive: q.MaxActive, QueueDepth: q.Depth,
		MaxQueueDepth: q.MaxDepth,
		Buckets: each(q.Buckets, func(b admission.BucketSnapshot) model.QuotaBucket {
			return model.QuotaBucket{
				Action: model.QuotaAction(b.Action), PerMinute: b.PerMinute, TokensRemaining: b.Remaining,
				UsedPercent: b.UsedPercent, NextRefillAt: optional(b.NextRefill),
			}
		}),
	}
}

func mapQuotaSettings(s admission.QuotaSettings) *model.QuotaSettings {
	doc := s.Document
	out := &model.QuotaSettings{
		Version: int(s.Version), Tier: s.Tier, Tenant: mapQuotaLimits(doc.Tenant),
		Projects: each(doc.Projects, func(p admission.ProjectQuota) model.ProjectQuota {
			return model.ProjectQuota{ProjectID: p.ProjectID, Limits: mapQuotaLimits(p.Limits), Weight: p.Weight}
		}),
		TTLMs: optional(time.Duration(doc.TTLMS) * time.Millisecond),
		Actor: text(s.Actor), Reason: text(s.Reason), At: optional(s.At),
	}
	if doc.Strategy != "" {
		out.Strategy = new(model.BackpressureStrategy(doc.Strategy))
	}
	return out
}

func mapQuotaLimits(l admission.QuotaLimits) *model.QuotaLimits { return new(model.QuotaLimits(l)) }

func mapQuotaHistory(page admission.QuotaHistoryPage, hasPrev bool) *model.QuotaSettingsConnection {
	edges := each(page.Settings, func(s admission.QuotaSettings) model.QuotaSettingsEdge {
		return model.QuotaSettingsEdge{Cursor: encodeCursor(strconv.FormatInt(s.Version, 10)), Node: mapQuotaSettings(s)}
	})
	return &model.QuotaSettingsConnection{
		Edges: edges, PageInfo: pageInfo(edges, func(e model.QuotaSettingsEdge) string { return e.Cursor }, page.HasNext,
			hasPrev),
	}
}

// quotaDocument is what a caller wrote; control says what is wrong with it.
func quotaDocument(in model.QuotaSettingsInput) admission.QuotaDocument {
	limitsOf := func(l *model.QuotaLimitsInput) admission.QuotaLimits {
		if l == nil {
			return admission.QuotaLimits{}
		}
		return admission.QuotaLimits(*l)
	}
	doc := admission.QuotaDocument{
		Tenant: limitsOf(in.Tenant),
		Projects: each(in.Projects, func(p model.ProjectQuotaInput) admission.ProjectQuota {
			return admission.ProjectQuota{ProjectID: p.ProjectID, Limits: limitsOf(p.Limits), Weight: p.Weight}
		}),
	}
	if in.Strategy != nil {
		doc.Strategy = admission.Strategy(*in.Strategy)
	}
	if in.TTLMs != nil {
		doc.TTLMS = max(in.TTLMs.Milliseconds(), 1) // what is given and too short is said to be
	}
	return doc
}
