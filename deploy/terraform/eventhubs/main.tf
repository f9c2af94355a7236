# The event hubs of a topic in a namespace that exists: the topic, its dead letters, and its journal, partition for partition.
# The roles make none there.

terraform {
  required_version = ">= 1.6"
  required_providers {
    azurerm = {
      source  = "hashicorp/azurerm"
      version = "~> 4.0"
    }
  }
}

data "azurerm_eventhub_namespace" "kafka" {
  name                = var.event_hubs
  resource_group_name = var.resource_group
}

# Nothing is compacted: it would take blocks of the journal away, and readings that are not stored.
resource "azurerm_eventhub" "topic" {
  for_each = {
    (var.topic)            = var.retention_days
    "${var.topic}.dlq"     = var.retention_days
    "${var.topic}.journal" = var.journal_days
  }
  name              = each.key
  namespace_id      = data.azurerm_eventhub_namespace.kafka.id
  partition_count   = var.partitions
  message_retention = each.value
}
