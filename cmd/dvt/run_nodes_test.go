package main

import (
	"strings"
	"testing"
)

func TestRunNodes_PrintsNodesAndWhyTheyWereSkipped(t *testing.T) {
	isolateEnvironment(t)
	s := serveAnswer(t, 200, `{"data":{"run":{"step":{"stepId":"build","type":"DBT_RUN","statusRaw":"RUNNING",
		"nodeCounts":{"total":3,"running":0,"success":1,"warn":0,"failed":1,"skipped":1,"unfinished":0},
		"nodes":{"attempt":1,"total":300,"seq":9,"omitted":0,"pageInfo":{"hasNextPage":true,"endCursor":"Mg"},"edges":[
		{"node":{"uniqueId":"model.shop.orders","name":"orders","resourceType":"model","status":"FAILED","durationMs":1500,
		"startedAt":"2026-11-29T09:00:00Z","error":"Binder Error:\n no such column","rowsAffected":7,"changedSeq":8}},
		{"node":{"uniqueId":"model.shop.report","name":"report","resourceType":"model","status":"SKIPPED",
		"skippedBy":"model.shop.orders","changedSeq":9}}]}}}}}`)
	const id = "4fec12ab-0000-4000-8000-000000000000"
	out, status, err := dvt(t, s, "t", "run", "nodes", id, "build", "--status", "failed,skipped", "--limit", "2")
	for _, want := range []string{"orders", "FAILED", "1.5s", "7", "Binder Error", "report", "SKIPPED",
		"because of model.shop.orders"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if status != 0 || t.Failed() {
		t.Errorf("status %d, %v\n%s", status, err, out)
	}
	doc, status, err := dvt(t, s, "t", "run", "nodes", id, "build", "--limit", "2", "-o", "json")
	if status != 0 || !strings.Contains(doc, `"skippedBy": "model.shop.orders"`) {
		t.Errorf("status %d, %v, want the nodes as JSON:\n%s", status, err, doc)
	}
	if out, status, _ := dvt(t, s, "t", "run", "nodes", id, "build", "--status", "gone"); status != 2 {
		t.Errorf("an unknown status ends with %d, want 2\n%s", status, out)
	}
}

func TestRunNodes_SaysThatAStepHasNone(t *testing.T) {
	isolateEnvironment(t)
	s := serveAnswer(t, 200, `{"data":{"run":{"step":{"stepId":"load","type":"COMMAND","statusRaw":"SUCCESS",
		"nodeCounts":null,"nodes":null}}}}`)
	_, status, err := dvt(t, s, "t", "run", "nodes", "4fec12ab-0000-4000-8000-000000000000", "load")
	if status != 1 || err == nil || !strings.Contains(err.Error(), "has no nodes") {
		t.Errorf("status %d, %v; want 1 and the reason", status, err)
	}
}
