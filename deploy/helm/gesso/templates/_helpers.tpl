{{- define "gesso.labels" -}}
app.kubernetes.io/name: gesso
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}
{{- define "gesso.pod" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}
{{- define "gesso.container" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: ["ALL"]}
{{- end }}
{{- define "gesso.replicas" -}}
{{- $name := .Release.Name -}}
{{- range $place := until (int .Values.server.replicas) -}}
{{- if $place }},{{ end -}}
http://{{ $name }}-server-{{ $place }}.{{ $name }}-servers:8000
{{- end -}}
{{- end }}
