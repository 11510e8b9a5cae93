{{- define "threadmill.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "threadmill.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "threadmill.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- /* The labels by which selectors find the pods of a component: they never change. */ -}}
{{- define "threadmill.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- with get . "build" }}
build: {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "threadmill.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- /*
The Deployments, as a JSON list under "pods": name, component, roles, build, repository, tag, replicas and config of each.
*/ -}}
{{- define "threadmill.pods" -}}
{{- $full := include "threadmill.fullname" . -}}
{{- $base := dict "repository" .Values.image.repository "tag" (default .Chart.AppVersion .Values.image.tag) "build" "" "config" "" -}}
{{- if .Values.config -}}
{{- $_ := set $base "config" (printf "%s-config" $full) -}}
{{- end -}}
{{- $pods := list -}}
{{- if not .Values.nats.enabled -}}
{{- $pods = append $pods (merge (dict "name" $full "component" "all" "roles" "worker,api" "replicas" 1) $base) -}}
{{- else -}}
{{- $pods = append $pods (merge (dict "name" (printf "%s-api" $full) "component" "api" "roles" "api" "replicas" .Values.api.replicas) $base) -}}
{{- if not .Values.builds -}}
{{- $pods = append $pods (merge (dict "name" (printf "%s-worker" $full) "component" "worker" "roles" "worker" "replicas" .Values.worker.replicas) $base) -}}
{{- end -}}
{{- $names := dict -}}
{{- range .Values.builds -}}
{{- $name := printf "%s-worker-%s" $full (.id | lower | replace "." "-" | replace "_" "-") -}}
{{- with get $names $name -}}
{{- fail (printf "builds: %q and the build before it would both be the Deployment %s: give one of them another id" . $name) -}}
{{- end -}}
{{- $_ := set $names $name .id -}}
{{- $pod := dict "name" $name "component" "worker" "roles" "worker" "build" .id "tag" .tag -}}
{{- $_ := set $pod "replicas" (hasKey . "replicas" | ternary (get . "replicas") $.Values.worker.replicas) -}}
{{- with get . "repository" }}{{ $_ := set $pod "repository" . }}{{ end -}}
{{- if get . "config" }}{{ $_ := set $pod "config" (printf "%s-config" $name) }}{{ end -}}
{{- $pods = append $pods (merge $pod $base) -}}
{{- end -}}
{{- end -}}
{{- dict "pods" $pods | toJson -}}
{{- end -}}

{{- /* The names by which the Service and the Ingress are called, and those of the values. */ -}}
{{- define "threadmill.hosts" -}}
{{- $full := include "threadmill.fullname" . -}}
{{- $inside := printf "%s.%s" $full .Release.Namespace -}}
{{- $hosts := list $full $inside (printf "%s.svc" $inside) (printf "%s.svc.cluster.local" $inside) -}}
{{- if .Values.ingress.enabled -}}
{{- $hosts = concat $hosts .Values.ingress.hosts -}}
{{- end -}}
{{- concat $hosts .Values.api.allowedHosts | uniq | join "," -}}
{{- end -}}

{{- /* The environment of a pod, as JSON. The values replace what the chart sets. */ -}}
{{- define "threadmill.env" -}}
{{- $env := dict "TEMPORAL_ADDRESS" .root.Values.temporal.address "TEMPORAL_NAMESPACE" .root.Values.temporal.namespace -}}
{{- if .root.Values.temporal.tlsSecret -}}
{{- $_ := set $env "TEMPORAL_TLS" "true" -}}
{{- $_ := set $env "TEMPORAL_TLS_CLIENT_CERT_PATH" "/etc/temporal/tls/tls.crt" -}}
{{- $_ := set $env "TEMPORAL_TLS_CLIENT_KEY_PATH" "/etc/temporal/tls/tls.key" -}}
{{- end -}}
{{- if ne .pod.component "api" -}}
{{- $_ := set $env "THREADMILL_RECOVERY_DIR" "/srv/threadmill/recovery" -}}
{{- end -}}
{{- if .root.Values.metrics.enabled -}}
{{- $_ := set $env "OTEL_METRICS_EXPORTER" "prometheus" -}}
{{- $_ := set $env "OTEL_EXPORTER_PROMETHEUS_HOST" "0.0.0.0" -}}
{{- $_ := set $env "OTEL_EXPORTER_PROMETHEUS_PORT" (toString .root.Values.metrics.port) -}}
{{- end -}}
{{- merge (dict) .root.Values.env $env | toJson -}}
{{- end -}}
