variable "account" {
  description = "Name of the account."
  type        = string
}

variable "resource_group" {
  description = "Resource group, which exists."
  type        = string
}

variable "location" {
  description = "Region, such as westeurope."
  type        = string
}

variable "identities_only" {
  description = "Refuse account keys: everybody has an identity."
  type        = bool
  default     = true
}

variable "zone_redundant" {
  description = "Keep replicas in several zones of the region."
  type        = bool
  default     = true
}

variable "serverless" {
  description = "Pay for each request unit instead of throughput: for small fleets. The account may become provisioned later."
  type        = bool
  default     = false
}

variable "free_tier" {
  description = "1,000 RU/s and 25 GB for nothing: one account of a subscription, when it is made, and no serverless one."
  type        = bool
  default     = false

  validation {
    condition     = !(var.free_tier && var.serverless)
    error_message = "A serverless account has no free tier."
  }
}

variable "oidc_issuer" {
  description = "Issuer of the Kubernetes cluster's service accounts. Empty: no workload identity."
  type        = string
  default     = ""
}

variable "namespace" {
  description = "Kubernetes namespace of the chart, whose release is named binnacle."
  type        = string
  default     = "telemetry"
}
