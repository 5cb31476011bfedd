{{- define "dvt.name" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- /* Arguments: root, component, and for workers environment and tenant. */}}
{{- define "dvt.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- with get . "environment" }}
dvt.dev/environment: {{ . | quote }}
{{- end }}
{{- with get . "tenant" }}
dvt.dev/tenant: {{ . | quote }}
{{- end }}
{{- end }}

{{- define "dvt.labels" -}}
{{ include "dvt.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "dvt.image" -}}
{{- $image := index . 0 -}}
{{- if $image.digest }}{{ $image.repository }}@{{ $image.digest }}
{{- else }}{{ $image.repository }}:{{ default (index . 1).Chart.AppVersion $image.tag }}{{ end -}}
{{- end }}

{{- define "dvt.serviceAccount" -}}
{{- $kind := ternary "worker" "server" (eq .component "data" "isolation") -}}
{{- default (printf "%s-%s" (include "dvt.name" .root) $kind) (index .root.Values.serviceAccount $kind) -}}
{{- end }}

{{- /* The rules of Pod Security "restricted"; the account of the pods has no further rights. */}}
{{- define "dvt.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {{ toJson . }}
{{- end }}

{{- define "dvt.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
{{- end }}

{{- /* Not empty when an address has a password. */}}
{{- define "dvt.hasPassword" -}}
{{- if regexMatch "://[^/?#]*:[^/?#]*@|[?&](ssl)?password=" . }}yes{{ end -}}
{{- end }}

{{- /* Settings of servers and control workers. */}}
{{- define "dvt.config" -}}
{{- $v := .Values -}}
{{- $managed := dict
  "listen" "0.0.0.0:8080"
  "metrics-listen" "0.0.0.0:9464"
  "shutdown-delay" (printf "%ds" (int $v.server.shutdownDelaySeconds))
  "data" "/var/lib/dvt" -}}
{{- if $v.server.tls.existingSecret }}
{{- $_ := set $managed "listen-tls-cert" "/etc/dvt/tls/tls.crt" }}
{{- $_ := set $managed "listen-tls-key" "/etc/dvt/tls/tls.key" }}
{{- else if not $v.server.plaintext }}
{{- fail "servers need a certificate: set server.tls.existingSecret, or server.plaintext=true where the network between pods is encrypted by other means" }}
{{- end }}
{{- if $v.secrets.existingSecret }}
{{- range $setting, $key := $v.secrets.files }}
{{- $_ := set $managed $setting (printf "/etc/dvt/secrets/%s" $key) }}
{{- end }}
{{- end }}
{{- range $key := keys $managed }}
{{- if hasKey $v.config $key }}{{ fail (printf "config.%s is written by the chart: leave it out" $key) }}{{ end }}
{{- end }}
{{- range $key := list "ticket-keys" "manual-keys" "sign-in-key" "payload-keys" "dispatch-keys" "subject-keys" "worker-token" }}
{{- if hasKey $v.config $key }}
{{- fail (printf "config.%s is a secret, and everybody who reads ConfigMaps could read it: put it into the Secret that secrets.existingSecret names, and name its key in secrets.files or secrets.env" $key) }}
{{- end }}
{{- end }}
{{- range $key := list "store" "redis" }}
{{- if include "dvt.hasPassword" (index $v.config $key) }}
{{- fail (printf "config.%s has a password, and everybody who reads ConfigMaps could read it: put it into the Secret that secrets.existingSecret names, as %s-password" $key $key) }}
{{- end }}
{{- end }}
{{- range $provider := default (list) (index $v.config "oidc") }}
{{- if hasKey $provider "clientSecret" }}
{{- fail "config.oidc has a clientSecret, and everybody who reads ConfigMaps could read it: name a file of server.extraVolumes in clientSecretFile" }}
{{- end }}
{{- end }}
{{- range $key := list "control-queue" "data-queue" "isolation-queue" }}
{{- if hasKey $v.config $key }}
{{- fail (printf "config.%s cannot be set: the workers of the chart serve the queues of the default names" $key) }}
{{- end }}
{{- end }}
{{- range $w := $v.isolation }}
{{- if not (has $w.tenant (default (list) (index $v.config "isolation-tenants"))) }}
{{- fail (printf "isolation has workers that %s does not use: name it in config.isolation-tenants" $w.tenant) }}
{{- end }}
{{- end }}
{{- $plain := default (list) (index $v.config "allow-plaintext") -}}
{{- $plain = append $plain "metrics" -}}
{{- if $v.server.plaintext }}{{ $plain = append $plain "journal" }}{{ end -}}
{{- $_ := set $managed "allow-plaintext" (uniq $plain) -}}
{{- toYaml (merge $managed (deepCopy $v.config)) }}
{{- end }}

{{- /* Settings of data and isolation workers: how they reach Temporal and a server, and no address of a store. */}}
{{- define "dvt.workerConfig" -}}
{{- $v := .root.Values -}}
{{- $scheme := ternary "https" "http" (ne $v.server.tls.existingSecret "") -}}
{{- $managed := dict
  "metrics-listen" "0.0.0.0:9464"
  "server" (printf "%s://%s:%d" $scheme (include "dvt.name" .root) (int $v.server.service.port))
  "data" "/var/lib/dvt"
  "workspace" "/workspace"
  "step-grace" (printf "%ds" (int .values.stepGraceSeconds))
  "project-root" "/projects" -}}
{{- if $v.server.tls.existingSecret }}{{ $_ := set $managed "server-tls-ca" "/etc/dvt/server-ca/ca.crt" }}{{ end -}}
{{- range $setting, $key := .values.files }}{{ $_ := set $managed $setting (printf "/etc/dvt/secrets/%s" $key) }}{{ end -}}
{{- range $key := keys $managed }}
{{- if hasKey $v.workerConfig $key }}{{ fail (printf "workerConfig.%s is written by the chart: leave it out" $key) }}{{ end }}
{{- end }}
{{- range $key := list "store" "redis" "worker-token" "payload-keys" "dispatch-keys" }}
{{- if hasKey $v.workerConfig $key }}
{{- fail (printf "workerConfig.%s is a secret or an address that data workers must not have: leave it out, and name files of secrets in data.files" $key) }}
{{- end }}
{{- end }}
{{- range $key, $value := $v.config }}
{{- if and (hasPrefix "temporal" $key) (not (hasKey $v.workerConfig $key)) }}{{ $_ := set $managed $key $value }}{{ end }}
{{- end }}
{{- $plain := default (list) (index $v.workerConfig "allow-plaintext") -}}
{{- if has "temporal" (default (list) (index $v.config "allow-plaintext")) }}{{ $plain = append $plain "temporal" }}{{ end -}}
{{- $plain = append $plain "metrics" -}}
{{- if $v.server.plaintext }}{{ $plain = append $plain "journal" }}{{ end -}}
{{- $_ := set $managed "allow-plaintext" (uniq $plain) -}}
{{- toYaml (merge $managed (deepCopy $v.workerConfig)) }}
{{- end }}

{{- /* Volumes of servers, control workers and jobs that read the settings of servers. */}}
{{- define "dvt.serverVolumes" -}}
- name: config
  configMap: {name: {{ include "dvt.name" . }}-config}
- name: tmp
  emptyDir: {medium: Memory, sizeLimit: 256Mi}
- name: data
  emptyDir: {sizeLimit: 1Gi}
{{- with .Values.secrets }}
{{- if and .existingSecret .files }}
- name: secrets
  secret:
    secretName: {{ .existingSecret }}
    defaultMode: 0440
    items:
      {{- range $key := values .files | uniq | sortAlpha }}
      - {key: {{ $key }}, path: {{ $key }}}
      {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "dvt.serverMounts" -}}
- {name: config, mountPath: /etc/dvt/dvt.yaml, subPath: dvt.yaml, readOnly: true}
- {name: tmp, mountPath: /tmp}
- {name: data, mountPath: /var/lib/dvt}
{{- if and .Values.secrets.existingSecret .Values.secrets.files }}
- {name: secrets, mountPath: /etc/dvt/secrets, readOnly: true}
{{- end }}
{{- end }}

{{- define "dvt.serverEnv" -}}
{{- $secret := .Values.secrets.existingSecret -}}
{{- if $secret }}
{{- range $name, $key := .Values.secrets.env }}
- name: {{ $name }}
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: {{ $key }}}}
{{- end }}
{{- end }}
{{- end }}

{{- define "dvt.placement" -}}
{{- with .values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with .values.affinity }}
affinity: {{ toJson . }}
{{- end }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "dvt.selector" . | nindent 8 }}
{{- end }}
