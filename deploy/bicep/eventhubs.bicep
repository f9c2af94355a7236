// The event hubs of a topic in a namespace that exists: the topic, its dead letters, and its journal, partition for partition.
// The roles make none there.

@description('Name of the namespace, of the standard tier or above.')
param eventHubs string

@description('Partitions of the topic and of its journal. They can be added later in the premium tier alone.')
@minValue(1)
param partitions int = 16

@description('Hours that readings and dead letters stay: longer than the hold and the longest outage together.')
param retentionHours int = 168

@description('Hours that the journal\'s blocks stay: the longest hold, and the longest outage that is to cost no reading again.')
param journalHours int = 72

@description('Name of the topic.')
param topic string = 'telemetry'

var hubs = [
  {
    name: topic
    partitions: partitions
    hours: retentionHours
  }
  {
    name: '${topic}.dlq'
    partitions: partitions
    hours: retentionHours
  }
  {
    name: '${topic}.journal'
    partitions: partitions
    hours: journalHours
  }
]

resource namespace 'Microsoft.EventHub/namespaces@2024-01-01' existing = {
  name: eventHubs
}

resource hub 'Microsoft.EventHub/namespaces/eventhubs@2024-01-01' = [for h in hubs: {
  parent: namespace
  name: h.name
  properties: {
    partitionCount: h.partitions
    // Never Compact: it would take blocks of the journal away, and readings that are not stored.
    retentionDescription: {
      cleanupPolicy: 'Delete'
      retentionTimeInHours: h.hours
    }
  }
}]
