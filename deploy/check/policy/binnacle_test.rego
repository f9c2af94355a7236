package main

import rego.v1

good_container := {
	"name": "ingest", "image": "binnacle:1.2.3",
	"securityContext": {
		"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
		"capabilities": {"drop": ["ALL"]},
	},
	"resources": {"limits": {"memory": "1Gi"}},
	"livenessProbe": {"httpGet": {}}, "readinessProbe": {"httpGet": {}},
}

workload(container, changes) := {
	"kind": "Deployment", "metadata": {"name": "binnacle-query"},
	"spec": {"replicas": 2, "template": {"spec": object.union(
		{
			"securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
			"automountServiceAccountToken": false, "containers": [container],
		},
		changes,
	)}},
}

test_a_good_pod if count(deny) == 0 with input as workload(good_container, {})

refused(container, changes, why) if {
	found := deny with input as workload(container, changes)
	some msg in found
	contains(msg, why)
	count(found) == 1
}

without(path) := json.remove(good_container, [path])

test_root if refused(good_container, {"securityContext": {"runAsNonRoot": false}}, "root")

test_seccomp if refused(good_container, {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, "seccomp")

test_token if refused(good_container, {"automountServiceAccountToken": true}, "token")

test_host if refused(good_container, {"hostNetwork": true}, "hostNetwork")

test_privileges if refused(without("securityContext/allowPrivilegeEscalation"), {}, "privileges")

test_read_only if refused(without("securityContext/readOnlyRootFilesystem"), {}, "write its image")

test_capabilities if refused(without("securityContext/capabilities"), {}, "capabilities")

test_memory if refused(without("resources/limits/memory"), {}, "memory")

test_probe if refused(without("livenessProbe"), {}, "livenessProbe")

test_init_containers if refused(
	good_container,
	{"initContainers": [object.union(without("resources"), {"name": "first"})]},
	"first has no bound of memory",
)

test_latest if refused(object.union(good_container, {"image": "binnacle:latest"}), {}, "version")

test_no_tag if refused(object.union(good_container, {"image": "host:5000/binnacle"}), {}, "version")

test_secret_in_environment if refused(
	object.union(good_container, {"env": [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s"}}}]}), {},
	"environment",
)

test_secret if count(deny) == 1 with input as {"kind": "Secret", "metadata": {"name": "s"}}

provisioner(replicas, strategy) := json.patch(workload(good_container, {}), [
	{"op": "replace", "path": "/metadata/name", "value": "binnacle-provision"},
	{"op": "replace", "path": "/spec/replicas", "value": replicas},
	{"op": "add", "path": "/spec/strategy", "value": {"type": strategy}},
])

test_provision_alone if count(deny) == 0 with input as provisioner(1, "Recreate")

test_provision_twice if count(deny) == 1 with input as provisioner(2, "Recreate")

test_provision_rolling if count(deny) == 1 with input as provisioner(1, "RollingUpdate")

scaler(type) := {
	"kind": "ScaledObject", "metadata": {"name": "ingest"},
	"spec": {"triggers": [{"type": type, "metadata": {"lagThreshold": "50"}}]},
}

test_committed_lag if count(deny) == 1 with input as scaler("kafka")

test_position_lag if count(deny) == 0 with input as scaler("prometheus")

test_lag_of_an_adapter if {
	count(deny) == 1 with input as {
		"kind": "HorizontalPodAutoscaler", "metadata": {"name": "ingest"},
		"spec": {"metrics": [{"external": {"metric": {"name": "kafka_consumergroup_lag"}}}]},
	}
}

heads(peers) := {
	"kind": "NetworkPolicy", "metadata": {"name": "binnacle-ingest"},
	"spec": {"ingress": [{"ports": [{"port": "heads"}], "from": peers}]},
}

test_heads_for_queriers if count(deny) == 0 with input as heads([{"podSelector": {"matchLabels": {"app.kubernetes.io/component": "query"}}}])

test_heads_for_all if count(deny) == 1 with input as heads([])

test_heads_for_more if {
	count(deny) == 1 with input as heads([
		{"podSelector": {"matchLabels": {"app.kubernetes.io/component": "query"}}},
		{"namespaceSelector": {}},
	])
}

opened(role) := json.patch(
	workload(good_container, {"volumes": [{"name": "heads"}]}),
	[{"op": "replace", "path": "/metadata/name", "value": sprintf("binnacle-%s", [role])}],
)

test_the_secret_of_heads_for_queriers if count(deny) == 0 with input as opened("query")

test_the_secret_of_heads_for_others if count(deny) == 1 with input as opened("rollups")
