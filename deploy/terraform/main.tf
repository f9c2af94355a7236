# The account, and an identity with the least rights for each role. Its database and the containers control, catalog and heat stand in
# containers.tf, which the code writes. Containers of chunks and rollups are provision's alone: it makes one for each month, sets their
# throughput by age and drops them.

terraform {
  required_version = ">= 1.9"
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
  free_tier_enabled             = var.free_tier

  dynamic "capabilities" {
    for_each = var.serverless ? ["EnableServerless"] : []
    content {
      name = capabilities.value
    }
  }

  # Nothing stronger is needed: what a lagging replica does not show yet, heads tell of (docs/internals/protocol.md, R4).
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

locals {
  roles = toset(["ingest", "query", "rollups", "provision"])

  # Of the data plane. Cosmos DB has these two roles in each account.
  reader      = "00000000-0000-0000-0000-000000000001"
  contributor = "00000000-0000-0000-0000-000000000002"
  data_roles = {
    ingest    = local.contributor
    query     = local.reader
    provision = local.contributor
    # Reads chunks, writes rollups and takes leases. Their containers come and go by the month, so that it is the database's.
    rollups = local.contributor
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

# Queriers write what their reads cost into the container heat, and nothing else.
resource "azurerm_cosmosdb_sql_role_assignment" "heat" {
  resource_group_name = var.resource_group
  account_name        = azurerm_cosmosdb_account.binnacle.name
  principal_id        = azurerm_user_assigned_identity.role["query"].principal_id
  role_definition_id  = "${azurerm_cosmosdb_account.binnacle.id}/sqlRoleDefinitions/${local.contributor}"
  scope               = "${azurerm_cosmosdb_account.binnacle.id}/dbs/${azurerm_cosmosdb_sql_database.binnacle.name}/colls/${azurerm_cosmosdb_sql_container.heat.name}"
}

# What provision does through Azure Resource Manager, and nothing else: data-plane roles can't make containers.
resource "azurerm_role_definition" "provision" {
  name        = "Binnacle provision (${var.account})"
  scope       = data.azurerm_resource_group.binnacle.id
  description = "To make, drop and scale containers of one account."

  permissions {
    actions = [
      "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/read",
      "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/write",
      "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/throughputSettings/read",
      "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/throughputSettings/write",
      "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/read",
      "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/write",
      "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/delete",
      "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/throughputSettings/read",
      "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/throughputSettings/write",
      # What the service asks of a caller that follows an operation it has begun.
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
