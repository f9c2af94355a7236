# What the manifests of the chart may not be, for `conftest test`. binnacle_test.rego shows for each rule a manifest that breaks it.
package main

import rego.v1

workloads := {"StatefulSet", "Deployment", "DaemonSet", "Job"}

name := sprintf("%s %s", [input.kind, input.metadata.name])

pod := input.spec.template.spec if input.kind in workloads

containers := array.concat(pod.containers, object.get(pod, "initContainers", []))

# The group's committed lag is always about the hold, so whatever scales by it runs at the maximum for ever.
deny contains msg if {
	input.kind == "ScaledObject"
	some trigger in input.spec.triggers
	trigger.type == "kafka"
	msg := sprintf("%s scales by committed lag: scale by binnacle_ingest_lag_records", [name])
}

deny contains msg if {
	input.kind == "HorizontalPodAutoscaler"
	some metric in object.get(input.spec, "metrics", [])
	contains(object.get(metric, ["external", "metric", "name"], ""), "kafka")
	msg := sprintf("%s scales by a metric of Kafka: scale by binnacle_ingest_lag_records", [name])
}

deny contains msg if {
	not object.get(pod, ["securityContext", "runAsNonRoot"], false)
	msg := sprintf("%s may run as root", [name])
}

deny contains msg if {
	object.get(pod, ["securityContext", "seccompProfile", "type"], "") != "RuntimeDefault"
	msg := sprintf("%s has no seccomp profile", [name])
}

deny contains msg if {
	object.get(pod, "automountServiceAccountToken", true)
	msg := sprintf("%s gets a token of the cluster that it doesn't need", [name])
}

deny contains msg if {
	some field in ["hostNetwork", "hostPID", "hostIPC"]
	object.get(pod, field, false)
	msg := sprintf("%s has %s", [name, field])
}

deny contains msg if {
	some c in containers
	object.get(c, ["securityContext", "allowPrivilegeEscalation"], true)
	msg := sprintf("%s: %s may gain privileges", [name, c.name])
}

deny contains msg if {
	some c in containers
	not object.get(c, ["securityContext", "readOnlyRootFilesystem"], false)
	msg := sprintf("%s: %s can write its image", [name, c.name])
}

deny contains msg if {
	some c in containers
	not "ALL" in object.get(c, ["securityContext", "capabilities", "drop"], [])
	msg := sprintf("%s: %s keeps capabilities", [name, c.name])
}

# A pod without a bound of memory takes its neighbours with it; ingest plans by the one it has.
deny contains msg if {
	some c in containers
	not object.get(c, ["resources", "limits", "memory"], false)
	msg := sprintf("%s: %s has no bound of memory", [name, c.name])
}

deny contains msg if {
	some c in containers
	some probe in ["livenessProbe", "readinessProbe"]
	not object.get(c, probe, false)
	msg := sprintf("%s: %s has no %s", [name, c.name, probe])
}

deny contains msg if {
	some c in containers
	tag := regex.find_n(`:[^:/]+$`, c.image, 1)
	tag in [[], [":latest"]]
	msg := sprintf("%s: the image %s names no version", [name, c.image])
}

# Secrets come as files that are followed when they change, never in the environment.
deny contains msg if {
	some c in containers
	some e in object.get(c, "env", [])
	object.get(e, ["valueFrom", "secretKeyRef"], false)
	msg := sprintf("%s: %s has the secret %s in its environment", [name, c.name, e.name])
}

deny contains msg if {
	input.kind == "Secret"
	msg := sprintf("%s: the chart makes no secrets", [name])
}

# Two provisioners at a time spend twice.
deny contains msg if {
	input.kind == "Deployment"
	endswith(input.metadata.name, "-provision")
	not one_at_a_time
	msg := sprintf("%s may run twice", [name])
}

one_at_a_time if {
	input.spec.replicas == 1
	input.spec.strategy.type == "Recreate"
}

# Heads are all tenants' newest readings: they are for queriers.
deny contains msg if {
	input.kind == "NetworkPolicy"
	some rule in input.spec.ingress
	some port in rule.ports
	port.port == "heads"
	not only_queriers(rule)
	msg := sprintf("%s opens heads to others than queriers", [name])
}

only_queriers(rule) if {
	count(rule.from) == 1
	rule.from[0].podSelector.matchLabels["app.kubernetes.io/component"] == "query"
}

# So is the secret that opens them.
deny contains msg if {
	some volume in object.get(pod, "volumes", [])
	volume.name == "heads"
	not holds_or_asks
	msg := sprintf("%s has the secret of the heads", [name])
}

holds_or_asks if {
	some role in ["ingest", "query"]
	endswith(input.metadata.name, sprintf("-%s", [role]))
}
