// The account, and an identity with the least rights for each role. Its database and the containers control, catalog and heat stand in
// containers.bicep, which the code writes. Containers of chunks and rollups are provision's alone: it makes one for each month, sets their
// throughput by age and drops them.

@description('Name of the account.')
param account string

@description('Region, such as westeurope.')
param location string = resourceGroup().location

@description('Refuse account keys: everybody has an identity.')
param identitiesOnly bool = true

@description('Keep replicas in several zones of the region.')
param zoneRedundant bool = true

@description('Pay for each request unit instead of throughput: for small fleets. The account may become provisioned later.')
param serverless bool = false

@description('1,000 RU/s and 25 GB for nothing: one account of a subscription, when it is made, and no serverless one.')
param freeTier bool = false

@description('Issuer of the Kubernetes cluster\'s service accounts. Empty: no workload identity.')
param oidcIssuer string = ''

@description('Kubernetes namespace of the chart, whose release is named binnacle.')
param namespace string = 'telemetry'

resource cosmos 'Microsoft.DocumentDB/databaseAccounts@2024-11-15' = {
  name: account
  location: location
  kind: 'GlobalDocumentDB'
  properties: {
    databaseAccountOfferType: 'Standard'
    disableLocalAuth: identitiesOnly
    enableFreeTier: freeTier
    capabilities: serverless ? [{ name: 'EnableServerless' }] : []
    minimalTlsVersion: 'Tls12'
    // Nothing stronger is needed: what a lagging replica does not show yet, heads tell of (docs/internals/protocol.md, R4).
    consistencyPolicy: {
      defaultConsistencyLevel: 'Session'
    }
    locations: [
      {
        locationName: location
        failoverPriority: 0
        isZoneRedundant: zoneRedundant
      }
    ]
    backupPolicy: {
      type: 'Continuous'
      continuousModeProperties: {
        tier: 'Continuous7Days'
      }
    }
  }
}

module containers 'containers.bicep' = {
  name: 'containers'
  params: {
    account: cosmos.name
    serverless: serverless
  }
}

// Of the data plane. Cosmos DB has these two roles in each account.
var reader = '00000000-0000-0000-0000-000000000001'
var contributor = '00000000-0000-0000-0000-000000000002'
var roles = [
  { name: 'ingest', dataRole: contributor }
  { name: 'query', dataRole: reader }
  { name: 'provision', dataRole: contributor }
  // Reads chunks, writes rollups and takes leases. Their containers come and go by the month, so that it is the database's.
  { name: 'rollups', dataRole: contributor }
]

resource identities 'Microsoft.ManagedIdentity/userAssignedIdentities@2023-01-31' = [
  for role in roles: {
    name: '${account}-${role.name}'
    location: location
  }
]

// The database alone, not the account.
resource dataRoles 'Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments@2024-11-15' = [
  for (role, i) in roles: {
    parent: cosmos
    name: guid(cosmos.id, role.name, role.dataRole)
    properties: {
      principalId: identities[i].properties.principalId
      roleDefinitionId: '${cosmos.id}/sqlRoleDefinitions/${role.dataRole}'
      scope: '${cosmos.id}/dbs/${containers.outputs.database}'
    }
  }
]

// Queriers write what their reads cost into the container heat, and nothing else.
resource heatRole 'Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments@2024-11-15' = {
  parent: cosmos
  name: guid(cosmos.id, 'query', 'heat')
  properties: {
    principalId: identities[1].properties.principalId
    roleDefinitionId: '${cosmos.id}/sqlRoleDefinitions/${contributor}'
    scope: '${cosmos.id}/dbs/${containers.outputs.database}/colls/heat'
  }
}

// What provision does through Azure Resource Manager, and nothing else: data-plane roles can't make containers.
resource provisionRole 'Microsoft.Authorization/roleDefinitions@2022-04-01' = {
  name: guid(cosmos.id, 'binnacle provision')
  properties: {
    roleName: 'Binnacle provision (${account})'
    description: 'To make, drop and scale containers of one account.'
    type: 'CustomRole'
    assignableScopes: [resourceGroup().id]
    permissions: [
      {
        actions: [
          'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/read'
          'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/write'
          'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/throughputSettings/read'
          'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/throughputSettings/write'
          'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/read'
          'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/write'
          'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/delete'
          'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/throughputSettings/read'
          'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/throughputSettings/write'
          // What the service asks of a caller that follows an operation it has begun.
          'Microsoft.DocumentDB/locations/operationsStatus/read'
          'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/operationResults/read'
          'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/operationResults/read'
          'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/throughputSettings/operationResults/read'
        ]
      }
    ]
  }
}

resource provisionAssignment 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: cosmos
  name: guid(cosmos.id, provisionRole.id)
  properties: {
    roleDefinitionId: provisionRole.id
    principalId: identities[2].properties.principalId
    principalType: 'ServicePrincipal'
  }
}

// The chart's service accounts are these identities.
resource federated 'Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials@2023-01-31' = [
  for (role, i) in roles: if (!empty(oidcIssuer)) {
    parent: identities[i]
    name: 'binnacle-${role.name}'
    properties: {
      issuer: oidcIssuer
      subject: 'system:serviceaccount:${namespace}:binnacle-${role.name}'
      audiences: ['api://AzureADTokenExchange']
    }
  }
]

@description('For --cosmos.')
output endpoint string = cosmos.properties.documentEndpoint

@description('For the setting identity-client, or the chart\'s serviceAccount.annotations: of ingest, query, provision and rollups.')
output clientIds array = [for (role, i) in roles: identities[i].properties.clientId]
