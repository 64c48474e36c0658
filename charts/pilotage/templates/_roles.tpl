{{/*
Roles and bindings of a part. Their rules are what `pilotage rbac` prints, one file for each option (files/roles, written
by `make chart`); here they are only put together. In these files the namespace "own" stands for that of the release and
"given" for each of targetNamespaces.
*/}}
{{- define "pilotage.roles" -}}
{{- $root := .root }}
{{- $part := .part }}
{{- $v := $root.Values }}
{{- if not (and (eq $part "gardener-scheduler") $v.gardenerScheduler.kubeconfigSecretName) }}
{{- $fullname := include "pilotage.partName" . }}
{{- $own := $root.Release.Namespace }}
{{- if eq $part "gardener-scheduler" }}
{{- $own = dig "leaderElection" "resourceNamespace" "garden" $v.gardenerScheduler.config }}
{{- end }}
{{- $options := list "always" }}
{{- if eq $part "controllers" }}
{{- range $v.follow }}{{ $options = append $options (printf "follow-%s" .) }}{{ end }}
{{- range $v.rights }}{{ $options = append $options (printf "rights-%s" .) }}{{ end }}
{{- if $v.controllerManager.kubelet.enabled }}{{ $options = append $options "kubelet" }}{{ end }}
{{- end }}
{{- $roles := dict }}
{{- range $options }}
{{- $file := printf "files/roles/%s/%s.yaml" $part . }}
{{- range splitList "\n---\n" (required (printf "%s is missing" $file) ($root.Files.Get $file)) }}
{{- $role := fromYaml . }}
{{- $of := $role.metadata.namespace | default "" }}
{{- $bound := eq $role.metadata.name (printf "pilotage-%s" $part) }}
{{- $name := ternary $fullname $role.metadata.name $bound }}
{{- $places := list $of }}
{{- if eq $of "own" }}
{{- $places = list $own }}
{{- else if eq $of "given" }}
{{- $places = $v.targetNamespaces | default (list "") }}
{{- if $v.targetNamespaces }}{{ $name = printf "%s-secrets" $name }}{{ end }}
{{- end }}
{{- range $places }}
{{- $key := printf "%s/%s" . $name }}
{{- $known := dig $key "rules" list $roles }}
{{- $_ := set $roles $key (dict "namespace" . "name" $name "bound" $bound "rules" (concat $known $role.rules | uniq)) }}
{{- end }}
{{- end }}
{{- end }}
{{- range $roles }}
{{- $kind := ternary "Role" "ClusterRole" (ne .namespace "") }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels: {{- include "pilotage.labels" $ | nindent 4 }}
rules:
{{ toYaml .rules }}
{{- if .bound }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels: {{- include "pilotage.labels" $ | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ .name }}
subjects:
- kind: ServiceAccount
  name: {{ $fullname }}
  namespace: {{ $root.Release.Namespace }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
