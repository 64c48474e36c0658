{{/* Names and labels. Everywhere: "root" is the chart's own context, "part" the name of a part's command. */}}

{{/*
Values that aren't there have the chart's defaults. Helm itself sees to that but for "helm upgrade --reuse-values", which
gives the values of the older chart instead, without those that are new. Each template begins with this. It changes
.Values itself, and says nothing.
*/}}
{{- define "pilotage.defaults" -}}
{{- $defaults := required "files/values.yaml is missing" (.Files.Get "files/values.yaml") | fromYaml }}
{{- $_ := include "pilotage.fill" (dict "values" .Values "defaults" $defaults) }}
{{- end }}

{{/* In what has names of the user's own, a name that isn't there was taken away by him (by null), and so were resources. */}}
{{- define "pilotage.fill" -}}
{{- $values := .values }}
{{- range $key, $default := .defaults }}
{{- $value := index $values $key }}
{{- if and (kindIs "invalid" $value) (ne $key "resources") }}
{{- $_ := set $values $key $default }}
{{- else if and (kindIs "map" $value) (kindIs "map" $default) (not (has $key (list "resources" "labels" "config"))) }}
{{- $_ := include "pilotage.fill" (dict "values" $value "defaults" $default) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "pilotage.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 35 | trimSuffix "-" }}
{{- end }}

{{- define "pilotage.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 35 | trimSuffix "-" }}
{{- else }}
{{- $name := include "pilotage.name" . }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 35 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 35 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "pilotage.partName" -}}
{{ include "pilotage.fullname" .root }}-{{ .part }}
{{- end }}

{{- define "pilotage.selector" -}}
app.kubernetes.io/name: {{ include "pilotage.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "pilotage.labels" -}}
{{ include "pilotage.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "pilotage.image" -}}
{{- $image := .Values.image }}
{{- if $image.digest }}
{{- printf "%s@%s" $image.repository $image.digest }}
{{- else }}
{{- printf "%s:%s" $image.repository (default .Chart.AppVersion $image.tag) }}
{{- end }}
{{- end }}

{{- define "pilotage.priorityClassName" -}}
{{- if .Values.priorityClassName }}
{{- .Values.priorityClassName }}
{{- else if .Values.priorityClass.create }}
{{- include "pilotage.fullname" . }}
{{- end }}
{{- end }}

{{/* The values of a part. "scheduler" holds what both schedulers have in common, as in Admiralty's chart. */}}
{{- define "pilotage.valuesOf" -}}
{{- $values := .root.Values }}
{{- if eq .part "webhook" }}
{{- toYaml $values.webhook }}
{{- else if eq .part "controllers" }}
{{- toYaml $values.controllerManager }}
{{- else if eq .part "proxy-scheduler" }}
{{- toYaml (mergeOverwrite (deepCopy $values.scheduler) $values.proxyScheduler) }}
{{- else if eq .part "candidate-scheduler" }}
{{- toYaml (mergeOverwrite (deepCopy $values.scheduler) $values.candidateScheduler) }}
{{- else }}
{{- toYaml (mergeOverwrite (deepCopy $values.scheduler) $values.gardenerScheduler) }}
{{- end }}
{{- end }}

{{/* Where health and metrics are. Gardener's configuration file says it for its scheduler. */}}
{{- define "pilotage.healthPort" -}}
{{- if eq .part "gardener-scheduler" }}
{{- dig "server" "healthProbes" "port" 10251 .root.Values.gardenerScheduler.config | int }}
{{- else }}8080{{ end }}
{{- end }}

{{- define "pilotage.metricsPort" -}}
{{- if eq .part "gardener-scheduler" }}
{{- dig "server" "metrics" "port" 19251 .root.Values.gardenerScheduler.config | int }}
{{- else }}8080{{ end }}
{{- end }}

{{/* Makes an object one of the uninstallation, in the order of these weights, which goes when it is over. */}}
{{- define "pilotage.postDelete" -}}
helm.sh/hook: post-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* What a values file of Admiralty says and Pilotage can't do. */}}
{{- define "pilotage.check" -}}
{{- range $key := list "controllerManager" "scheduler" "restarter" "postDeleteJob" }}
{{- $image := dig "image" dict (index $.Values $key | default dict) }}
{{- if or $image.repository $image.tag }}
{{- fail (printf "%s.image: Pilotage has one image for all parts: set image.repository and image.tag instead" $key) }}
{{- end }}
{{- end }}
{{- end }}
