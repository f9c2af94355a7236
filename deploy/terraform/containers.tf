# Written by `binnacle provision --export terraform`, from what the code itself makes: change it there.
# Containers of chunks and rollups are provision's alone.

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
  throughput            = var.serverless ? null : 400

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

  dynamic "autoscale_settings" {
    for_each = var.serverless ? [] : [1]
    content {
      max_throughput = 2000
    }
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

  # A container with a key that has lost a level looks right and can't be mended: the kind can't be changed afterwards.
  lifecycle {
    postcondition {
      condition     = self.partition_key_kind == "MultiHash" && length(self.partition_key_paths) == 2
      error_message = "The container catalog has not got its key of 2 levels."
    }
  }
}

resource "azurerm_cosmosdb_sql_container" "heat" {
  name                  = "heat"
  resource_group_name   = var.resource_group
  account_name          = azurerm_cosmosdb_account.binnacle.name
  database_name         = azurerm_cosmosdb_sql_database.binnacle.name
  partition_key_kind    = "Hash"
  partition_key_version = 2
  partition_key_paths   = ["/key"]
  default_ttl           = -1

  dynamic "autoscale_settings" {
    for_each = var.serverless ? [] : [1]
    content {
      max_throughput = 1000
    }
  }

  indexing_policy {
    indexing_mode = "consistent"
    included_path {
      path = "/key/?"
    }
    included_path {
      path = "/from/?"
    }
    excluded_path {
      path = "/*"
    }
  }
}
