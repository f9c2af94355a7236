package deploytest_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"binnacle/internal/deploytest"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const chartDir = root + "/deploy/helm/binnacle"

// scenarios are values that show every branch of the templates.
var scenarios = map[string]string{
	"as it is": ``,
	"keys and passwords": `
cosmos: {keySecret: {name: account}}
kafka: {passwordSecret: {name: kafka}, settings: {kafka-sasl: PLAIN, kafka-user: u, kafka-tls: true}}
query: {tlsSecret: api}
imagePullSecrets: [{name: registry}]`,
	"identities": `
workloadIdentity: true
cosmos: {settings: {identity: workload}}
provision: {settings: {azure-subscription: s, azure-resource-group: g, azure-account: a}}
ingest: {serviceAccount: {annotations: {azure.workload.identity/client-id: "1"}}, settings: {register: true}}`,
	"watched": `
serviceMonitor: {enabled: true, labels: {release: prometheus}}
prometheusRule: {enabled: true, runbooks: "https://wiki.example/"}
networkPolicy: {adminFrom: [{namespaceSelector: {}}], apiFrom: [{podSelector: {}}]}
ingest: {nodeSelector: {a: b}, tolerations: [{operator: Exists}], affinity: {nodeAffinity: {}}}
query: {service: {annotations: {a: b}}}`,
}

// object is a path into what YAML has become.
func object(t *testing.T, m any, path ...string) any {
	t.Helper()
	for _, name := range path {
		in, ok := m.(map[string]any)
		require.True(t, ok, "%s in %v", name, m)
		m = in[name]
	}
	return m
}

// render renders a scenario, by kind and name.
func render(t *testing.T, changes string) map[string]map[string]any {
	t.Helper()
	c, err := deploytest.ReadChart(chartDir)
	require.NoError(t, err)
	manifests, err := c.Render("binnacle", changes)
	require.NoError(t, err)
	out := map[string]map[string]any{}
	for _, m := range manifests {
		name := object(t, m, "kind").(string) + "/" + object(t, m, "metadata", "name").(string)
		require.NotContains(t, out, name)
		require.NotEmpty(t, m["apiVersion"], name)
		out[name] = m
	}
	return out
}

// Every pod runs as nobody on a file system that it can't write, is watched, and mounts just the volumes it has.
func TestChartPods(t *testing.T) {
	for name, changes := range scenarios {
		t.Run(name, func(t *testing.T) {
			all := render(t, changes)
			for _, workload := range []string{
				"StatefulSet/binnacle-ingest", "Deployment/binnacle-query", "Deployment/binnacle-provision",
			} {
				require.Contains(t, all, workload)
				pod := object(t, all[workload], "spec", "template", "spec")
				require.Equal(t, true, object(t, pod, "securityContext", "runAsNonRoot"))
				require.Equal(t, false, object(t, pod, "enableServiceLinks"), "BINNACLE_... are settings")
				container := object(t, pod, "containers").([]any)[0]
				require.Equal(t, true, object(t, container, "securityContext", "readOnlyRootFilesystem"))
				require.Equal(t, "/healthz", object(t, container, "livenessProbe", "httpGet", "path"))
				require.Equal(t, "/readyz", object(t, container, "readinessProbe", "httpGet", "path"))
				require.NotNil(t, object(t, container, "resources", "limits", "memory"))
				volumes, mounts := map[any]bool{}, map[any]bool{}
				for _, v := range object(t, pod, "volumes").([]any) {
					volumes[object(t, v, "name")] = true
				}
				for _, m := range object(t, container, "volumeMounts").([]any) {
					mounts[object(t, m, "name")] = true
				}
				require.Equal(t, volumes, mounts)
				labels := object(t, all[workload], "spec", "template", "metadata", "labels").(map[string]any)
				for k, v := range object(t, all[workload], "spec", "selector", "matchLabels").(map[string]any) {
					require.Equal(t, v, labels[k])
				}
			}
			require.Equal(t, "Recreate", object(t, all["Deployment/binnacle-provision"], "spec", "strategy", "type"))
			require.Equal(t, 1, object(t, all["Deployment/binnacle-provision"], "spec", "replicas"))
		})
	}
}

// Only queriers reach the heads, by a name that has the addresses of those that are not ready, too.
func TestChartHeads(t *testing.T) {
	all := render(t, "")
	heads := object(t, all["Service/binnacle-heads"], "spec")
	require.Equal(t, "None", object(t, heads, "clusterIP"))
	require.Equal(t, true, object(t, heads, "publishNotReadyAddresses"))
	doors := 0
	for _, rule := range object(t, all["NetworkPolicy/binnacle-ingest"], "spec", "ingress").([]any) {
		if object(t, object(t, rule, "ports").([]any)[0], "port") != "heads" {
			continue
		}
		doors++
		from := object(t, rule, "from").([]any)
		require.Len(t, from, 1)
		require.Equal(t, "query", object(t, from[0], "podSelector", "matchLabels", "app.kubernetes.io/component"))
	}
	require.Equal(t, 1, doors)
}

// Nothing scales by itself: the group's committed lag is always about the hold.
func TestChartHasNoAutoscaler(t *testing.T) {
	for _, changes := range scenarios {
		for name := range render(t, changes) {
			require.NotRegexp(t, `^(HorizontalPodAutoscaler|ScaledObject)/`, name)
		}
	}
}

// The chart's alerts are those of deploy/alerts, where the pages are served that the values say.
func TestChartAlerts(t *testing.T) {
	ours, err := os.ReadFile(filepath.Join(root, "deploy/alerts/binnacle.rules.yaml"))
	require.NoError(t, err)
	theirs, err := os.ReadFile(filepath.Join(chartDir, "files/binnacle.rules.yaml"))
	require.NoError(t, err)
	require.Equal(t, string(ours), string(theirs), "copy deploy/alerts/binnacle.rules.yaml into the chart's files")
	all := render(t, scenarios["watched"])
	var rules ruleFile
	text, err := yaml.Marshal(all["PrometheusRule/binnacle"]["spec"])
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &rules))
	first := rules.Groups[0].Rules[0]
	require.Equal(t, "https://wiki.example/"+first.Alert+".md", first.Annotations["runbook_url"])
	require.Contains(t, all, "ServiceMonitor/binnacle")
	require.NotContains(t, render(t, ""), "PrometheusRule/binnacle")
}

// A value that the schema does not know is refused, and it knows all that there are.
func TestChartSchemaKnowsTheValues(t *testing.T) {
	type schema struct {
		AdditionalProperties bool
		Properties           map[string]json.RawMessage
	}
	text, err := os.ReadFile(filepath.Join(chartDir, "values.schema.json"))
	require.NoError(t, err)
	values, err := os.ReadFile(filepath.Join(chartDir, "values.yaml"))
	require.NoError(t, err)
	var v map[string]any
	require.NoError(t, yaml.Unmarshal(values, &v))
	var s schema
	require.NoError(t, json.Unmarshal(text, &s))
	require.False(t, s.AdditionalProperties)
	for name, value := range v {
		require.Contains(t, s.Properties, name)
		inner, ok := value.(map[string]any)
		if !ok {
			continue
		}
		var below schema
		require.NoError(t, json.Unmarshal(s.Properties[name], &below))
		require.False(t, below.AdditionalProperties, name)
		for field := range inner {
			require.Contains(t, below.Properties, field, name)
		}
	}
}
