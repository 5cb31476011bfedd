package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
)

// installation are the values that every installation needs.
const installation = `
config:
  store: postgres://dvt@db.example/dvt?sslmode=verify-full
  redis: rediss://dvt@redis.example:6379/0
  temporal: temporal.example:7233
  temporal-tls: "on"
  artifacts: s3://dvt-artifacts?region=eu-central-1
  public-url: https://dvt.example
  accounts:
    - {id: ops, tenant: acme, tokenSha256: "0000000000000000000000000000000000000000000000000000000000000000",
       grants: [{role: ADMIN, project: "*", environment: "*"}]}
secrets: {existingSecret: dvt}
server: {tls: {existingSecret: dvt-tls}}
data: {existingSecret: dvt-worker}
migrate: {store: "postgres://owner@db.example/dvt?sslmode=verify-full", existingSecret: dvt-owner, appRole: dvt}
`

// factors are the choices of an installation, each with its variants as values.
var factors = map[string][]string{
	"encryption":     {"{}", `{server: {tls: {existingSecret: ""}, plaintext: true}}`},
	"server scaling": {"{}", "{server: {autoscaling: {enabled: true}}}", "{server: {replicas: 5}}"},
	"ingress": {"{}", `{server: {ingress: {enabled: true, host: dvt.example, className: nginx, tlsSecret: web,
		annotations: {a: b}}}}`},
	"service":         {"{}", "{server: {service: {type: LoadBalancer, port: 443, annotations: {a: b}}}}"},
	"control scaling": {"{}", "{control: {autoscaling: {enabled: true}}}"},
	"data scaling": {"{}", "{data: {autoscaling: {enabled: true}}}",
		`{data: {keda: {enabled: true, prometheusAddress: "http://prometheus:9090"}}}`, "{data: {enabled: false}}"},
	"isolation": {"{}", `{config: {isolation-tenants: [acme]}, isolation: [{tenant: acme, environment: prod,
		existingSecret: dvt-acme, runtimeClassName: gvisor, replicas: 1}]}`},
	"environments": {"{}", "{environments: [prod, staging]}"},
	"migration":    {"{}", "{migrate: {enabled: false}}"},
	"verify":       {"{}", "{cronJobs: {verify: {enabled: true}}}"},
	"capture":      {"{}", "{cronJobs: {capture: {enabled: true, existingClaim: histories}}}"},
	"monitoring": {"{}", "{monitoring: {serviceMonitor: {enabled: true}}, networkPolicy: {metricsFrom: [" +
		"{namespaceSelector: {matchLabels: {name: monitoring}}}]}}"},
	"rules":      {"{}", "{monitoring: {prometheusRule: {enabled: true, labels: {release: p}}}}"},
	"dashboards": {"{}", "{monitoring: {dashboards: {enabled: true}}}"},
	"network":    {"{}", "{networkPolicy: {enabled: false}}", peersOfNetwork},
	"image": {"{}", `{image: {tag: "2"}}`,
		"{image: {digest: " + someDigest + "}, workerImage: {digest: " + someDigest + "}}"},
	"pull": {"{}", "{imagePullSecrets: [{name: registry}]}"},
	"accounts": {"{}", "{serviceAccount: {server: a, worker: b}}",
		"{serviceAccount: {serverAnnotations: {role: x}, workerAnnotations: {role: z}}}"},
	"disruption": {"{}", `{server: {podDisruptionBudget: {enabled: false}},
		data: {podDisruptionBudget: {enabled: false}}}`},
	"worker kernel": {"{}", "{data: {seccompProfile: {type: Localhost, localhostProfile: dvt.json}, hostUsers: false}}",
		"{data: {runtimeClassName: gvisor}}"},
	"projects": {"{}", "{data: {projectsClaim: projects}}"},
	"extras":   {"{}", extras},
	"smoke":    {"{}", "{smoke: {enabled: true, project: ops, environment: prod, existingSecret: dvt-smoke}}"},
	"keys": {"{}", `{secrets: {files: {payload-keys-file: payload-keys, dispatch-keys-file: dispatch-keys,
		subject-keys-file: subject-keys}}, data: {files: {dispatch-keys-file: dispatch-keys}}}`},
	"worker settings": {"{}", `{workerConfig: {sandbox-allow-missing: [network, connect], concurrency: 2}}`},
}

const (
	someDigest     = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	peersOfNetwork = `{networkPolicy: {apiFrom: [{namespaceSelector: {matchLabels: {name: ingress}}}],
		metricsFrom: [{namespaceSelector: {matchLabels: {name: monitoring}}}],
		store: {to: [{ipBlock: {cidr: 10.0.0.5/32}}], ports: [6432]}}}`
	extras = `{server: {extraEnv: [{name: AWS_REGION, value: x}], extraVolumes: [{name: ca, configMap: {name: ca}}],
		extraVolumeMounts: [{name: ca, mountPath: /ca}], nodeSelector: {a: b}, tolerations: [{operator: Exists}],
		affinity: {nodeAffinity: {}}}, control: {extraEnv: [{name: AWS_REGION, value: x}]},
		data: {extraEnv: [{name: AWS_REGION, value: x}], extraVolumes: [{name: ca, configMap: {name: ca}}],
		extraVolumeMounts: [{name: ca, mountPath: /ca}]},
		migrate: {extraEnv: [{name: PGSSLMODE, value: verify-full}], extraVolumes: [{name: ca, configMap: {name: ca}}],
		extraVolumeMounts: [{name: ca, mountPath: /ca}]},
		cronJobs: {extraEnv: [{name: AWS_REGION, value: x}], extraVolumes: [{name: ca, configMap: {name: ca}}],
		extraVolumeMounts: [{name: ca, mountPath: /ca}]}}`
)

// pairwise returns few combinations of variants in which each two variants of two factors occur together. A combination
// is the variant of each factor, by name.
func pairwise() (rows []map[string]int) {
	names := slices.Sorted(maps.Keys(factors))
	type pair struct {
		a, b string
		i, j int
	}
	open := map[pair]bool{}
	for x, a := range names {
		for _, b := range names[x+1:] {
			for i := range factors[a] {
				for j := range factors[b] {
					open[pair{a, b, i, j}] = true
				}
			}
		}
	}
	for len(open) > 0 {
		row := map[string]int{}
		for x, b := range names {
			best, most := 0, -1
			for j := range factors[b] {
				n := 0
				for _, a := range names[:x] {
					if open[pair{a, b, row[a], j}] {
						n += 1000
					}
				}
				for _, c := range names[x+1:] { // pairs that a later factor can still close
					for k := range factors[c] {
						if open[pair{b, c, j, k}] {
							n++
						}
					}
				}
				if n > most {
					best, most = j, n
				}
			}
			row[b] = best
		}
		closed := 0
		for x, a := range names {
			for _, b := range names[x+1:] {
				if p := (pair{a, b, row[a], row[b]}); open[p] {
					delete(open, p)
					closed++
				}
			}
		}
		if closed == 0 {
			panic("a combination closes no pair")
		}
		rows = append(rows, row)
	}
	return rows
}

// valuesOf merges the variants of a combination over those that every installation needs.
func valuesOf(t *testing.T, row map[string]int) map[string]any {
	t.Helper()
	values := parseValues(t, installation)
	for _, name := range slices.Sorted(maps.Keys(row)) {
		values = chartutil.MergeTables(parseValues(t, factors[name][row[name]]), values)
	}
	return values
}

func parseValues(t *testing.T, text string) map[string]any {
	t.Helper()
	v, err := chartutil.ReadValues([]byte(strings.ReplaceAll(text, "\t", "  ")))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return v
}
