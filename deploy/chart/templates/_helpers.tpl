{{/* Short enough for the suffixes of names, which may have 63 characters. */}}
{{- define "orchestr.fullname" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride }}
{{- else if contains "orchestr" .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}{{ .Release.Name | trunc 43 | trimSuffix "-" }}-orchestr
{{- end }}
{{- end }}

{{- define "orchestr.serviceAccountName" -}}
{{ .Values.serviceAccount.name | default (include "orchestr.fullname" .) }}
{{- end }}

{{- define "orchestr.selectorLabels" -}}
app.kubernetes.io/name: orchestr
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "orchestr.labels" -}}
{{ include "orchestr.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: "{{ .Chart.Name }}-{{ .Chart.Version }}"
{{- end }}

{{- define "orchestr.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* The subject of bindings. */}}
{{- define "orchestr.subjects" -}}
subjects:
- kind: ServiceAccount
  name: {{ include "orchestr.serviceAccountName" . | quote }}
  namespace: {{ .Release.Namespace | quote }}
{{- end }}

{{/* The permissions of the operator. deploy/cluster/role.yaml says what each of them is for. */}}
{{- define "orchestr.rules" -}}
rules:
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
- apiGroups: [""]
  resources: [events]
  verbs: [list, watch]
- apiGroups: [batch]
  resources: [jobs, cronjobs]
  verbs: [get]
- apiGroups: [apps]
  resources: [replicasets, statefulsets, daemonsets]
  verbs: [get]
- apiGroups: [apps]
  resources: [controllerrevisions]
  verbs: [get]
- apiGroups: [""]
  resources: [replicationcontrollers]
  verbs: [get]
- apiGroups: [kopf.dev]
  resources: [orchestrs]
  verbs: [get, list, watch]
- apiGroups: [kopf.dev]
  resources: [orchestrs/status]
  verbs: [patch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{/* Which limit a workload had before, and who changed it. deploy/components/workload-history says more. */}}
{{- define "orchestr.workloadHistory" -}}
{{- if .Values.rbac.workloadHistory }}
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get]
- apiGroups: [apps]
  resources: [replicasets, controllerrevisions]
  verbs: [list]
{{- end }}
{{- end }}

{{/* An environment variable for each flag of the operator that is set: podLogReads is ORCHESTR_POD_LOG_READS. */}}
{{- define "orchestr.env" -}}
{{- range $name, $value := .Values.operator }}
{{- if kindIs "slice" $value }}{{ if empty $value }}{{ continue }}{{ end }}{{ $value = join "," $value }}{{ end }}
{{- if kindIs "float64" $value }}{{ $value = int64 $value }}{{ end }}
{{- if not (kindIs "invalid" $value) }}
- name: ORCHESTR_{{ $name | snakecase | upper }}
  value: {{ $value | toString | quote }}
{{- end }}
{{- end }}
{{- if and .Values.tenancy.policy.enabled (kindIs "invalid" .Values.operator.metricsWithoutIncidents) }}
# Others than the administrator may reach the metrics.
- name: ORCHESTR_METRICS_WITHOUT_INCIDENTS
  value: "true"
{{- end }}
{{- if .Values.leaderElection.enabled }}
- name: ORCHESTR_LEADER_ELECT
  value: "true"
{{- if ne (include "orchestr.fullname" .) "orchestr" }}
- name: ORCHESTR_LEASE_NAME
  value: {{ include "orchestr.fullname" . | quote }}
{{- end }}
{{- end }}
{{- if .Values.metrics.enabled }}
- name: ORCHESTR_METRICS_ADDRESS
  value: ":{{ int64 .Values.metrics.port }}"
{{- end }}
{{- if .Values.heartbeat.secretName }}
- name: ORCHESTR_HEARTBEAT_URL_FILE
  value: /heartbeat/url
{{- with .Values.heartbeat.namespaces }}
- name: ORCHESTR_HEARTBEAT_NAMESPACES
  value: {{ join "," . | quote }}
{{- else }}
{{- if .Values.tenancy.policy.enabled }}
# The webhooks of tenants do not silence the heartbeat.
- name: ORCHESTR_HEARTBEAT_NAMESPACES
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end }}
