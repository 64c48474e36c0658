{{/* The command line of a part, as a YAML list. Tests give each of its flags to the real command. */}}
{{- define "pilotage.args" -}}
{{- $v := .root.Values }}
{{- $name := include "pilotage.fullname" .root }}
- {{ .part }}
{{- if ne .part "gardener-scheduler" }}
- --log-format={{ $v.log.format }}
- {{ printf "--log-level=%s" $v.log.level | quote }}
{{- end }}
{{- if eq .part "webhook" }}
- --webhook-service={{ $name }}-webhook
{{- $root := .root }}
{{- range list "controllers" "proxy-scheduler" }}
- --record-writer=system:serviceaccount:{{ $root.Release.Namespace }}:{{ include "pilotage.partName" (dict "root" $root "part" .) }}
{{- end }}
{{- if $v.certManager.enabled }}
- --tls-cert-file=/etc/pilotage/tls/tls.crt
- --tls-key-file=/etc/pilotage/tls/tls.key
- --ca-file=/etc/pilotage/tls/ca.crt
{{- end }}
{{- end }}
{{- if has .part (list "controllers" "proxy-scheduler") }}
{{- with $v.targetNamespaces }}
- --target-namespaces={{ join "," . }}
{{- end }}
{{- with $v.allowTargetsAt }}
- {{ printf "--allow-targets-at=%s" (join "," .) | quote }}
{{- end }}
{{- end }}
{{- if and $v.otlp.endpoint (has .part (list "proxy-scheduler" "candidate-scheduler")) }}
- {{ printf "--otlp-endpoint=%s" $v.otlp.endpoint | quote }}
- --trace-ratio={{ $v.otlp.ratio }}
{{- end }}
{{- if eq .part "controllers" }}
{{- with $v.follow }}
- --follow={{ join "," . }}
{{- end }}
{{- if $v.controllerManager.kubelet.enabled }}
- --kubelet-address=$(POD_IP)
{{- if $v.controllerManager.kubelet.selfSigned }}
- --kubelet-self-signed
{{- end }}
{{- with $v.controllerManager.kubelet.signer }}
- {{ printf "--kubelet-signer=%s" . | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- if eq .part "proxy-scheduler" }}
{{- with $v.clusterName }}
- {{ printf "--cluster-name=%s" . | quote }}
{{- end }}
{{- if $v.proxyScheduler.config }}
- --config=/etc/pilotage/config/config.yaml
{{- end }}
{{- if $v.proxyScheduler.dashboard }}
- --dashboard
{{- end }}
{{- end }}
{{- if eq .part "gardener-scheduler" }}
- --config=/etc/pilotage/config/config.yaml
{{- if $v.gardenerScheduler.kubeconfigSecretName }}
- --kubeconfig=/etc/pilotage/garden/kubeconfig
{{- end }}
{{- with $v.gardenerScheduler.schedulerName }}
- --scheduler-name={{ . }}
{{- end }}
{{- end }}
{{- range (include "pilotage.valuesOf" . | fromYaml).extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}
