package mapping

import (
	"strconv"
	"time"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/graph/internal/model"
)

// Queue maps the entry of a run in the queue; nil when it does not wait there.
func Queue(v control.RunView) *model.QueueEntry {
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
		e.NotBefore = Optional(q.NotBefore)
		return e
	}
	e.ExpiresAt, e.Position, e.EstimatedWaitMs = Optional(q.ExpiresAt), Optional(q.Position), Optional(q.Wait)
	if w := model.QueueWait(q.Why); w.IsValid() {
		e.WaitsFor = &w
	}
	e.Slots = mapSlots(q.Slots)
	return e
}

func mapSlots(s *control.SlotUse) *model.SlotUse {
	if s == nil {
		return nil
	}
	out := &model.SlotUse{Scope: model.SlotScope(s.Scope)}
	if s.Scope != control.SlotsOfInstallation {
		out.Active, out.Max = &s.Active, &s.Max
	}
	return out
}

// QueuePage maps a page of the queue. hasPrev says that the caller came from an earlier page.
func QueuePage(page admission.QueuePage, hasPrev bool) *model.QueueEntryConnection {
	edges := MapSlice(page.Entries, func(q control.QueueEntry) model.QueueEntryEdge {
		return model.QueueEntryEdge{Cursor: EncodeCursor(q.RunID), Node: mapQueueEntry(q)}
	})
	return &model.QueueEntryConnection{
		Edges: edges, Depth: page.Depth, PageInfo: PageInfo(edges, func(e model.QueueEntryEdge) string { return e.Cursor },
			page.HasNext, hasPrev),
	}
}

// QuotaSnapshot maps a quota with its use.
func QuotaSnapshot(q admission.QuotaSnapshot) model.QuotaSnapshot {
	return model.QuotaSnapshot{
		ProjectID: Text(q.ProjectID), Active: q.Active, MaxActive: q.MaxActive, QueueDepth: q.Depth,
		MaxQueueDepth: q.MaxDepth,
		Buckets: MapSlice(q.Buckets, func(b admission.BucketSnapshot) model.QuotaBucket {
			return model.QuotaBucket{
				Action: model.QuotaAction(b.Action), PerMinute: b.PerMinute, TokensRemaining: b.Remaining,
				UsedPercent: b.UsedPercent, NextRefillAt: Optional(b.NextRefill),
			}
		}),
	}
}

// QuotaSettings maps one version of the quota settings.
func QuotaSettings(s admission.QuotaSettings) *model.QuotaSettings {
	doc := s.Document
	out := &model.QuotaSettings{
		Version: int(s.Version), Tier: s.Tier, Tenant: mapQuotaLimits(doc.Tenant),
		Projects: MapSlice(doc.Projects, func(p admission.ProjectQuota) model.ProjectQuota {
			return model.ProjectQuota{ProjectID: p.ProjectID, Limits: mapQuotaLimits(p.Limits), Weight: p.Weight}
		}),
		TTLMs: Optional(time.Duration(doc.TTLMS) * time.Millisecond),
		Actor: Text(s.Actor), Reason: Text(s.Reason), At: Optional(s.At), Changed: append([]string{}, s.Changed...),
	}
	if s.Most != nil {
		out.TierLimits = mapQuotaLimits(*s.Most)
	}
	if doc.Strategy != "" {
		out.Strategy = new(model.BackpressureStrategy(doc.Strategy))
	}
	return out
}

func mapQuotaLimits(l admission.QuotaLimits) *model.QuotaLimits { return new(model.QuotaLimits(l)) }

// QuotaHistory maps a page of versions of quota settings. hasPrev says that the caller came from an earlier page.
func QuotaHistory(page admission.QuotaHistoryPage, hasPrev bool) *model.QuotaSettingsConnection {
	edges := MapSlice(page.Settings, func(s admission.QuotaSettings) model.QuotaSettingsEdge {
		return model.QuotaSettingsEdge{Cursor: EncodeCursor(strconv.FormatInt(s.Version, 10)), Node: QuotaSettings(s)}
	})
	return &model.QuotaSettingsConnection{
		Edges: edges, PageInfo: PageInfo(edges, func(e model.QuotaSettingsEdge) string { return e.Cursor }, page.HasNext,
			hasPrev),
	}
}

// QuotaDocument returns the quota settings that a caller wrote. It does not validate: control does.
func QuotaDocument(in model.QuotaSettingsInput) admission.QuotaDocument {
	limitsOf := func(l *model.QuotaLimitsInput) admission.QuotaLimits {
		if l == nil {
			return admission.QuotaLimits{}
		}
		return admission.QuotaLimits(*l)
	}
	doc := admission.QuotaDocument{
		Tenant: limitsOf(in.Tenant),
		Projects: MapSlice(in.Projects, func(p model.ProjectQuotaInput) admission.ProjectQuota {
			return admission.ProjectQuota{ProjectID: p.ProjectID, Limits: limitsOf(p.Limits), Weight: p.Weight}
		}),
	}
	if in.Strategy != nil {
		doc.Strategy = admission.Strategy(*in.Strategy)
	}
	if in.TTLMs != nil {
		// 0 would mean "not given", and control must refuse a time that is too short.
		doc.TTLMS = max(in.TTLMs.Milliseconds(), 1)
	}
	return doc
}
