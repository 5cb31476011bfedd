{{- /* The data and isolation workers as a list of name, component, environment, tenant, queue and values. */}}
{{- define "dvt.dataWorkers" -}}
{{- $root := . -}}
{{- $all := list -}}
{{- if .Values.data.enabled }}
{{- range $environment := .Values.environments }}
{{- $all = append $all (dict "name" (printf "%s-data-%s" (include "dvt.name" $root) $environment) "component" "data"
  "environment" $environment "tenant" "" "queue" (printf "tq-data-%s" $environment) "values" $root.Values.data) }}
{{- end }}
{{- end }}
{{- range $w := .Values.isolation }}
{{- $all = append $all (dict "name" (printf "%s-isolation-%s-%s" (include "dvt.name" $root) $w.tenant $w.environment)
  "component" "isolation" "environment" $w.environment "tenant" $w.tenant
  "queue" (printf "tq-isolation-%s-%s" $w.tenant $w.environment)
  "values" (mergeOverwrite (deepCopy $root.Values.data) (omit $w "tenant" "environment"))) }}
{{- end }}
{{- $names := list -}}
{{- range $all }}{{ $names = append $names .name }}{{ end -}}
{{- if ne (len $names) (len (uniq $names)) }}
{{- fail (printf "two workers would have one name and one queue: %s" (join ", " $names)) }}
{{- end }}
{{- toYaml $all }}
{{- end }}

{{- /* Every deployment as a list of name, component, environment, tenant and values. */}}
{{- define "dvt.deployments" -}}
{{- $root := . -}}
{{- $all := list (dict "name" (include "dvt.name" .) "component" "server" "environment" "" "tenant" ""
  "values" .Values.server) -}}
{{- range $environment := .Values.environments }}
{{- $all = append $all (dict "name" (printf "%s-control-%s" (include "dvt.name" $root) $environment)
  "component" "control" "environment" $environment "tenant" "" "values" $root.Values.control) }}
{{- end }}
{{- range $w := include "dvt.dataWorkers" . | fromYamlArray }}{{ $all = append $all $w }}{{ end -}}
{{- toYaml $all }}
{{- end }}
