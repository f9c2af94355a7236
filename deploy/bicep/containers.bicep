// Written by `binnacle provision --export bicep`, from what the code itself makes: change it there.
// Containers of chunks and rollups are provision's alone.

@description('Name of the account, which is there already.')
param account string

@description('The account is serverless: containers have no throughput.')
param serverless bool = false

resource cosmos 'Microsoft.DocumentDB/databaseAccounts@2024-11-15' existing = {
  name: account
}

resource database 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases@2024-11-15' = {
  parent: cosmos
  name: 'binnacle'
  properties: {
    resource: {
      id: 'binnacle'
    }
  }
}

resource control 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@2024-11-15' = {
  parent: database
  name: 'control'
  properties: {
    options: serverless ? {} : {
      throughput: 400
    }
    resource: {
      id: 'control'
      partitionKey: {
        kind: 'Hash'
        version: 2
        paths: ['/kind']
      }
      indexingPolicy: {
        automatic: true
        indexingMode: 'consistent'
        includedPaths: [
          { path: '/kind/?' }
        ]
        excludedPaths: [
          { path: '/*' }
        ]
      }
    }
  }
}

resource catalog 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@2024-11-15' = {
  parent: database
  name: 'catalog'
  properties: {
    options: serverless ? {} : {
      autoscaleSettings: {
        maxThroughput: 2000
      }
    }
    resource: {
      id: 'catalog'
      partitionKey: {
        kind: 'MultiHash'
        version: 2
        paths: ['/tenant', '/device']
      }
      indexingPolicy: {
        automatic: true
        indexingMode: 'consistent'
        includedPaths: [
          { path: '/tenant/?' }
          { path: '/device/?' }
        ]
        excludedPaths: [
          { path: '/*' }
        ]
      }
    }
  }
}

resource heat 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@2024-11-15' = {
  parent: database
  name: 'heat'
  properties: {
    options: serverless ? {} : {
      autoscaleSettings: {
        maxThroughput: 1000
      }
    }
    resource: {
      id: 'heat'
      partitionKey: {
        kind: 'Hash'
        version: 2
        paths: ['/key']
      }
      defaultTtl: -1
      indexingPolicy: {
        automatic: true
        indexingMode: 'consistent'
        includedPaths: [
          { path: '/key/?' }
          { path: '/from/?' }
        ]
        excludedPaths: [
          { path: '/*' }
        ]
      }
    }
  }
}

output database string = database.name
