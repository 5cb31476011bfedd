package admission_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

func setting(version int64, doc admission.QuotaDocument) admission.SetQuota {
	return admission.SetQuota{RequestID: "q" + string(rune('0'+version)), ExpectedVersion: version, Document: doc,
		Reason: "less for now"}
}

func TestSetQuota_IsInForceAndNeverAboveTheTier(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.WithQuotas(controltest.HobbyQuotas(func(q *admission.Quotas) {
		q.Projects = map[string]admission.QuotaLimits{"acme/etl": {StartRunPerMinute: new(50)}}
	})))
	admin := w.Principal("dev-admin")
	ctx := t.Context()
	if s := controltest.Must[admission.QuotaSettings](t)(w.QuotaSettings(ctx, admin)); s.Version != 0 ||
		s.Tier != "hobby" {
		t.Errorf("the settings are %+v, want version 0 of the tier hobby", s)
	}
	_, err := w.SetQuota(ctx, admin, setting(0, admission.QuotaDocument{
		Tenant: admission.QuotaLimits{StartRunPerMinute: new(3), MaxActive: new(-1)}, Strategy: "DROP", TTLMS: 10,
		Projects: []admission.ProjectQuota{
			{ProjectID: "shop", Weight: 101, Limits: admission.QuotaLimits{MaxQueueDepth: new(101)}},
			{ProjectID: "shop", Weight: 1}, {ProjectID: "-", Weight: 1},
			{ProjectID: "etl", Weight: 1, Limits: admission.QuotaLimits{StartRunPerMinute: new(51)}},
		},
	}))
	var got []string
	for _, v := range controltest.Refusal(t, err, run.CodeBadInput).Violations {
		got = append(got, v.Code+" "+v.Path)
	}
	want := []string{
		"RANGE settings.tenant.startRunPerMinute", "RANGE settings.tenant.maxActive", "RANGE settings.projects[0].weight",
		"RANGE settings.projects[0].limits.maxQueueDepth", "DUPLICATE settings.projects[1].projectId",
		"INVALID settings.projects[2].projectId",
		"RANGE settings.projects[3].limits.startRunPerMinute", "RANGE settings.projects", "INVALID settings.strategy",
		"RANGE settings.ttlMs",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
	_, err = w.SetQuota(ctx, admin, setting(0, admission.QuotaDocument{ // each is within the tier, their sum is not
		Tenant: admission.QuotaLimits{StartRunPerMinute: new(1)},
		Projects: []admission.ProjectQuota{
			{ProjectID: "shop", Weight: 1, Limits: admission.QuotaLimits{StartRunPerMinute: new(2)}}},
	}))
	if e := controltest.Refusal(t, err, run.CodeBadInput); len(e.Violations) != 1 ||
		e.Violations[0].Path != "settings.projects" {
		t.Errorf("the violations are %+v, want one about settings.projects", e.Violations)
	}
	for _, who := range []string{"dev-engineer", "dev-sre"} {
		_, err = w.SetQuota(ctx, w.Principal(who), setting(0, admission.QuotaDocument{}))
		controltest.Refusal(t, err, run.CodeForbidden)
	}
	doc := admission.QuotaDocument{
		Projects: []admission.ProjectQuota{
			{ProjectID: "shop", Weight: 3, Limits: admission.QuotaLimits{StartRunPerMinute: new(1),
				SignalOpsPerMinute: new(5)}}},
	}
	first := controltest.Must[admission.QuotaSettings](t)(w.SetQuota(ctx, admin, setting(0, doc)))
	again := controltest.Must[admission.QuotaSettings](t)(w.SetQuota(ctx, admin, setting(0, doc)))
	if first.Version != 1 || !cmp.Equal(first, again) || !w.HasAuditRow("acme", "dev-admin SET_QUOTA ACCEPTED") ||
		!w.HasAuditRow("acme", "dev-admin SET_QUOTA REJECTED BAD_USER_INPUT") {
		t.Errorf("the first answer is %+v, the repeated one %+v, and the audit %q; want version 1 twice and both rows",
			first, again, w.AuditRows("acme"))
	}
	late := setting(0, doc)
	late.RequestID = "other"
	_, err = w.SetQuota(ctx, admin, late)
	if e := controltest.Refusal(t, err, run.CodeQuotaMoved); e.QuotaVersion != 1 {
		t.Errorf("the refusal is %+v, want one with version 1", e)
	}
	if b := w.HeavyBucket("acme", "shop"); b != (store.Bucket{TenantID: "acme", Action: store.BucketHeavy,
		PerMinute: 1}) {
		t.Errorf("the bucket is %+v, want that of the tenant with 1 token a minute", b)
	}
	snaps := controltest.Must[[]admission.QuotaSnapshot](t)(w.Quotas(ctx, w.Principal("dev-viewer")))
	var shown []int
	for _, s := range snaps {
		for _, b := range s.Buckets {
			shown = append(shown, b.PerMinute)
		}
	}
	// The tenant has what shop leaves of 2 starts and 20 signals; etl has the limits that the operators set for it.
	if diff := cmp.Diff([]int{1, 1, 15, 50, 1, 5}, shown); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	if h := controltest.Must[admission.QuotaHistoryPage](t)(w.QuotaHistory(ctx, admin, 0, 0)); len(h.Settings) != 1 ||
		h.HasNext {
		t.Errorf("the history is %+v, want one version", h)
	}
	if s := controltest.Must[[]admission.QuotaSnapshot](t)(w.Quotas(ctx, w.Principal("nobody"))); len(s) != 0 {
		t.Errorf("a principal without rights sees %+v, want nothing", s)
	}
}

// When a document cannot be read, or its tier has less than before, the limits of the tier apply.
func TestLoadPolicy_QuotasThatCannotBeReadKeepTheTier(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.WithQuotas(controltest.HobbyQuotas()))
	put := func(tenant string, version int64, doc string) {
		t.Helper()
		_, err := w.Store.PutSetting(t.Context(), store.StoredSetting{
			Kind: store.SettingQuota, TenantID: tenant, Version: version, Doc: json.RawMessage(doc), Actor: "a", Reason: "r",
			RequestID: "r",
		}, store.AuditRow{ID: tenant, TenantID: tenant, Actor: "a", Action: "SET_QUOTA", Outcome: "ACCEPTED"})
		if err != nil {
			t.Fatal(err)
		}
	}
	put("acme", 1, `{"tenant": 7}`)
	put("globex", 1,
		`{"tenant":{"heavyStepsPerMinute":500},"projects":[{"projectId":"p","weight":1,"limits":{"heavyStepsPerMinute":4}}]}`)
	if err := w.LoadPolicy(t.Context()); err != nil {
		t.Fatal(err)
	}
	for place, want := range map[[2]string]int{{"acme", "shop"}: 1, {"globex", "x"}: 1, {"globex", "p"}: 4} {
		if got := w.HeavyBucket(place[0], place[1]).PerMinute; got != want {
			t.Errorf("the bucket of %v has %d tokens a minute, want %d", place, got, want)
		}
	}
}

func TestQuotas_CheckFindsEachMistake(t *testing.T) {
	t.Parallel()
	if err := controltest.HobbyQuotas().Check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*admission.Quotas){
		"no default":   func(q *admission.Quotas) { delete(q.Tiers, admission.DefaultTier) },
		"unknown tier": func(q *admission.Quotas) { q.Tenants["x"] = "gold" },
		"no place":     func(q *admission.Quotas) { q.Projects = map[string]admission.QuotaLimits{"shop": {}} },
		"negative": func(q *admission.Quotas) {
			q.Projects = map[string]admission.QuotaLimits{
				"a/b": {MaxActive: new(-1)}}
		},
		"strategy": func(q *admission.Quotas) { q.Strategy = "DROP" },
		"ttl":      func(q *admission.Quotas) { q.TTL = 0 },
		"weight":   func(q *admission.Quotas) { q.Tiers["hobby"] = admission.Tier{} },
	} {
		if controltest.HobbyQuotas(change).Check() == nil {
			t.Errorf("the quotas with the mistake %q pass", name)
		}
	}
}

func TestPreviewQuota_SaysWhatChangesAndWhatIsInUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.WithQuotas(controltest.HobbyQuotas()))
	ctx, admin := t.Context(), w.Principal("dev-admin")
	w.CreateRunning("r1", "s1")
	w.CreateRunning("r2", "s1")
	before := controltest.Must[admission.QuotaSettings](t)(w.QuotaSettings(ctx, admin))
	if before.Most == nil || before.Most.MaxActive == nil {
		t.Fatalf("the settings are %+v, want the limits of the tier", before)
	}
	doc := admission.QuotaDocument{Tenant: admission.QuotaLimits{MaxActive: new(1)}}
	effect := controltest.Must[admission.QuotaEffect](t)(w.PreviewQuota(ctx, admin, doc))
	want := admission.QuotaEffect{
		Changed: []string{fmt.Sprintf("- active runs of the tenant: the tier's %d", *before.Most.MaxActive),
			"+ active runs of the tenant: 1"},
		Warnings: []string{"2 runs are active in the tenant now; no new one starts until none is active."},
	}
	if diff := cmp.Diff(want, effect); diff != "" {
		t.Errorf("the preview (-want +got):\n%s", diff)
	}
	made := controltest.Must[admission.QuotaSettings](t)(w.SetQuota(ctx, admin, admission.SetQuota{RequestID: "q",
		Document: doc, Reason: "test"}))
	if diff := cmp.Diff(want, admission.QuotaEffect{Changed: made.Changed, Warnings: made.Warnings}); diff != "" {
		t.Errorf("the answer of the change (-want +got):\n%s", diff)
	}
	doc.Tenant.StartRunPerMinute = new(0)
	effect = controltest.Must[admission.QuotaEffect](t)(w.PreviewQuota(ctx, admin, doc))
	if diff := cmp.Diff([]string{"With 0 starts per minute nothing starts in the tenant."}, effect.Warnings); diff != "" {
		t.Errorf("the warnings of a change of the starts alone (-want +got):\n%s", diff)
	}
	_, err := w.PreviewQuota(ctx, w.Engineer(), doc)
	controltest.Refusal(t, err, run.CodeForbidden)
	_, err = w.PreviewQuota(ctx, admin, admission.QuotaDocument{Strategy: "DROP"})
	controltest.Refusal(t, err, run.CodeBadInput)
}
