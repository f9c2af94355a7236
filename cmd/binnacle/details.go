package main

import (
	"strings"

	"github.com/alecthomas/kong"
)

// addDetails gives each command below a node what stands below its flags.
func addDetails(node *kong.Node, path string) {
	for _, command := range node.Children {
		at := strings.TrimPrefix(path+" "+command.Name, " ")
		command.Detail = details[at]
		addDetails(command, at)
	}
}

// details are what the help of a command has below its flags: what to know before the first call, and examples.
var details = map[string]string{
	"dev": `Examples:
  binnacle dev
  binnacle dev --fleet 0 --data-dir /var/tmp/trial
  binnacle dev --kafka 127.0.0.1:0 --cosmos 127.0.0.1:0 --api 127.0.0.1:0 --admin 127.0.0.1:0`,
	"serve": `For a small production: ingest, queries and provision in one process.

Examples:
  binnacle serve --kafka broker.example:9092 --cosmos https://ACCOUNT.documents.azure.com:443/ --key-file keys
  binnacle serve --check`,
	"ingest": `Reads topics as a member of a consumer group and stores chunks. Any number of processes share the work.

Examples:
  binnacle ingest --kafka broker.example:9092 --cosmos https://ACCOUNT.documents.azure.com:443/ --key-file keys
  binnacle ingest --event-hubs --kafka NAMESPACE.servicebus.windows.net --kafka-password-file connection
  binnacle ingest --check`,
	"query": `Answers queries from stored chunks and from the ingesters' open bins. Any number of processes may run.

Examples:
  binnacle query --heads ingest:7072 --heads-secret-file secret --cosmos https://ACCOUNT.documents.azure.com:443/ --key-file keys
  binnacle query --heads srv+_heads._tcp.ingest.example --config binnacle.yaml
  binnacle query --check`,
	"rollups run": `Makes rollups of chunks: one metric of all devices on a grid of minutes and half hours. Any number of processes share the work.

Examples:
  binnacle rollups --cosmos https://ACCOUNT.documents.azure.com:443/ --key-file keys --rollup-budget 500
  binnacle rollups --rollup-hold 30m
  binnacle rollups run --check`,
	"rollups list": `The command reads the rollups, within --rollup-budget. "read RU" is the charge of that read: a panel over the whole day pays
it if it reads all families. "write RU" is the published price of storing them once.

Examples:
  binnacle rollups list --tenant acme --from 2026-11-20 --to 2026-11-20`,
	"rollups rebuild": `Examples:
  binnacle rollups rebuild --tenant acme --from 2026-10-01 --to 2026-10-31 --rollup-budget 300
  binnacle rollups rebuild --metric velocity --from 2026-10-01
  binnacle rollups rebuild --rollup-first velocity --rollup-metrics 20`,
	"rollups drop": `The role makes rollups of recent days again, unless its setting rollup-without names the tenant.

Examples:
  binnacle rollups drop --tenant acme --from 2026-10-01 --to 2026-10-31 --dry-run
  binnacle rollups drop --tenant acme --from 2026-10-01 --to 2026-10-31 --confirm acme`,
	"provision": `Examples:
  binnacle provision --dry-run
  binnacle provision --once --max-rus 12000
  binnacle provision --cosmos https://ACCOUNT.documents.azure.com:443/ --key-file keys
  binnacle provision --once --journal-of telemetry --kafka broker-1:9092
  binnacle provision --export bicep > deploy/bicep/containers.bicep`,
	"replay": `Examples:
  binnacle replay machine.csv --tenant acme --device m1 --time-column timestamp
  binnacle replay trucks.lp.gz --tenant acme --lp-device-tag name --lp-tags fleet,driver,model
  binnacle replay readings.ndjson --shift-to now --rate 100
  binnacle replay archive-2019.csv.gz --tenant acme --device-column truck --backfill
  binnacle replay --from-dlq --dry-run
  binnacle replay --from-dlq --reason unknown-tenant --since 2d
  binnacle replay --from-dlq --reason tenant --set tenant=acme`,
	"fleet": `Simulated trucks that drive, each with ten metrics. What can't be published is kept for a minute and
published when the broker is back.

Examples:
  binnacle fleet --fleet 1000 --fleet-interval 10s
  binnacle fleet --kafka broker.example:9092 --topic telemetry --fleet-tenants acme`,
	"explain": `It runs the query, and so costs as much as the query.

Examples:
  binnacle explain --tenant acme 'avg by (fleet) (velocity)'
  binnacle explain --tenant acme --range 6h --step 5m 'rate(odometer[5m])'
  binnacle explain --tenant acme '/api/v1/readings?device=truck-0000&from=-1d'`,
	"gaps": `The exit code is 0 unless chunks are missing from the store, or the querier does not answer.

Examples:
  binnacle gaps truck-0000 --tenant acme
  binnacle gaps truck-0000 --tenant acme --from -7d --expect 10s
  binnacle gaps --tenant acme
  binnacle gaps m1 --api https://binnacle.example.com --token-file token --from 2026-11-20T00:00:00Z --json`,
	"tenant list": `--json has every setting of each tenant; "binnacle tenant show" prints those of one.

Examples:
  binnacle tenant list
  binnacle tenant list acme
  binnacle tenant list --json`,
	"tenant show": `Settings have the names and values of the flags of "binnacle tenant set"; default is what the roles are set to.

Examples:
  binnacle tenant show acme
  binnacle tenant show acme --json`,
	"tenant add": `A tenant is registered by its first reading, too. Before it, this allows for settings and tokens.

Examples:
  binnacle tenant add acme
  binnacle tenant add acme --retention 400d`,
	"tenant set": `Limits are numbers, none, or default for the limits of the roles. Settings without a flag keep their values.
"binnacle tenant retention explain" shows what a retention does to a device. A shorter one must be confirmed; it hides nothing for
two hours, in which another one undoes it.

Examples:
  binnacle tenant set acme --lookback 25m
  binnacle tenant set acme --display-name 'Acme Freight' --contact fleet@acme.example --tag region=eu --tag plan=gold
  binnacle tenant set acme --tag plan=
  binnacle tenant set acme --retention 'default=400d,meter-*=10y' --dry-run
  binnacle tenant set acme --retention 'default=400d,meter-*=10y' --confirm acme
  binnacle tenant set acme --query-rate 20 --query-rus 500 --query-rus-day 5e6
  binnacle tenant set acme --query-samples none --query-concurrency default
  binnacle tenant set acme --ingest-values 20000 --ingest-burst 5m --ingest-device-readings 10
  binnacle tenant set acme --ingest-devices 500 --ingest-over refuse --ingest-past 30d
  binnacle tenant set acme --ingest-label-values 1000 --ingest-total-series 200000`,
	"tenant explain": `Examples:
  binnacle tenant explain acme`,
	"tenant retention explain": `Examples:
  binnacle tenant retention explain acme meter-7
  binnacle tenant retention explain acme`,
	"tenant retention confirm": `Devices that come to a class by tag that keeps them for less stay in the one that they had until this command. Two hours
later their older days are hidden for good; until then the former tag undoes that.

Examples:
  binnacle tenant retention confirm acme --dry-run
  binnacle tenant retention confirm acme --class '{site=oslo}' --confirm acme
  binnacle tenant retention confirm acme --device meter-7 --confirm acme`,
	"tenant pin": `Examples:
  binnacle tenant pin acme --keys 20
  binnacle tenant pin acme --keep
  binnacle tenant pin acme --free`,
	"tenant move": `Nothing is copied: readings of earlier days stay where they are, and queries read both. Each container of its own has a
price of its own: "binnacle provision --dry-run" shows it.

Examples:
  binnacle tenant move acme dedicated
  binnacle tenant move acme shared --from 2027-01-01`,
	"tenant copy": `Chunks are created at the target and never changed there, so that the same command goes on where it was interrupted,
and adds what has come since. The tenant's settings and orders of erasure go first. Provision must run at the target: it makes the
containers. Readings that are in no chunk yet are not copied. At the end all that was asked for is compared; if
something differs, the command fails. With --follow it goes on with what the source stores, until Ctrl-C ends it.

Examples:
  binnacle tenant copy acme --to-cosmos https://west.documents.azure.com --to-key-file west.key --dry-run
  binnacle tenant copy acme --to-cosmos https://west.documents.azure.com --to-key-file west.key --rus 2000 --follow
  binnacle tenant copy acme --to-cosmos 127.0.0.1:9081 --device truck-7 --from 2026-01-01 --to 2026-02-01`,
	"tenant export": `It asks the query API, and so has what the tenant's users read: stored readings and those that ingesters hold, each once.
A day is a file; export.json lists the files with their digests. A tenant's token is enough. The command fails where an answer is not
complete; with --resume it goes on.

Examples:
  binnacle tenant export acme --out acme-export
  binnacle tenant export acme --out truck-7 --device truck-7 --from 2026-01-01 --to 2026-02-01
  binnacle tenant export acme --out acme-export --api query.example.com:7070 --token-file acme.token --resume
  for file in acme-export/*.ndjson.gz; do binnacle replay "$file"; done`,
	"tenant suspend": `Queries of the tenant are refused within seconds, with status 403 and the reason. Its readings are stored as before.

Examples:
  binnacle tenant suspend acme --reason 'the contract has ended: mail billing@example.com'
  binnacle tenant resume acme`,
	"tenant resume": `Examples:
  binnacle tenant resume acme`,
	"tenant cost": `Every process counts what it is charged, and stores its counters every minute. usage is throughput that was used; idle
is what nobody used of the containers that a tenant's requests went to; floors are containers that serve all tenants
alike. Prices are list prices; docs/operate/tenants.md has the rules.

Examples:
  binnacle tenant cost
  binnacle tenant cost acme --month 2026-11
  binnacle tenant cost --json
  binnacle tenant cost --format focus > bill.csv`,
	"tenant erase": `It erases what was published before the command, of whole UTC days of event times. Queries leave the readings out
within 5 seconds. The role provision then sweeps the stored chunks, and takes rollups away that
show them. A device of the same name that reports afterwards is
a new one. Kafka keeps what it has until its retention ends, and so do backups. An order can't be taken back.

Examples:
  binnacle tenant erase acme --device truck-7 --dry-run
  binnacle tenant erase acme --device truck-7 --confirm acme
  binnacle tenant erase acme --device truck-7 --from 2026-01-01 --to 2026-02-01 --wait --confirm acme
  binnacle tenant erase acme --confirm acme`,
	"tenant erasures": `States: announced (its positions are not stored yet), hidden (no query answers what it erases), swept (no chunk has
it any more), cleared (no rollup has).

Examples:
  binnacle tenant erasures
  binnacle tenant erasures acme --json`,
	"tenant token add": `The tenant must be registered: by its first reading, or by "binnacle tenant add".

Examples:
  binnacle tenant token add acme --expires 90d
  binnacle tenant token add acme --expires never --note "the gateway in the cellar"
  binnacle tenant token add acme --scopes read,admin --expires 90d --note "Grafana of the fleet team"`,
	"tenant token list": `Examples:
  binnacle tenant token list
  binnacle tenant token list acme --json`,
	"tenant token revoke": `Examples:
  binnacle tenant token revoke 2fgoxn7ur4`,
	"erase certificate": `Examples:
  binnacle erase certificate 20261123T161500Z-0f3a5b7c9d1e --certificate erased.json
  binnacle erase certificate 20261123T161500Z-0f3a5b7c9d1e --certificate erased.json --sign-key operator.pem`,
	"erase restore": `Run it after an account is restored from a backup, before any other process starts: the backup may have what was
erased after it, and lacks the orders. It reads them from the topic that keeps them.

Examples:
  binnacle erase restore --dry-run
  binnacle erase restore`,
	"erase verify": `It reads every place of the account where readings, rollups or catalog entries may be that the certificate's order
erases. The places follow from the tenant's epochs, never from the certificate. The exit code is 1 if something is left.

Examples:
  binnacle erase verify erased.json
  binnacle erase verify erased.json --public-key operator.pub.pem --json`,
	"partitions": `Begins with one line that says what is wrong, if anything is. Request units are those that all processes were charged, as
they wrote them into the container heat: up to five minutes late.

Examples:
  binnacle partitions
  binnacle partitions --since 24h --container rollups-2026-11
  binnacle partitions --watch`,
	"bins": `Open bins hold the readings that are in no chunk yet. Queries read them too. A restart loads them from the journal, or
reads their records again.

Examples:
  binnacle bins
  binnacle bins --admin ingest-0:7071,ingest-1:7071 --tenant acme --devices 20
  binnacle bins --devices 10 --by bytes --json`,
	"limits": `Readings above a tenant's rate limits wait in Kafka; those above its limits of numbers and sizes become dead letters.
This shows which readings wait and which devices exceeded limits, since the ingester got its partitions.
"binnacle tenant set" sets limits.

Examples:
  binnacle limits
  binnacle limits --tenant acme --admin ingest-0:7071,ingest-1:7071`,
	"actions": `Examples:
  binnacle actions
  binnacle actions --since 365d --tenant acme --json`,
	"audit": `The exit code is 0 only without findings. Without --from it audits today.

Examples:
  binnacle audit --from 2026-11-01 --to 2026-11-20
  binnacle audit --from 2026-11-20 --log --max-rus 1000
  binnacle audit --from 2026-11-20 --tenant acme --device truck-0000 --columns --json`,
	"doctor": `Without --measure nothing is changed. The exit code is 0 only if every check passes.

Examples:
  binnacle doctor --cosmos https://ACCOUNT.documents.azure.com:443/ --key-file keys
  binnacle doctor --cosmos https://ACCOUNT.documents.azure.com:443/ --key-file keys --measure --json > account.json
  binnacle loadtest --ru-factors account.json`,
	"chunk": `Examples:
  binnacle chunk document.json --rows 100
  binnacle chunk 20261120.1.00003.000017 --tenant acme --device truck-0000`,
	"plan": `It encodes a sample of the workload, and prices what that comes to in simulated futures. Request units are modelled,
prices are list prices. docs/start/plan.md has the keys of the file. --from-topic measures the workload
instead: it reads the newest records of a topic, without a consumer group. It writes nothing but, with --save, a file to edit.

Examples:
  binnacle plan docs/start/plan-pumps.yaml
  binnacle plan workload.yaml --out plan
  binnacle plan workload.yaml --set retention=90d --set fleets.pumps.devices=1000..5000
  binnacle plan --from-topic telemetry --save workload.yaml`,
	"loadtest": `The same readings go through several layouts, each on an embedded Cosmos DB with several physical partitions: documents per
reading, documents of 100 readings, and Binnacle, before and after its balancer has seen the load. It uses nothing outside
of the process unless --target is given. Request units are modelled, and --ru-factors corrects
them by what an account charges. Those of --target are what the account has charged.

Examples:
  binnacle loadtest
  binnacle loadtest --scenario whale --partitions 20 --html report.html
  binnacle loadtest --scenario all --check
  binnacle loadtest --devices 2000 --interval 30s --minutes 120 --json
  binnacle loadtest --simulate --devices 10000000 --partitions 100 --interval 1m --hold 12h
  binnacle loadtest --target --cosmos https://ACCOUNT.documents.azure.com:443/ --key-file keys --target-rus 12000`,
	"xray": `It reads documents of each physical partition, at most --max-rus in all, and writes nothing. Any container
will do, not only Binnacle's. It says how hot the hottest physical partition is, which keys fill it, and what other
partition keys would do.

Examples:
  binnacle xray --cosmos https://ACCOUNT.documents.azure.com:443/ --key-file keys --database iot --container telemetry
  binnacle xray --cosmos 127.0.0.1:8081 --database iot --container telemetry --device-path /sensor --json`,
	"blogexample": `Microsoft's article "How to model and partition data using a real-world example", in its three
versions, on the embedded Cosmos DB: what each access pattern is charged, beside the article's
figures. Nothing outside the process is used. Request units are modelled.

Examples:
  binnacle blogexample
  binnacle blogexample --users 200 --physical-partitions 20
  binnacle blogexample --ru-model slope --json`,
	"emulator": `Any official Cosmos DB client may connect, with the emulators' public key. The page /_emulator of the
endpoint shows every container's physical partitions and how hot they are.

Examples:
  binnacle emulator --data-dir ./cosmos
  binnacle emulator --cosmos 127.0.0.1:0 --physical-partitions 5
  binnacle emulator --tls --advertise https://localhost:8081/
  binnacle emulator --faults &
  curl -X PUT http://127.0.0.1:8081/_emulator/faults -d '{"rules":[{"operations":["create"],"status":503,"applied":true,"probability":0.1}]}'`,
	"broker": `One broker for one machine, without replicas, logins or TLS. Any Kafka client may connect.

Examples:
  binnacle broker --data-dir ./kafka
  binnacle broker --kafka 127.0.0.1:0 --topics telemetry,telemetry.dlq --partitions 8
  binnacle broker --kafka 0.0.0.0:9092 --advertise broker.example:9092 --kafka-mb 0`,
}
