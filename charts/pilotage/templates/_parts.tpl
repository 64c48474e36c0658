{{/* The objects that every part has. */}}

{{- define "pilotage.serviceAccount" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "pilotage.partName" . }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "pilotage.labels" . | nindent 4 }}
automountServiceAccountToken: false
{{- end }}

{{- define "pilotage.deployment" -}}
{{- include "pilotage.check" .root }}
{{- $root := .root }}
{{- $v := include "pilotage.valuesOf" . | fromYaml }}
{{- $name := include "pilotage.partName" . }}
{{- $has := dict "config" (and (has .part (list "proxy-scheduler" "gardener-scheduler")) $v.config) "tls" (and (eq .part "webhook") $root.Values.certManager.enabled) "garden" (and (eq .part "gardener-scheduler") $v.kubeconfigSecretName) "kubelet" (and (eq .part "controllers") (dig "kubelet" "enabled" false $v)) }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels: {{- include "pilotage.labels" . | nindent 4 }}
spec:
  replicas: {{ $v.replicas }}
  selector:
    matchLabels: {{- include "pilotage.selector" . | nindent 6 }}
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxUnavailable: 0
      maxSurge: 1
  template:
    metadata:
      labels:
        {{- include "pilotage.labels" . | nindent 8 }}
        {{- with $v.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- if or $has.config $v.podAnnotations }}
      annotations:
        {{- if $has.config }}
        checksum/config: {{ toYaml $v.config | sha256sum }}
        {{- end }}
        {{- with $v.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
    spec:
      serviceAccountName: {{ $name }}
      automountServiceAccountToken: true
      {{- with include "pilotage.priorityClassName" $root }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $root.Values.imagePullSecretName }}
      imagePullSecrets:
      - name: {{ . }}
      {{- end }}
      # Work drains for up to 25 s, and the Lease is given back.
      terminationGracePeriodSeconds: 40
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        fsGroup: 65532
        seccompProfile:
          type: RuntimeDefault
      containers:
      - name: {{ .part }}
        image: {{ include "pilotage.image" $root | quote }}
        imagePullPolicy: {{ $root.Values.image.pullPolicy }}
        args: {{- include "pilotage.args" . | nindent 8 }}
        {{- if $has.kubelet }}
        env:
        - name: POD_IP
          valueFrom:
            fieldRef:
              fieldPath: status.podIP
        {{- end }}
        ports:
        - name: health
          containerPort: {{ include "pilotage.healthPort" . }}
          protocol: TCP
        {{- if ne (include "pilotage.metricsPort" .) (include "pilotage.healthPort" .) }}
        - name: metrics
          containerPort: {{ include "pilotage.metricsPort" . }}
          protocol: TCP
        {{- end }}
        {{- if eq .part "webhook" }}
        - name: https
          containerPort: 9443
          protocol: TCP
        {{- end }}
        {{- if $has.kubelet }}
        - name: kubelet
          containerPort: 10250
          protocol: TCP
        {{- end }}
        livenessProbe:
          httpGet:
            path: /livez
            port: health
          periodSeconds: 10
          timeoutSeconds: 5
          failureThreshold: 6
        readinessProbe:
          httpGet:
            path: /readyz
            port: health
          periodSeconds: 5
          timeoutSeconds: 5
          failureThreshold: 2
        resources: {{- toYaml $v.resources | nindent 10 }}
        securityContext:
          {{- $default := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "runAsNonRoot" true "capabilities" (dict "drop" (list "ALL")) }}
          {{- toYaml (mergeOverwrite $default ($v.securityContext | default dict)) | nindent 10 }}
        {{- if or $has.config $has.tls $has.garden }}
        volumeMounts:
        {{- if $has.config }}
        - name: config
          mountPath: /etc/pilotage/config
          readOnly: true
        {{- end }}
        {{- if $has.tls }}
        - name: tls
          mountPath: /etc/pilotage/tls
          readOnly: true
        {{- end }}
        {{- if $has.garden }}
        - name: garden
          mountPath: /etc/pilotage/garden
          readOnly: true
        {{- end }}
        {{- end }}
      {{- if or $has.config $has.tls $has.garden }}
      volumes:
      {{- if $has.config }}
      - name: config
        configMap:
          name: {{ $name }}
      {{- end }}
      {{- if $has.tls }}
      - name: tls
        secret:
          secretName: {{ $name }}-cert
      {{- end }}
      {{- if $has.garden }}
      - name: garden
        secret:
          secretName: {{ $v.kubeconfigSecretName }}
      {{- end }}
      {{- end }}
      {{- with $v.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $v.tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
      affinity:
        {{- if $v.affinity }}
        {{- toYaml $v.affinity | nindent 8 }}
        {{- else }}
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
          - weight: 100
            podAffinityTerm:
              topologyKey: kubernetes.io/hostname
              labelSelector:
                matchLabels: {{- include "pilotage.selector" . | nindent 18 }}
        {{- end }}
{{- end }}

{{- define "pilotage.podDisruptionBudget" -}}
{{- $v := include "pilotage.valuesOf" . | fromYaml }}
{{- if gt (int $v.replicas) 1 }}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "pilotage.partName" . }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "pilotage.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {{- include "pilotage.selector" . | nindent 6 }}
{{- end }}
{{- end }}

{{- define "pilotage.networkPolicy" -}}
{{- $policies := .root.Values.networkPolicies }}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "pilotage.partName" . }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "pilotage.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels: {{- include "pilotage.selector" . | nindent 6 }}
  policyTypes:
  - Ingress
  {{- if $policies.egress }}
  - Egress
  {{- end }}
  ingress:
  # Health and metrics.
  - ports:
    - port: {{ include "pilotage.healthPort" . }}
      protocol: TCP
    {{- if ne (include "pilotage.metricsPort" .) (include "pilotage.healthPort" .) }}
    - port: {{ include "pilotage.metricsPort" . }}
      protocol: TCP
    {{- end }}
    {{- with $policies.metricsFrom }}
    from: {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- if eq .part "webhook" }}
  # The API server, whose address isn't known here.
  - ports:
    - port: 9443
      protocol: TCP
    {{- with $policies.apiServerFrom }}
    from: {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
  {{- if and (eq .part "controllers") .root.Values.controllerManager.kubelet.enabled }}
  # The API server, and metrics-server.
  - ports:
    - port: 10250
      protocol: TCP
    {{- with $policies.apiServerFrom }}
    from: {{- toYaml (concat . ($policies.metricsFrom | default list)) | nindent 4 }}
    {{- end }}
  {{- end }}
  {{- with $policies.egress }}
  egress: {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* Only for ServiceMonitors, which find Services. */}}
{{- define "pilotage.metricsService" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "pilotage.partName" . }}-metrics
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "pilotage.labels" . | nindent 4 }}
spec:
  clusterIP: None
  selector: {{- include "pilotage.selector" . | nindent 4 }}
  ports:
  - name: metrics
    port: {{ include "pilotage.metricsPort" . }}
    targetPort: {{ include "pilotage.metricsPort" . }}
    protocol: TCP
{{- end }}
