# The account with its database and the containers control and catalog, and an identity with the least rights for each role.
# Containers of chunks are provision's alone: it makes one for each month, sets their throughput by age and drops them.
# How containers are keyed and indexed is the code's (internal/cosmos/layout.go); a test compares.

terraform {
  required_version = ">= 1.6"
  required_providers {
    azurerm = {
      source  = "hashicorp/azurerm"
      version = "~> 4.0"
    }
  }
}

data "azurerm_resource_group" "binnacle" {
  name = var.resource_group
}

resource "azurerm_cosmosdb_account" "binnacle" {
  name                = var.account
  location            = var.location
  resource_group_name = var.resource_group
  offer_type          = "Standard"
  kind                = "GlobalDocumentDB"

  local_authentication_disabled = var.identities_only
  minimal_tls_version           = "Tls12"

  # An answer holds what was stored before it: readers carry the session tokens that ingesters hand them.
  consistency_policy {
    consistency_level = "Session"
  }

  geo_location {
    location          = var.location
    failover_priority = 0
    zone_redundant    = var.zone_redundant
  }

  backup {
    type = "Continuous"
    tier = "Continuous7Days"
  }
}

resource "azurerm_cosmosdb_sql_database" "binnacle" {
  name                = "binnacle"
  resource_group_name = var.resource_group
  account_name        = azurerm_cosmosdb_account.binnacle.name
}

resource "azurerm_cosmosdb_sql_container" "control" {
  name                  = "control"
  resource_group_name   = var.resource_group
  account_name          = azurerm_cosmosdb_account.binnacle.name
  database_name         = azurerm_cosmosdb_sql_database.binnacle.name
  partition_key_kind    = "Hash"
  partition_key_version = 2
  partition_key_paths   = ["/kind"]
  throughput            = 400

  indexing_policy {
    indexing_mode = "consistent"
    included_path {
      path = "/kind/?"
    }
    excluded_path {
      path = "/*"
    }
  }
}

resource "azurerm_cosmosdb_sql_container" "catalog" {
  name                  = "catalog"
  resource_group_name   = var.resource_group
  account_name          = azurerm_cosmosdb_account.binnacle.name
  database_name         = azurerm_cosmosdb_sql_database.binnacle.name
  partition_key_kind    = "MultiHash"
  partition_key_version = 2
  partition_key_paths   = ["/tenant", "/device"]

  autoscale_settings {
    max_throughput = 2000
  }

  indexing_policy {
    indexing_mode = "consistent"
    included_path {
      path = "/tenant/?"
    }
    included_path {
      path = "/device/?"
    }
    excluded_path {
      path = "/*"
    }
  }

  # A container whose key has lost a level looks right and can't be mended: the kind can't be changed afterwards.
  lifecycle {
    postcondition {
      condition     = self.partition_key_kind == "MultiHash" && length(self.partition_key_paths) == 2
      error_message = "The container catalog has not got its key of two levels."
    }
  }
}

locals {
  roles = toset(["ingest", "query", "provision"])

  # Of the data plane. Cosmos DB has these two roles in each account.
  reader      = "00000000-0000-0000-0000-000000000001"
  contributor = "00000000-0000-0000-0000-000000000002"
  data_roles = {
    ingest    = local.contributor
    query     = local.reader
    provision = local.contributor
  }
}

resource "azurerm_user_assigned_identity" "role" {
  for_each            = local.roles
  name                = "${var.account}-${each.key}"
  location            = var.location
  resource_group_name = var.resource_group
}

# The database alone, not the account.
resource "azurerm_cosmosdb_sql_role_assignment" "role" {
  for_each            = local.roles
  resource_group_name = var.resource_group
  account_name        = azurerm_cosmosdb_account.binnacle.name
  principal_id        = azurerm_user_assigned_identity.role[each.key].principal_id
  role_definition_id  = "${azurerm_cosmosdb_account.binnacle.id}/sqlRoleDefinitions/${local.data_roles[each.key]}"
  scope               = "${azurerm_cosmosdb_account.binnacle.id}/dbs/${azurerm_cosmosdb_sql_database.binnacle.name}"
}

# What provision does through Azure Resource Manager, and nothing else: data-plane roles can't make containers.
resource "azurerm_role_definition" "provision" {
  name        = "Binnacle provision (${var.account})"
  scope       = data.azurerm_resource_group.binnacle.id
  description = "To make, drop and scale containers of one account."

  permissions {
    actions = [
      "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/write",
      "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/read",
      "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/write",
      "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/delete",
      "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/throughputSettings/read",
      "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/throughputSettings/write",
      # What the service asks of who follows an operation that it has begun.
      "Microsoft.DocumentDB/locations/operationsStatus/read",
      "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/operationResults/read",
      "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/operationResults/read",
      "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/throughputSettings/operationResults/read",
    ]
  }

  assignable_scopes = [data.azurerm_resource_group.binnacle.id]
}

resource "azurerm_role_assignment" "provision" {
  scope              = azurerm_cosmosdb_account.binnacle.id
  role_definition_id = azurerm_role_definition.provision.role_definition_resource_id
  principal_id       = azurerm_user_assigned_identity.role["provision"].principal_id
}

# The chart's service accounts are these identities.
resource "azurerm_federated_identity_credential" "role" {
  for_each            = var.oidc_issuer == "" ? toset([]) : local.roles
  name                = "binnacle-${each.key}"
  resource_group_name = var.resource_group
  parent_id           = azurerm_user_assigned_identity.role[each.key].id
  audience            = ["api://AzureADTokenExchange"]
  issuer              = var.oidc_issuer
  subject             = "system:serviceaccount:${var.namespace}:binnacle-${each.key}"
}
