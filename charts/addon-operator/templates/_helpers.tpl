{{- define "addon-operator.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{- else -}}{{ printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" }}{{- end -}}
{{- end -}}
{{- end -}}

{{- define "addon-operator.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "addon-operator.labels" -}}
{{ include "addon-operator.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "addon-operator.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}{{ default (include "addon-operator.fullname" .) .Values.serviceAccount.name }}{{- else -}}{{ default "default" .Values.serviceAccount.name }}{{- end -}}
{{- end -}}

{{- define "addon-operator.image" -}}
{{- if .Values.image.digest -}}{{ .Values.image.repository }}@{{ .Values.image.digest }}{{- else -}}{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}{{- end -}}
{{- end -}}

{{- /* The data of the ConfigMap. Texts stay unchanged, and all other values become YAML. */ -}}
{{- define "addon-operator.config" -}}
{{- range $key, $value := .Values.config.values }}
{{- if kindIs "string" $value }}
{{ $key }}: {{ $value | quote }}
{{- else if or (kindIs "map" $value) (kindIs "slice" $value) }}
{{ $key }}: |
  {{- toYaml $value | nindent 2 }}
{{- else }}
{{ $key }}: {{ toString $value | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "addon-operator.webhookService" -}}
{{ include "addon-operator.fullname" . }}-webhooks
{{- end -}}

{{- /* The Secret with the certificate of the webhook server. If empty, the operator issues the certificate. */ -}}
{{- define "addon-operator.webhookSecret" -}}
{{- if .Values.webhooks.certSecret -}}{{ .Values.webhooks.certSecret }}{{- else if .Values.webhooks.certManager.enabled -}}{{ include "addon-operator.webhookService" . }}-tls{{- end -}}
{{- end -}}

{{- define "addon-operator.check" -}}
{{- if and .Values.webhooks.certManager.enabled (not .Values.webhooks.certManager.issuerRef) -}}
{{- fail "webhooks.certManager.enabled requires webhooks.certManager.issuerRef, for example {name: my-issuer, kind: ClusterIssuer}" -}}
{{- end -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.ha.enabled) -}}
{{- fail "replicas is more than 1. Set ha.enabled=true, so that only one replica is active" -}}
{{- end -}}
{{- $seconds := "^[0-9]+s$" -}}
{{- if and .Values.ha.enabled (regexMatch $seconds .Values.ha.leaseDuration) (regexMatch $seconds .Values.ha.leaseRenewDeadline) -}}
{{- if lt (int (trimSuffix "s" .Values.ha.leaseDuration)) (add 3 (int (trimSuffix "s" .Values.ha.leaseRenewDeadline)) | int) -}}
{{- fail "ha.leaseDuration must be at least 3 seconds longer than ha.leaseRenewDeadline, so that hooks and Helm can end" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.config.overlay (eq .Values.config.overlay .Values.config.name) -}}
{{- fail "config.overlay must differ from config.name, because only the operator writes the overlay" -}}
{{- end -}}
{{- if and (not .Values.config.create) .Values.config.values -}}
{{- fail "config.values requires config.create=true, because the chart writes the values to the ConfigMap" -}}
{{- end -}}
{{- end -}}
