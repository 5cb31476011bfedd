package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// checkSafety fails for pods that break the Pod Security Standard "restricted", and for objects with a secret.
func checkSafety(t *testing.T, objects []object) {
	t.Helper()
	for _, o := range objects {
		if o.Kind == "Secret" {
			t.Errorf("%s: the chart makes no secrets", o.name())
		}
		for _, word := range []string{"password:", "-----BEGIN", "tokenSha256: 1"} {
			if strings.Contains(o.text, word) && !strings.Contains(o.text, "password-file:") {
				t.Errorf("%s has %q", o.name(), word)
			}
		}
		spec := o.podSpec()
		if spec == nil {
			continue
		}
		for _, problem := range restricted(spec) {
			t.Errorf("%s is not restricted: %s", o.name(), problem)
		}
		for _, v := range asList(spec["volumes"]) {
			if v["hostPath"] != nil {
				t.Errorf("%s mounts a path of the node", o.name())
			}
		}
	}
}

// restricted returns a sentence for each rule that a pod breaks: those of the Pod Security Standard "restricted", and
// the promises of this chart beyond it.
func restricted(spec map[string]any) (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for _, key := range []string{"hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"} {
		if spec[key] != nil {
			say("%s is set", key)
		}
	}
	pod := at(spec, "securityContext")
	if kind := at(pod, "seccompProfile")["type"]; kind != "RuntimeDefault" && kind != "Localhost" {
		say("seccompProfile is %v", kind)
	}
	if pod["runAsNonRoot"] != true || fmt.Sprint(pod["runAsUser"]) != "65532" {
		say("it may run as root")
	}
	if spec["serviceAccountName"] == nil {
		say("it runs in the account that the namespace gives to pods without one")
	}
	if spec["automountServiceAccountToken"] != false {
		say("it gets a token of the API of Kubernetes")
	}
	for _, c := range containers(spec) {
		s := at(c, "securityContext")
		if s["allowPrivilegeEscalation"] != false || s["readOnlyRootFilesystem"] != true || s["privileged"] != nil {
			say("container %v has the securityContext %v", c["name"], s)
		}
		if capabilities := at(s, "capabilities"); !contains(capabilities["drop"], "ALL") || capabilities["add"] != nil {
			say("container %v has the capabilities %v", c["name"], capabilities)
		}
		if at(c, "resources", "limits")["memory"] == nil {
			say("container %v has no limit of memory", c["name"])
		}
		for _, e := range asList(c["env"]) {
			name, _ := e["name"].(string)
			if strings.HasPrefix(name, "DVT_") && e["value"] != nil {
				say("the variable %s has its value in the object", name)
			}
		}
	}
	return problems
}

func asList(v any) (all []map[string]any) {
	list, _ := v.([]any)
	for _, x := range list {
		m, _ := x.(map[string]any)
		all = append(all, m)
	}
	return all
}

func TestRestricted_FindsAPodWithRights(t *testing.T) {
	c := loadChart(t)
	documents, err := render(c, mergedValues(t, "{}"), "1.34.0")
	must(t, err)
	for _, change := range []struct{ from, to string }{
		{"runAsNonRoot: true\n        runAsUser: 65532", "runAsUser: 0"},
		{"readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false"},
		{"drop: [ALL]", "drop: []"}, {"allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true"},
		{"automountServiceAccountToken: false", "automountServiceAccountToken: true"},
		{`seccompProfile: {"type":"RuntimeDefault"}`, `seccompProfile: {type: Unconfined}`},
	} {
		for _, o := range parseObjects(t, documents) {
			if o.name() != "Deployment dvt" {
				continue
			}
			changed := strings.Replace(o.text, change.from, change.to, 1)
			if changed == o.text {
				t.Errorf("the server has no %q", change.from)
			}
			if found := restricted(parseObjects(t, []string{changed})[0].podSpec()); len(found) == 0 {
				t.Errorf("%s was accepted", change.to)
			}
		}
	}
}

// Probes, the time to stop and the settings agree: a server works on for shutdown-delay and then needs 10 s more, and a
// worker gives its steps their time and needs 15 s more.
func TestChart_PodsHaveTheTimeToStop(t *testing.T) {
	documents, err := render(loadChart(t), mergedValues(t, `{server: {shutdownDelaySeconds: 40}, data: {stepGraceSeconds: 600}}`), "1.34.0")
	must(t, err)
	for _, o := range parseObjects(t, documents) {
		if o.Kind != "Deployment" {
			continue
		}
		grace, _ := o.podSpec()["terminationGracePeriodSeconds"].(float64)
		strategy := at(o.Spec, "strategy", "rollingUpdate")
		if strategy["maxSurge"] != 1.0 || strategy["maxUnavailable"] != 0.0 {
			t.Errorf("%s: an upgrade takes a pod away before another is ready: %v", o.name(), strategy)
		}
		component := o.Metadata.Labels["app.kubernetes.io/component"]
		least := map[string]float64{"server": 50, "control": 46, "data": 616}[component]
		if grace < least {
			t.Errorf("%s has %v s to stop, want at least %v", o.name(), grace, least)
		}
		for _, c := range containers(o.podSpec()) {
			ready := at(c, "readinessProbe")
			if ready["periodSeconds"] != 2.0 || ready["failureThreshold"] != 1.0 ||
				at(ready, "httpGet")["path"] != "/readyz" {
				t.Errorf("%s counts as available before it works, or after it was asked to stop: %v", o.name(), ready)
			}
			if at(c, "livenessProbe", "httpGet")["path"] != "/livez" || at(c, "startupProbe") == nil {
				t.Errorf("%s has no probes: %v", o.name(), c)
			}
		}
	}
}

// edges are the connections of each part. They follow the table of processes in docs/operations.md.
var edges = map[string][]string{
	"server": {"dns", "redis", "store", "temporal", "web"}, "control": {"dns", "redis", "store", "temporal", "web"},
	"data": {"dns", "server", "temporal", "warehouses"}, "isolation": {"dns", "server", "temporal", "warehouses"},
	"migrate": {"dns", "store"}, "verify": {"dns", "store"}, "capture": {"dns", "temporal"}, "smoke": {"dns", "server"},
}

func TestNetworkPolicies_AllowWhatEachPartNeedsAndNoMore(t *testing.T) {
	values := `{networkPolicy: {store: {ports: [1001]}, redis: {ports: [1002]}, temporal: {ports: [1003]},
		web: {ports: [1004]}, warehouses: {ports: [1005]}}}`
	documents, err := render(loadChart(t), mergedValues(t, values), "1.34.0")
	must(t, err)
	names := map[string]string{"1001": "store", "1002": "redis", "1003": "temporal", "1004": "web", "1005": "warehouses",
		"53": "dns", "8080": "server"}
	got, denied := map[string][]string{}, false
	for _, o := range parseObjects(t, documents) {
		if o.Kind != "NetworkPolicy" {
			continue
		}
		if !contains(o.Spec["policyTypes"], "Ingress") || !contains(o.Spec["policyTypes"], "Egress") {
			t.Errorf("%s does not deny by default", o.name())
		}
		component, _ := at(o.Spec, "podSelector", "matchLabels")["app.kubernetes.io/component"].(string)
		if component == "" {
			denied = o.Spec["ingress"] == nil && o.Spec["egress"] == nil
			continue
		}
		if component != "server" && o.Spec["ingress"] != nil && len(asList(o.Spec["ingress"])) > 0 {
			t.Errorf("%s lets others in: %v", component, o.Spec["ingress"])
		}
		for _, rule := range asList(o.Spec["egress"]) {
			for _, port := range asList(rule["ports"]) {
				if to := names[fmt.Sprint(port["port"])]; !slices.Contains(got[component], to) {
					got[component] = append(got[component], to)
				}
			}
		}
		slices.Sort(got[component])
	}
	if !denied {
		t.Error("no policy denies everything for all pods")
	}
	for component, want := range edges {
		if !slices.Equal(got[component], want) {
			t.Errorf("%s may connect to %v, want %v", component, got[component], want)
		}
	}
	if len(got) != len(edges) {
		t.Errorf("policies of %d parts, want %d", len(got), len(edges))
	}
}

// An operator who names no peers must not let the programs of steps reach the store or Redis.
func TestNetworkPolicies_ByDefaultStepsDoNotReachTheStore(t *testing.T) {
	documents, err := render(loadChart(t), mergedValues(t, "{}"), "1.34.0")
	must(t, err)
	seen := false
	for _, o := range parseObjects(t, documents) {
		if o.name() != "NetworkPolicy dvt-data" {
			continue
		}
		seen = true
		for _, rule := range asList(o.Spec["egress"]) {
			for _, port := range asList(rule["ports"]) {
				if p := fmt.Sprint(port["port"]); rule["to"] == nil && (p == "5432" || p == "6379") {
					t.Errorf("data workers may connect to the port %s of every address", p)
				}
			}
		}
	}
	if !seen {
		t.Error("data workers have no policy")
	}
}

// Each part has the secrets and the identity of its own duties: servers alone have the key of their listener, and the
// identity of servers in a cloud, which reads the bucket, does not reach the pods that run programs of steps.
func TestChart_NoPartHasTheSecretsOfAnother(t *testing.T) {
	values := `{serviceAccount: {serverAnnotations: {role: bucket}}, cronJobs: {verify: {enabled: true},
		capture: {enabled: true, existingClaim: c}}}`
	documents, err := render(loadChart(t), mergedValues(t, values), "1.34.0")
	must(t, err)
	keys, accounts := []string{}, map[string]string{}
	for _, o := range parseObjects(t, documents) {
		if o.Kind == "ServiceAccount" {
			accounts[o.Metadata.Name] = o.Metadata.Annotations["role"]
		}
		for _, v := range asList(o.podSpec()["volumes"]) {
			if secret := at(v, "secret"); secret["secretName"] == "dvt-tls" && secret["items"] == nil {
				keys = append(keys, o.name())
			}
		}
	}
	if !slices.Equal(keys, []string{"Deployment dvt"}) {
		t.Errorf("the key of the listener is in %v, want the servers alone", keys)
	}
	if accounts["dvt-server"] != "bucket" || accounts["dvt-worker"] != "" {
		t.Errorf("the accounts have the identities %v, want that of servers for servers alone", accounts)
	}
}

// The chart has the rules and dashboards that are generated from internal/slo, to the byte.
func TestChart_HasTheGeneratedRulesAndDashboards(t *testing.T) {
	values := `{monitoring: {prometheusRule: {enabled: true}, dashboards: {enabled: true}, serviceMonitor: {enabled: true}},
		networkPolicy: {metricsFrom: [{podSelector: {}}]}}`
	documents, err := render(loadChart(t), mergedValues(t, values), "1.34.0")
	must(t, err)
	found := map[string]bool{}
	for _, o := range parseObjects(t, documents) {
		switch {
		case o.Kind == "PrometheusRule":
			text, err := os.ReadFile(filepath.Join(repository, "deploy", "prometheus", "rules.yaml"))
			must(t, err)
			var want map[string]any
			must(t, yaml.Unmarshal(text, &want))
			found["rules"] = fmt.Sprint(want) == fmt.Sprint(o.Spec)
		case strings.HasPrefix(o.Metadata.Name, "dvt-dashboard-"):
			name := strings.TrimPrefix(o.Metadata.Name, "dvt-dashboard-")
			text, err := os.ReadFile(filepath.Join(repository, "deploy", "grafana", name+".json"))
			must(t, err)
			found[name] = o.Data["dvt-"+name+".json"] == string(text)
		case o.Kind == "Service" && o.Metadata.Name == "dvt-metrics":
			found["job"] = o.Metadata.Labels["dvt.dev/job"] == "dvt-server"
		}
	}
	for _, name := range []string{"rules", "data-plane", "engine", "temporal", "tenants", "job"} {
		if !found[name] {
			t.Errorf("%s is missing or not that of the repository", name)
		}
	}
}
