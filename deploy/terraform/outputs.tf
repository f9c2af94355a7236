output "cosmos" {
  description = "For --cosmos."
  value       = azurerm_cosmosdb_account.binnacle.endpoint
}

output "client_ids" {
  description = "For the setting identity-client, or the chart's serviceAccount.annotations."
  value       = { for role, identity in azurerm_user_assigned_identity.role : role => identity.client_id }
}
