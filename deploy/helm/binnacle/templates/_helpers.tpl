{{- define "binnacle.fullname" -}}
{{- if eq .Release.Name .Chart.Name }}{{ .Chart.Name }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "binnacle.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "binnacle.labels" -}}
{{ include "binnacle.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* The file for --config of a role: what the chart sets, then what values say, which counts more. */}}
{{- define "binnacle.config" -}}
{{- $set := dict "admin" "0.0.0.0:7071" }}
{{- if .top.Values.admin.tokenSecret.name }}{{ $_ := set $set "admin-token-file" "/etc/binnacle/admin/token" }}{{ end }}
{{- if .top.Values.cosmos.keySecret.name }}{{ $_ := set $set "key-file" "/etc/binnacle/cosmos/keys" }}{{ end }}
{{- if ne .role "rollups" }}
{{- if .top.Values.kafka.passwordSecret.name }}{{ $_ := set $set "kafka-password-file" "/etc/binnacle/kafka/password" }}{{ end }}
{{- $set = mergeOverwrite $set .top.Values.kafka.settings }}
{{- end }}
{{- if eq .role "ingest" "query" }}{{ $_ := set $set "heads-secret-file" "/etc/binnacle/heads/secret" }}{{ end }}
{{- if eq .role "ingest" }}
{{- $_ := set $set "heads-listen" "0.0.0.0:7072" }}
{{- if .top.Values.ingest.assign }}{{ $_ := set $set "assign" (printf "auto/%v" .top.Values.ingest.replicas) }}{{ end }}
{{- end }}
{{- if eq .role "query" }}
{{- $_ := set $set "api" "0.0.0.0:7070" }}
{{- $_ := set $set "queriers" .top.Values.query.replicas }}
{{- $_ := set $set "heads" (list (printf "%s-heads.%s.svc:7072" (include "binnacle.fullname" .top) .top.Release.Namespace)) }}
{{- if index .top.Values.query.settings "trusted-proxies" }}
{{- $query := printf "%s-query" (include "binnacle.fullname" .top) }}
{{- $full := printf "%s.%s.svc" $query .top.Release.Namespace }}
{{- $_ := set $set "trusted-hosts" (list $query $full (printf "%s.cluster.local" $full)) }}
{{- end }}
{{- if .top.Values.query.tlsSecret }}
{{- $_ := set $set "api-tls-cert" "/etc/binnacle/tls/tls.crt" }}
{{- $_ := set $set "api-tls-key" "/etc/binnacle/tls/tls.key" }}
{{- end }}
{{- end }}
{{- if eq .role "rollups" }}
{{- with index .top.Values.ingest.settings "hold" }}{{ $_ := set $set "rollup-hold" . }}{{ end }}
{{- end }}
{{- $set = mergeOverwrite $set .top.Values.cosmos.settings (index .top.Values .role).settings }}
{{- toYaml (dict .role $set) }}
{{- end }}

{{/* What the pods of all roles have in common. */}}
{{- define "binnacle.pod" -}}
{{- $of := index .top.Values .role }}
metadata:
  labels:
    {{- include "binnacle.labels" .top | nindent 4 }}
    app.kubernetes.io/component: {{ .role }}
    {{- if .top.Values.workloadIdentity }}
    azure.workload.identity/use: "true"
    {{- end }}
  annotations:
    # A change of the settings is a change of the pods.
    checksum/config: {{ include "binnacle.config" . | sha256sum }}
spec:
  serviceAccountName: {{ include "binnacle.fullname" .top }}-{{ .role }}
  automountServiceAccountToken: false
  # A service of this name would be BINNACLE_... in the environment, and these are settings.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ $of.terminationGracePeriodSeconds }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    seccompProfile: {type: RuntimeDefault}
  {{- with .top.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $of.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $of.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $of.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if ne .role "provision" }}
  topologySpreadConstraints:
    {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "binnacle.selector" $.top | nindent 10 }}
          app.kubernetes.io/component: {{ $.role }}
    {{- end }}
  {{- end }}
  containers:
    - name: {{ .role }}
      image: "{{ .top.Values.image.repository }}:{{ .top.Values.image.tag | default .top.Chart.AppVersion }}"
      imagePullPolicy: {{ .top.Values.image.pullPolicy }}
      args: [{{ .role }}, --config=/etc/binnacle/config/binnacle.yaml]
      {{- with $of.env }}
      env:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      ports:
        - {name: admin, containerPort: 7071}
        {{- if eq .role "ingest" }}
        - {name: heads, containerPort: 7072}
        {{- end }}
        {{- if eq .role "query" }}
        - {name: api, containerPort: 7070}
        {{- end }}
      livenessProbe:
        httpGet: {path: /healthz, port: admin}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: admin}
        periodSeconds: 5
        timeoutSeconds: 5
      resources:
        {{- toYaml $of.resources | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/binnacle/config, readOnly: true}
        {{- if .top.Values.admin.tokenSecret.name }}
        - {name: admin, mountPath: /etc/binnacle/admin, readOnly: true}
        {{- end }}
        {{- if .top.Values.cosmos.keySecret.name }}
        - {name: cosmos, mountPath: /etc/binnacle/cosmos, readOnly: true}
        {{- end }}
        {{- if and (ne .role "rollups") .top.Values.kafka.passwordSecret.name }}
        - {name: kafka, mountPath: /etc/binnacle/kafka, readOnly: true}
        {{- end }}
        {{- if eq .role "ingest" "query" }}
        - {name: heads, mountPath: /etc/binnacle/heads, readOnly: true}
        {{- end }}
        {{- if and (eq .role "query") .top.Values.query.tlsSecret }}
        - {name: tls, mountPath: /etc/binnacle/tls, readOnly: true}
        {{- end }}
  # Folders, not single files: those are exchanged when a secret changes.
  volumes:
    - name: config
      configMap: {name: {{ include "binnacle.fullname" .top }}-{{ .role }}}
    {{- with .top.Values.admin.tokenSecret }}
    {{- if .name }}
    - name: admin
      secret:
        secretName: {{ .name }}
        defaultMode: 0440
        items: [{key: {{ .key }}, path: token}]
    {{- end }}
    {{- end }}
    {{- with .top.Values.cosmos.keySecret }}
    {{- if .name }}
    - name: cosmos
      secret:
        secretName: {{ .name }}
        defaultMode: 0440
        items: [{key: {{ .key }}, path: keys}]
    {{- end }}
    {{- end }}
    {{- if eq .role "ingest" "query" }}
    - name: heads
      secret:
        secretName: {{ required "heads.secret.name: the secret that queriers show to ingesters" .top.Values.heads.secret.name }}
        defaultMode: 0440
        items: [{key: {{ .top.Values.heads.secret.key }}, path: secret}]
    {{- end }}
    {{- with .top.Values.kafka.passwordSecret }}
    {{- if and (ne $.role "rollups") .name }}
    - name: kafka
      secret:
        secretName: {{ .name }}
        defaultMode: 0440
        items: [{key: {{ .key }}, path: password}]
    {{- end }}
    {{- end }}
    {{- if and (eq .role "query") .top.Values.query.tlsSecret }}
    - name: tls
      secret: {secretName: {{ .top.Values.query.tlsSecret }}, defaultMode: 0440}
    {{- end }}
{{- end }}
