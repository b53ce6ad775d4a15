{{- define "sublet.name" -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "sublet.account" -}}
{{- .Values.serviceAccount.name | default (include "sublet.name" .) }}
{{- end }}

{{- define "sublet.selector" -}}
app.kubernetes.io/name: sublet-consumer
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sublet.labels" -}}
{{ include "sublet.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "sublet.podSecurity" -}}
runAsNonRoot: true
{{- with int .Values.user }}
runAsUser: {{ . }}
runAsGroup: {{ . }}
fsGroup: {{ . }}
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "sublet.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}
