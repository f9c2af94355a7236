variable "event_hubs" {
  description = "Name of the namespace, of the standard tier or above."
  type        = string
}

variable "resource_group" {
  description = "Resource group of the namespace."
  type        = string
}

variable "topic" {
  description = "Name of the topic."
  type        = string
  default     = "telemetry"
}

variable "partitions" {
  description = "Partitions of the topic and of its journal. They can be added later in the premium tier alone."
  type        = number
  default     = 16
}

variable "retention_days" {
  description = "Days that readings and dead letters stay: longer than the hold and the longest outage together."
  type        = number
  default     = 7
}

variable "journal_days" {
  description = "Days that the journal's blocks stay: the longest hold, and the longest outage that is to cost no reading again."
  type        = number
  default     = 3
}
