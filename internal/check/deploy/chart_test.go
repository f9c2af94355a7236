package deploy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const chartDir = root + "/deploy/helm/binnacle"

// scenarios are values that show every branch of the templates, by name. `make deploy-check` gives them to Helm.
var scenarios = func() map[string]string {
	files, err := filepath.Glob(root + "/deploy/check/scenarios/*.yaml")
	if err != nil || len(files) == 0 {
		panic(fmt.Sprint("no scenarios: ", err))
	}
	out := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			panic(err)
		}
		out[strings.TrimSuffix(filepath.Base(file), ".yaml")] = string(text)
	}
	return out
}()

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
	c, err := ReadChart(chartDir)
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
				"StatefulSet/binnacle-ingest", "Deployment/binnacle-query", "Deployment/binnacle-rollups",
				"Deployment/binnacle-provision",
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

// config is the settings that a role gets.
func config(t *testing.T, all map[string]map[string]any, role string) map[string]any {
	t.Helper()
	text := object(t, all["ConfigMap/binnacle-"+role], "data", "binnacle.yaml").(string)
	var file map[string]map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(text), &file))
	return file[role]
}

// The rollup role gets only the account, neither Kafka's password nor the secret of heads, waits as long as ingesters
// hold, may be several, and is watched and kept like the others.
func TestChartRollups(t *testing.T) {
	all := render(t, `
cosmos: {keySecret: {name: account}}
kafka: {passwordSecret: {name: kafka}, settings: {kafka-tls: true}}
ingest: {settings: {hold: 30m}}
rollups: {replicas: 2}`)
	rollups := config(t, all, "rollups")
	require.Equal(t, "30m", rollups["rollup-hold"])
	require.Equal(t, "/etc/binnacle/cosmos/keys", rollups["key-file"])
	for _, of := range []string{"kafka", "kafka-tls", "kafka-password-file", "heads-secret-file", "hold"} {
		require.NotContains(t, rollups, of)
	}
	work := all["Deployment/binnacle-rollups"]
	require.Equal(t, 2, object(t, work, "spec", "replicas"))
	var mounted []any
	for _, v := range object(t, work, "spec", "template", "spec", "volumes").([]any) {
		mounted = append(mounted, object(t, v, "name"))
	}
	require.Equal(t, []any{"config", "cosmos"}, mounted)
	require.Contains(t, all, "PodDisruptionBudget/binnacle-rollups")
	doors := object(t, all["NetworkPolicy/binnacle-rollups"], "spec", "ingress").([]any)
	require.Len(t, doors, 1)
	require.Equal(t, "admin", object(t, object(t, doors[0], "ports").([]any)[0], "port"))

	require.NotContains(t, config(t, render(t, ""), "rollups"), "rollup-hold", "both have their defaults")
	own := render(t, `{ingest: {settings: {hold: 30m}}, rollups: {settings: {rollup-hold: 1h}}}`)
	require.Equal(t, "1h", config(t, own, "rollups")["rollup-hold"])
}

// Ingesters know how many they are, unless they are a group; provision looks after the journal in the cluster that they
// read.
func TestChartAssigns(t *testing.T) {
	of := render(t, `{ingest: {replicas: 3}, kafka: {settings: {kafka: ["k:9093"], kafka-tls: true}}}`)
	require.Equal(t, "auto/3", config(t, of, "ingest")["assign"])
	require.NotContains(t, config(t, of, "query"), "assign")
	require.Equal(t, "telemetry", config(t, of, "provision")["journal-of"])
	require.Equal(t, []any{"k:9093"}, config(t, of, "provision")["kafka"])
	require.NotContains(t, config(t, of, "provision"), "heads-secret-file")
	require.NotContains(t, config(t, render(t, `ingest: {assign: false}`), "ingest"), "assign")
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
func TestChartRefusesAutoscaler(t *testing.T) {
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
