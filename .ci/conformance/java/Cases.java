// Cases for com.azure:azure-cosmos in gateway mode, written from its documentation: its package has no tests. Each makes
// what it needs.

import com.azure.cosmos.ConsistencyLevel;
import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.CosmosException;
import com.azure.cosmos.models.*;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Instant;
import java.util.*;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

public class Cases {
  record Case(String name, Callable<?> run, String why) {}

  static final List<Case> cases = new ArrayList<>();
  static final ObjectMapper json = new ObjectMapper();
  static CosmosClient client;
  static CosmosDatabase database;
  static CosmosContainer shared;
  static int made;

  interface Run {
    void run() throws Exception;
  }

  static void test(String name, Run run) {
    cases.add(new Case(name, () -> { run.run(); return null; }, null));
  }

  static void leftOut(String name, String why) {
    cases.add(new Case(name, null, why));
  }

  static void equal(Object want, Object got) {
    if (!Objects.equals(want, got)) throw new AssertionError("want " + want + ", got " + got);
  }

  static void isTrue(boolean ok, Object got) {
    if (!ok) throw new AssertionError("got " + got);
  }

  static CosmosException refused(int status, Run run) throws Exception {
    return refused(status, 0, run);
  }

  static CosmosException refused(int status, int substatus, Run run) throws Exception {
    try {
      run.run();
    } catch (CosmosException e) {
      if (e.getStatusCode() != status) throw e;
      if (substatus != 0) equal(substatus, e.getSubStatusCode());
      return e;
    }
    throw new AssertionError("it was not refused with " + status);
  }

  static CosmosClient connect(String key) {
    return new CosmosClientBuilder().endpoint(System.getenv("ENDPOINT")).key(key).gatewayMode()
        .consistencyLevel(ConsistencyLevel.SESSION).contentResponseOnWriteEnabled(true).buildClient();
  }

  static CosmosContainerProperties properties(String... paths) {
    PartitionKind kind = paths.length == 1 ? PartitionKind.HASH : PartitionKind.MULTI_HASH;
    // Without a version the client places items by version 1.
    PartitionKeyDefinition key = new PartitionKeyDefinition().setPaths(List.of(paths)).setKind(kind)
        .setVersion(PartitionKeyDefinitionVersion.V2);
    return new CosmosContainerProperties("c" + made++, key);
  }

  static CosmosContainer container(CosmosContainerProperties properties, int throughput) {
    if (throughput == 0) database.createContainer(properties);
    else database.createContainer(properties, ThroughputProperties.createManualThroughput(throughput));
    return database.getContainer(properties.getId());
  }

  static CosmosContainer container() {
    return container(properties("/pk"), 0);
  }

  // filled returns a container of several physical partitions with n items: id i, pk p0 to p4, n i, tag t0 to t2.
  static CosmosContainer filled(int n) {
    CosmosContainer co = container(properties("/pk"), 24000);
    List<CosmosItemOperation> operations = new ArrayList<>();
    for (int i = 0; i < n; i++) {
      ObjectNode item = item("" + i, "p" + i % 5).put("n", i).put("tag", "t" + i % 3);
      item.putArray("list").add(i).add("x");
      operations.add(CosmosBulkOperations.getCreateItemOperation(item, new PartitionKey("p" + i % 5)));
    }
    for (CosmosBulkOperationResponse<Object> r : co.executeBulkOperations(operations)) equal(201, status(r));
    return co;
  }

  static CosmosContainer items() {
    if (shared == null) shared = filled(50);
    return shared;
  }

  static int status(CosmosBulkOperationResponse<?> r) {
    if (r.getResponse() != null) return r.getResponse().getStatusCode();
    return ((CosmosException) r.getException()).getStatusCode();
  }

  static ObjectNode item(String id, String pk) {
    return json.createObjectNode().put("id", id).put("pk", pk);
  }

  static PartitionKey key(String pk) {
    return new PartitionKey(pk);
  }

  static CosmosItemRequestOptions options() {
    return new CosmosItemRequestOptions();
  }

  static List<Object> rows(CosmosContainer co, String query, SqlParameter... parameters) {
    return rows(co, new CosmosQueryRequestOptions(), query, parameters);
  }

  // rows returns what a query gives: numbers as Integer or Double, texts, lists and maps.
  static List<Object> rows(CosmosContainer co, CosmosQueryRequestOptions o, String query, SqlParameter... parameters) {
    return co.queryItems(new SqlQuerySpec(query, parameters), o, Object.class).stream().collect(Collectors.toList());
  }

  static List<Object> sorted(List<Object> rows) {
    return rows.stream().sorted(Comparator.comparing(Object::toString)).collect(Collectors.toList());
  }

  static CosmosQueryRequestOptions in(String pk) {
    return new CosmosQueryRequestOptions().setPartitionKey(key(pk));
  }

  // pages returns the number of rows of each page of at most so many, and all rows, each page asked for by the continuation
  // of the one before it.
  static List<Integer> pages(CosmosContainer co, String query, int most, List<Object> all) {
    List<Integer> sizes = new ArrayList<>();
    String continuation = null;
    do {
      FeedResponse<Object> page = co.queryItems(query, new CosmosQueryRequestOptions(), Object.class)
          .iterableByPage(continuation, most).iterator().next();
      sizes.add(page.getResults().size());
      all.addAll(page.getResults());
      continuation = page.getContinuationToken();
    } while (continuation != null);
    return sizes;
  }

  record Changes(List<JsonNode> items, String continuation) {}

  static Changes changes(CosmosContainer co, CosmosChangeFeedRequestOptions options) {
    List<JsonNode> out = new ArrayList<>();
    String continuation = null;
    for (FeedResponse<JsonNode> page : co.queryChangeFeed(options, JsonNode.class).iterableByPage()) {
      out.addAll(page.getResults());
      continuation = page.getContinuationToken();
    }
    return new Changes(out, continuation);
  }

  static Set<String> ids(List<JsonNode> items) {
    return items.stream().map(i -> i.get("id").asText()).collect(Collectors.toSet());
  }

  static void databases() {
    test("databases: create, read, delete", () -> {
      client.createDatabase("other");
      equal("other", client.getDatabase("other").read().getProperties().getId());
      refused(409, () -> client.createDatabase("other"));
      client.getDatabase("other").delete();
      refused(404, () -> client.getDatabase("other").read());
    });
    test("databases: list and query", () -> {
      isTrue(client.readAllDatabases().stream().anyMatch(d -> d.getId().equals("java")), "no database java");
      SqlQuerySpec query = new SqlQuerySpec("SELECT * FROM r WHERE r.id = @id", new SqlParameter("@id", "java"));
      equal(1L, client.queryDatabases(query, new CosmosQueryRequestOptions()).stream().count());
    });
    test("databases: createDatabaseIfNotExists twice", () ->
        equal(200, client.createDatabaseIfNotExists("java").getStatusCode()));
    test("databases: shared throughput", () -> {
      client.createDatabase("offers", ThroughputProperties.createManualThroughput(500));
      CosmosDatabase db = client.getDatabase("offers");
      equal(500, db.readThroughput().getProperties().getManualThroughput());
      db.replaceThroughput(ThroughputProperties.createManualThroughput(600));
      equal(600, db.readThroughput().getProperties().getManualThroughput());
      db.delete();
    });
    test("containers: create, read, replace, delete", () -> {
      CosmosContainer co = container(properties("/pk").setDefaultTimeToLiveInSeconds(-1), 0);
      CosmosContainerProperties read = co.read().getProperties();
      equal(List.of("/pk"), read.getPartitionKeyDefinition().getPaths());
      equal(-1, read.getDefaultTimeToLiveInSeconds());
      equal(60, co.replace(read.setDefaultTimeToLiveInSeconds(60)).getProperties().getDefaultTimeToLiveInSeconds());
      co.delete();
      refused(404, co::read);
    });
    test("containers: list and query", () -> {
      String id = container().getId();
      isTrue(database.readAllContainers().stream().anyMatch(c -> c.getId().equals(id)), id);
      SqlQuerySpec query = new SqlQuerySpec("SELECT * FROM r WHERE r.id = @id", new SqlParameter("@id", id));
      equal(1L, database.queryContainers(query).stream().count());
    });
    test("containers: createContainerIfNotExists twice", () -> {
      String id = "c" + made++;
      equal(201, database.createContainerIfNotExists(id, "/pk").getStatusCode());
      equal(200, database.createContainerIfNotExists(id, "/pk").getStatusCode());
      refused(409, () -> database.createContainer(id, "/pk"));
    });
    test("containers: throughput read and replaced", () -> {
      CosmosContainer co = container(properties("/pk"), 500);
      ThroughputResponse read = co.readThroughput();
      equal(500, read.getProperties().getManualThroughput());
      equal(400, read.getMinThroughput());
      co.replaceThroughput(ThroughputProperties.createManualThroughput(700));
      equal(700, co.readThroughput().getProperties().getManualThroughput());
    });
    test("containers: throughput below the least is 400", () -> {
      CosmosContainer co = container(properties("/pk"), 500);
      refused(400, () -> co.replaceThroughput(ThroughputProperties.createManualThroughput(100)));
    });
    test("containers: autoscale read and replaced", () -> {
      CosmosContainerProperties p = properties("/pk");
      database.createContainer(p, ThroughputProperties.createAutoscaledThroughput(4000));
      CosmosContainer co = database.getContainer(p.getId());
      equal(4000, co.readThroughput().getProperties().getAutoscaleMaxThroughput());
      co.replaceThroughput(ThroughputProperties.createAutoscaledThroughput(5000));
      equal(5000, co.readThroughput().getProperties().getAutoscaleMaxThroughput());
    });
  }

  static void policies() {
    test("policies: included, excluded and composite paths", () -> {
      List<List<CompositePath>> composite = List.of(List.of(new CompositePath().setPath("/a"),
          new CompositePath().setPath("/b").setOrder(CompositePathSortOrder.DESCENDING)));
      IndexingPolicy policy = new IndexingPolicy().setIncludedPaths(List.of(new IncludedPath("/*")))
          .setExcludedPaths(List.of(new ExcludedPath("/big/*"))).setCompositeIndexes(composite);
      CosmosContainer co = container(properties("/pk").setIndexingPolicy(policy), 0);
      IndexingPolicy read = co.read().getProperties().getIndexingPolicy();
      equal(CompositePathSortOrder.DESCENDING, read.getCompositeIndexes().get(0).get(1).getOrder());
      isTrue(read.getExcludedPaths().stream().anyMatch(p -> p.getPath().equals("/big/*")), read.getExcludedPaths());
      equal(IndexingMode.CONSISTENT, read.getIndexingMode());
    });
    test("policies: indexing mode none", () -> {
      IndexingPolicy policy = new IndexingPolicy().setIndexingMode(IndexingMode.NONE).setAutomatic(false);
      CosmosContainer co = container(properties("/pk").setIndexingPolicy(policy), 0);
      equal(IndexingMode.NONE, co.read().getProperties().getIndexingPolicy().getIndexingMode());
      co.createItem(item("a", "p"));
      equal(200, co.readItem("a", key("p"), JsonNode.class).getStatusCode());
    });
    test("policies: unique keys", () -> {
      UniqueKeyPolicy policy = new UniqueKeyPolicy().setUniqueKeys(List.of(new UniqueKey(List.of("/email"))));
      CosmosContainer co = container(properties("/pk").setUniqueKeyPolicy(policy), 0);
      equal(1, co.read().getProperties().getUniqueKeyPolicy().getUniqueKeys().size());
      co.createItem(item("a", "p").put("email", "e"));
      refused(409, () -> co.createItem(item("b", "p").put("email", "e")));
      co.createItem(item("b", "q").put("email", "e"));
    });
    test("policies: conflicts, the last writer wins", () -> {
      ConflictResolutionPolicy policy = ConflictResolutionPolicy.createLastWriterWinsPolicy("/version");
      CosmosContainer co = container(properties("/pk").setConflictResolutionPolicy(policy), 0);
      ConflictResolutionPolicy read = co.read().getProperties().getConflictResolutionPolicy();
      equal(ConflictResolutionMode.LAST_WRITER_WINS, read.getMode());
      equal("/version", read.getConflictResolutionPath());
    });
    test("policies: computed properties", () -> {
      ComputedProperty low = new ComputedProperty("low", "SELECT VALUE LOWER(c.name) FROM c");
      CosmosContainer co = container(properties("/pk").setComputedProperties(List.of(low)), 0);
      equal(1, co.read().getProperties().getComputedProperties().size());
      co.createItem(item("a", "p").put("name", "ABC"));
      equal(List.of("abc"), rows(co, "SELECT VALUE c.low FROM c WHERE c.low = 'abc'"));
    });
    test("policies: vectors", () -> {
      CosmosVectorEmbedding embedding = new CosmosVectorEmbedding().setPath("/v").setEmbeddingDimensions(3)
          .setDataType(CosmosVectorDataType.FLOAT32).setDistanceFunction(CosmosVectorDistanceFunction.COSINE);
      CosmosVectorEmbeddingPolicy embeddings = new CosmosVectorEmbeddingPolicy();
      embeddings.setCosmosVectorEmbeddings(List.of(embedding));
      IndexingPolicy index = new IndexingPolicy()
          .setVectorIndexes(List.of(new CosmosVectorIndexSpec().setPath("/v").setType("flat")));
      CosmosContainer co = container(properties("/pk").setVectorEmbeddingPolicy(embeddings).setIndexingPolicy(index), 0);
      CosmosContainerProperties read = co.read().getProperties();
      equal("/v", read.getVectorEmbeddingPolicy().getVectorEmbeddings().get(0).getPath());
      equal("flat", read.getIndexingPolicy().getVectorIndexes().get(0).getType());
    });
    test("policies: full text", () -> {
      CosmosFullTextPath path = new CosmosFullTextPath().setPath("/t").setLanguage("en-US");
      CosmosFullTextPolicy policy = new CosmosFullTextPolicy().setDefaultLanguage("en-US").setPaths(List.of(path));
      IndexingPolicy index = new IndexingPolicy()
          .setCosmosFullTextIndexes(List.of(new CosmosFullTextIndex().setPath("/t")));
      CosmosContainer co = container(properties("/pk").setFullTextPolicy(policy).setIndexingPolicy(index), 0);
      equal("/t", co.read().getProperties().getFullTextPolicy().getPaths().get(0).getPath());
    });
    test("policies: time to live of an item", () -> {
      CosmosContainer co = container(properties("/pk").setDefaultTimeToLiveInSeconds(-1), 0);
      co.createItem(item("a", "p").put("ttl", 1));
      Thread.sleep(2100);
      refused(404, () -> co.readItem("a", key("p"), JsonNode.class));
    });
  }

  static void items1() {
    test("items: create, read, replace, delete", () -> {
      CosmosContainer co = container();
      CosmosItemResponse<ObjectNode> created = co.createItem(item("a", "p").put("n", 1));
      equal(201, created.getStatusCode());
      for (String name : List.of("_etag", "_rid", "_self", "_ts")) isTrue(created.getItem().has(name), name);
      equal(1, co.readItem("a", key("p"), JsonNode.class).getItem().get("n").asInt());
      co.replaceItem(item("a", "p").put("n", 2), "a", key("p"), options());
      equal(2, co.readItem("a", key("p"), JsonNode.class).getItem().get("n").asInt());
      equal(204, co.deleteItem("a", key("p"), options()).getStatusCode());
      refused(404, () -> co.readItem("a", key("p"), JsonNode.class));
      refused(404, () -> co.deleteItem("a", key("p"), options()));
    });
    test("items: upsert", () -> {
      CosmosContainer co = container();
      equal(201, co.upsertItem(item("a", "p")).getStatusCode());
      equal(200, co.upsertItem(item("a", "p")).getStatusCode());
    });
    test("items: create of what exists is 409", () -> {
      CosmosContainer co = container();
      co.createItem(item("a", "p"));
      refused(409, () -> co.createItem(item("a", "p")));
    });
    test("items: replace of nothing is 404", () -> {
      CosmosContainer co = container();
      refused(404, () -> co.replaceItem(item("x", "p"), "x", key("p"), options()));
    });
    test("items: another partition key than the item's is 400", () -> {
      CosmosContainer co = container();
      refused(400, () -> co.createItem(item("a", "p"), key("q"), options()));
    });
    test("items: If-Match", () -> {
      CosmosContainer co = container();
      String etag = co.createItem(item("a", "p")).getETag();
      co.replaceItem(item("a", "p").put("n", 1), "a", key("p"), options().setIfMatchETag(etag));
      refused(412, () -> co.replaceItem(item("a", "p"), "a", key("p"), options().setIfMatchETag(etag)));
      refused(412, () -> co.deleteItem("a", key("p"), options().setIfMatchETag(etag)));
    });
    test("items: If-None-Match on a read is 304", () -> {
      CosmosContainer co = container();
      String etag = co.createItem(item("a", "p")).getETag();
      CosmosItemRequestOptions options = options().setIfNoneMatchETag(etag);
      equal(304, co.readItem("a", key("p"), options, JsonNode.class).getStatusCode());
    });
    test("items: 413 above 2 MB", () -> {
      CosmosContainer co = container();
      refused(413, () -> co.createItem(item("a", "p").put("s", "x".repeat(2100000))));
    });
    test("items: no content on writes", () -> {
      CosmosContainer co = container();
      CosmosItemResponse<ObjectNode> got =
          co.createItem(item("a", "p"), key("p"), options().setContentResponseOnWriteEnabled(false));
      equal(null, got.getItem());
      isTrue(got.getETag() != null, "no ETag");
    });
    test("items: charge, session token, activity id, diagnostics", () -> {
      CosmosItemResponse<ObjectNode> got = container().createItem(item("a", "p"));
      equal(5.9, got.getRequestCharge());
      isTrue(got.getSessionToken() != null && got.getActivityId() != null, got.getResponseHeaders());
      String diagnostics = got.getDiagnostics().toString();
      isTrue(diagnostics.contains("\"requestCharge\"") && diagnostics.contains("5.9"), diagnostics);
      isTrue(got.getDiagnostics().getDiagnosticsContext().getTotalRequestCharge() >= 5.9f, "total charge");
    });
    test("items: null, number, boolean and no keys", () -> {
      CosmosContainer co = container();
      PartitionKey number = new PartitionKeyBuilder().add(1.5).build(), bool = new PartitionKeyBuilder().add(true).build();
      co.createItem(json.createObjectNode().put("id", "a").putNull("pk"));
      equal(200, co.readItem("a", new PartitionKey(null), JsonNode.class).getStatusCode());
      co.createItem(json.createObjectNode().put("id", "a").put("pk", 1.5));
      equal(200, co.readItem("a", number, JsonNode.class).getStatusCode());
      co.createItem(json.createObjectNode().put("id", "a").put("pk", true));
      equal(200, co.readItem("a", bool, JsonNode.class).getStatusCode());
      co.createItem(json.createObjectNode().put("id", "a"));
      equal(200, co.readItem("a", PartitionKey.NONE, JsonNode.class).getStatusCode());
    });
    test("items: characters beyond ASCII", () -> {
      CosmosContainer co = container();
      co.createItem(item("ü 😀", "é"));
      equal("ü 😀", co.readItem("ü 😀", key("é"), JsonNode.class).getItem().get("id").asText());
    });
    test("items: numbers", () -> {
      CosmosContainer co = container();
      co.createItem(item("a", "p").put("big", Long.MAX_VALUE).put("small", 5e-324).put("exp", 1e21));
      JsonNode got = co.readItem("a", key("p"), JsonNode.class).getItem();
      equal(Long.MAX_VALUE, got.get("big").asLong());
      equal(5e-324, got.get("small").asDouble());
      equal(1e21, got.get("exp").asDouble());
    });
    test("items: readMany", () -> {
      List<CosmosItemIdentity> wanted = IntStream.of(1, 7, 13, 24, 49, 1000)
          .mapToObj(i -> new CosmosItemIdentity(key("p" + i % 5), "" + i)).collect(Collectors.toList());
      FeedResponse<JsonNode> got = items().readMany(wanted, JsonNode.class);
      equal(Set.of("1", "7", "13", "24", "49"), ids(got.getResults()));
      isTrue(got.getRequestCharge() > 0, got.getRequestCharge());
    });
    test("items: readMany of one", () -> {
      List<CosmosItemIdentity> one = List.of(new CosmosItemIdentity(key("p2"), "7"));
      equal(Set.of("7"), ids(items().readMany(one, JsonNode.class).getResults()));
    });
    test("items: readManyByPartitionKeys", () -> {
      List<PartitionKey> keys = List.of(key("p1"), key("p3"));
      equal(20L, items().readManyByPartitionKeys(keys, JsonNode.class).stream().count());
    });
    test("items: readAllItems of a key", () ->
        equal(10L, items().readAllItems(key("p1"), JsonNode.class).stream().count()));
    test("items: of a key deleted at once", () -> {
      CosmosContainer co = container();
      for (String id : List.of("a", "b")) co.createItem(item(id, "p"));
      co.createItem(item("a", "q"));
      co.deleteAllItemsByPartitionKey(key("p"), options());
      equal(List.of("q"), rows(co, "SELECT VALUE c.pk FROM c"));
    });
    test("items: another account key is 401", () -> {
      String wrong = Base64.getEncoder().encodeToString("x".repeat(64).getBytes());
      try {
        connect(wrong);
      } catch (RuntimeException e) { // the client reads the account as it is made
        isTrue(e.getMessage().contains("Unauthorized"), e.getMessage());
        return;
      }
      throw new AssertionError("it was not refused");
    });
  }

  static void patches() {
    test("patch: add, set, replace, remove, increment, move", () -> {
      CosmosContainer co = container();
      co.createItem(item("a", "p").put("n", 1).put("gone", 1).put("old", 1).put("from", 3));
      CosmosPatchOperations operations = CosmosPatchOperations.create().add("/new", List.of(1)).set("/n", 5)
          .increment("/n", 2).remove("/gone").replace("/old", "x").move("/from", "/to");
      JsonNode got = co.patchItem("a", key("p"), operations, JsonNode.class).getItem();
      equal(7, got.get("n").asInt());
      equal("[1]", got.get("new").toString());
      equal("x", got.get("old").asText());
      equal(3, got.get("to").asInt());
      isTrue(!got.has("gone") && !got.has("from"), got);
    });
    test("patch: with a condition", () -> {
      CosmosContainer co = container();
      co.createItem(item("a", "p").put("n", 1));
      CosmosPatchOperations operations = CosmosPatchOperations.create().increment("/n", 1);
      CosmosPatchItemRequestOptions options = new CosmosPatchItemRequestOptions().setFilterPredicate("from c where c.n = 1");
      co.patchItem("a", key("p"), operations, options, JsonNode.class);
      refused(412, () -> co.patchItem("a", key("p"), operations, options, JsonNode.class));
    });
    test("patch: of nothing is 404, of a path that is not there 400", () -> {
      CosmosContainer co = container();
      CosmosPatchOperations operations = CosmosPatchOperations.create().remove("/x");
      refused(404, () -> co.patchItem("a", key("p"), operations, JsonNode.class));
      co.createItem(item("a", "p"));
      refused(400, () -> co.patchItem("a", key("p"), operations, JsonNode.class));
    });
    test("batch: all operations", () -> {
      CosmosContainer co = container();
      CosmosBatch batch = CosmosBatch.createCosmosBatch(key("p"));
      batch.createItemOperation(item("a", "p"));
      batch.upsertItemOperation(item("b", "p"));
      batch.readItemOperation("a");
      batch.replaceItemOperation("a", item("a", "p").put("n", 1));
      batch.patchItemOperation("a", CosmosPatchOperations.create().increment("/n", 1));
      batch.deleteItemOperation("b");
      CosmosBatchResponse got = co.executeCosmosBatch(batch);
      isTrue(got.isSuccessStatusCode(), got.getErrorMessage());
      equal(List.of(201, 201, 200, 200, 200, 204), statuses(got));
      equal(2, got.getResults().get(4).getItem(JsonNode.class).get("n").asInt());
      isTrue(got.getRequestCharge() > 0, got.getRequestCharge());
    });
    test("batch: all or nothing", () -> {
      CosmosContainer co = container();
      co.createItem(item("a", "p"));
      CosmosBatch batch = CosmosBatch.createCosmosBatch(key("p"));
      batch.createItemOperation(item("c", "p"));
      batch.createItemOperation(item("a", "p"));
      batch.upsertItemOperation(item("d", "p"));
      CosmosBatchResponse got = co.executeCosmosBatch(batch);
      equal(409, got.getStatusCode());
      equal(List.of(424, 409, 424), statuses(got));
      refused(404, () -> co.readItem("c", key("p"), JsonNode.class));
    });
    test("batch: If-Match of an operation", () -> {
      CosmosContainer co = container();
      String etag = co.createItem(item("a", "p")).getETag();
      co.upsertItem(item("a", "p").put("n", 1));
      CosmosBatch batch = CosmosBatch.createCosmosBatch(key("p"));
      batch.createItemOperation(item("b", "p"));
      batch.replaceItemOperation("a", item("a", "p"), new CosmosBatchItemRequestOptions().setIfMatchETag(etag));
      equal(List.of(424, 412), statuses(co.executeCosmosBatch(batch)));
    });
    test("bulk: over partitions", () -> {
      List<CosmosItemOperation> create = new ArrayList<>(), delete = new ArrayList<>();
      for (int i = 0; i < 120; i++) {
        create.add(CosmosBulkOperations.getUpsertItemOperation(item("bulk" + i, "b" + i), key("b" + i)));
        delete.add(CosmosBulkOperations.getDeleteItemOperation("bulk" + i, key("b" + i)));
      }
      CosmosContainer co = items();
      int n = 0;
      for (CosmosBulkOperationResponse<Object> r : co.executeBulkOperations(create)) n += status(r) == 201 ? 1 : 0;
      for (CosmosBulkOperationResponse<Object> r : co.executeBulkOperations(delete)) n += status(r) == 204 ? 1 : 0;
      equal(240, n);
    });
    test("bulk: every kind of operation, and what fails", () -> {
      CosmosContainer co = container();
      for (String id : List.of("a", "b", "d")) co.createItem(item(id, "p").put("n", 1));
      List<CosmosItemOperation> operations = List.of(
          CosmosBulkOperations.getCreateItemOperation(item("a", "p"), key("p")),
          CosmosBulkOperations.getReplaceItemOperation("b", item("b", "p").put("n", 2), key("p")),
          CosmosBulkOperations.getReadItemOperation("d", key("p")),
          CosmosBulkOperations.getReadItemOperation("x", key("p")),
          CosmosBulkOperations.getPatchItemOperation("a", key("p"), CosmosPatchOperations.create().increment("/n", 1)));
      Map<String, Integer> got = new HashMap<>();
      for (CosmosBulkOperationResponse<Object> r : co.executeBulkOperations(operations)) {
        got.put(r.getOperation().getOperationType() + " " + r.getOperation().getId(), status(r));
      }
      equal(5, got.size());
      equal(List.of(200, 200, 200, 404, 409), got.values().stream().sorted().collect(Collectors.toList()));
    });
  }

  static List<Integer> statuses(CosmosBatchResponse r) {
    return r.getResults().stream().map(CosmosBatchOperationResult::getStatusCode).collect(Collectors.toList());
  }

  static void queries() {
    test("query: parameters", () -> equal(List.of(42, 45, 48), sorted(rows(items(),
        "SELECT VALUE c.n FROM c WHERE c.n >= @low AND c.tag = @tag",
        new SqlParameter("@low", 40), new SqlParameter("@tag", "t0")))));
    test("query: in one partition", () -> equal(10, rows(items(), in("p1"), "SELECT * FROM c").size()));
    test("query: over partitions", () -> equal(50, rows(items(), "SELECT * FROM c").size()));
    test("query: ORDER BY over partitions", () -> equal(List.of(5, 4, 3, 2, 1, 0),
        rows(items(), "SELECT VALUE c.n FROM c WHERE c.n < 6 ORDER BY c.n DESC")));
    test("query: ORDER BY two properties", () -> {
      IndexingPolicy policy = new IndexingPolicy().setCompositeIndexes(List.of(List.of(new CompositePath().setPath("/a"),
          new CompositePath().setPath("/b").setOrder(CompositePathSortOrder.DESCENDING))));
      CosmosContainer co = container(properties("/pk").setIndexingPolicy(policy), 12000);
      for (int i = 0; i < 6; i++) co.createItem(item("" + i, "p" + i).put("a", i % 2).put("b", i));
      equal(List.of(4, 2, 0, 5, 3, 1), rows(co, "SELECT VALUE c.b FROM c ORDER BY c.a ASC, c.b DESC"));
    });
    test("query: TOP over partitions", () ->
        equal(List.of(0, 1, 2), rows(items(), "SELECT TOP 3 VALUE c.n FROM c ORDER BY c.n")));
    test("query: OFFSET LIMIT over partitions", () -> equal(List.of(10, 11, 12),
        rows(items(), "SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 10 LIMIT 3")));
    test("query: DISTINCT over partitions", () ->
        equal(List.of("t0", "t1", "t2"), sorted(rows(items(), "SELECT DISTINCT VALUE c.tag FROM c"))));
    test("query: DISTINCT in an order", () ->
        equal(List.of("t2", "t1", "t0"), rows(items(), "SELECT DISTINCT VALUE c.tag FROM c ORDER BY c.tag DESC")));
    Map<String, Double> aggregates = new TreeMap<>(
        Map.of("COUNT(1)", 50.0, "SUM(c.n)", 1225.0, "AVG(c.n)", 24.5, "MIN(c.n)", 0.0, "MAX(c.n)", 49.0));
    aggregates.forEach((call, want) -> test("query: VALUE " + call + " over partitions", () ->
        equal(want, ((Number) rows(items(), "SELECT VALUE " + call + " FROM c").get(0)).doubleValue())));
    test("query: GROUP BY over partitions", () -> {
      String query = "SELECT c.tag, COUNT(1) AS k, SUM(c.n) AS s, MAX(c.n) AS h FROM c GROUP BY c.tag";
      List<String> got = items().queryItems(query, new CosmosQueryRequestOptions(), JsonNode.class).stream()
          .map(r -> r.get("tag").asText() + " " + r.get("k").asInt() + " " + r.get("s").asInt() + " " + r.get("h").asInt())
          .sorted().collect(Collectors.toList());
      equal(List.of("t0 17 408 48", "t1 17 425 49", "t2 16 392 47"), got);
    });
    test("query: JOIN", () -> equal(2, rows(items(), "SELECT VALUE x FROM c JOIN x IN c.list WHERE c.n = 7").size()));
    test("query: subquery and functions", () -> equal(List.of(Map.of("k", 2, "up", "T1")), rows(items(),
        "SELECT VALUE {k: (SELECT VALUE COUNT(1) FROM x IN c.list), up: UPPER(c.tag)} FROM c"
            + " WHERE ARRAY_CONTAINS(c.list, 7)")));
    test("query: LIKE, IN, BETWEEN, EXISTS", () -> equal(List.of(6, 7), sorted(rows(items(),
        "SELECT VALUE c.n FROM c WHERE c.tag LIKE 't%' AND c.pk IN ('p1', 'p2') AND c.n BETWEEN 5 AND 8"
            + " AND EXISTS(SELECT VALUE x FROM x IN c.list WHERE x = 'x')"))));
    test("query: pages and continuation in one partition", () -> {
      List<Object> all = new ArrayList<>();
      equal(List.of(4, 4, 2), pages(items(), "SELECT * FROM c WHERE c.pk = 'p1'", 4, all));
      equal(10, new HashSet<>(all).size());
    });
    test("query: pages and continuation over partitions", () -> {
      List<Object> all = new ArrayList<>();
      for (int size : pages(items(), "SELECT * FROM c", 7, all)) isTrue(size <= 7, size);
      equal(50, new HashSet<>(all).size());
      equal(50, all.size());
    });
    test("query: pages and continuation of an order over partitions", () -> {
      List<Object> all = new ArrayList<>();
      pages(items(), "SELECT VALUE c.n FROM c ORDER BY c.n", 7, all);
      equal(IntStream.range(0, 50).boxed().collect(Collectors.toList()), all);
    });
    test("query: of each feed range", () -> {
      int n = 0;
      List<FeedRange> ranges = items().getFeedRanges();
      for (FeedRange range : ranges) {
        n += rows(items(), new CosmosQueryRequestOptions().setFeedRange(range), "SELECT * FROM c").size();
      }
      equal(List.of(4, 50), List.of(ranges.size(), n));
    });
    test("query: charge, metrics and index metrics", () -> {
      CosmosQueryRequestOptions options = in("p1").setQueryMetricsEnabled(true).setIndexMetricsEnabled(true);
      FeedResponse<JsonNode> page = items().queryItems("SELECT * FROM c WHERE c.n = 1", options, JsonNode.class)
          .iterableByPage().iterator().next();
      isTrue(page.getRequestCharge() > 2, page.getRequestCharge());
      String diagnostics = page.getCosmosDiagnostics().toString();
      isTrue(diagnostics.contains("/n/?"), diagnostics);
    });
    test("query: what is none is 400", () ->
        refused(400, () -> rows(items(), in("p1"), "SELEC * FROM c")));
    test("query: by vectors is refused by name", () -> {
      CosmosException e = refused(400, () -> rows(items(), in("p1"), "SELECT VectorDistance(c.v, [1]) FROM c"));
      isTrue(e.getMessage().contains("VectorDistance is not supported"), e.getMessage());
    });
    test("hierarchical keys: items and prefixes", () -> {
      CosmosContainer co = container(properties("/t", "/d"), 12000);
      for (int i = 0; i < 12; i++) {
        co.createItem(json.createObjectNode().put("id", "" + i).put("t", "t" + i % 2).put("d", "d" + i));
      }
      PartitionKey full = new PartitionKeyBuilder().add("t1").add("d3").build();
      PartitionKey prefix = new PartitionKeyBuilder().add("t1").build();
      equal("d3", co.readItem("3", full, JsonNode.class).getItem().get("d").asText());
      CosmosQueryRequestOptions options = new CosmosQueryRequestOptions().setPartitionKey(prefix);
      equal(6, rows(co, options, "SELECT * FROM c").size());
      equal(List.of("3"), rows(co, new CosmosQueryRequestOptions().setPartitionKey(full), "SELECT VALUE c.id FROM c"));
      equal(6, rows(co, "SELECT * FROM c WHERE c.t = 't0'").size());
    });
    test("hierarchical keys: readMany and batch", () -> {
      CosmosContainer co = container(properties("/t", "/d"), 12000);
      PartitionKey full = new PartitionKeyBuilder().add("t").add("d").build();
      CosmosBatch batch = CosmosBatch.createCosmosBatch(full);
      for (String id : List.of("a", "b")) {
        batch.createItemOperation(json.createObjectNode().put("id", id).put("t", "t").put("d", "d"));
      }
      isTrue(co.executeCosmosBatch(batch).isSuccessStatusCode(), "the batch failed");
      List<CosmosItemIdentity> both = List.of(new CosmosItemIdentity(full, "a"), new CosmosItemIdentity(full, "b"));
      equal(Set.of("a", "b"), ids(co.readMany(both, JsonNode.class).getResults()));
    });
  }

  static void feeds() {
    test("change feed: of the whole container from the beginning", () -> {
      Changes got = changes(filled(30), CosmosChangeFeedRequestOptions.createForProcessingFromBeginning(
          FeedRange.forFullRange()));
      equal(30, ids(got.items()).size());
      isTrue(got.items().get(0).has("_lsn"), got.items().get(0));
    });
    test("change feed: from now, and continuation", () -> {
      CosmosContainer co = filled(10);
      Changes none = changes(co, CosmosChangeFeedRequestOptions.createForProcessingFromNow(FeedRange.forFullRange()));
      equal(0, none.items().size());
      co.createItem(item("new", "p9"));
      Changes some = changes(co, CosmosChangeFeedRequestOptions.createForProcessingFromContinuation(none.continuation()));
      equal(Set.of("new"), ids(some.items()));
    });
    test("change feed: from a time", () -> {
      CosmosContainer co = filled(5);
      Thread.sleep(1100);
      Instant time = Instant.now();
      Thread.sleep(1100);
      co.createItem(item("new", "p9"));
      equal(Set.of("new"), ids(changes(co, CosmosChangeFeedRequestOptions.createForProcessingFromPointInTime(time,
          FeedRange.forFullRange())).items()));
    });
    test("change feed: of a partition key", () -> {
      Changes got = changes(items(), CosmosChangeFeedRequestOptions.createForProcessingFromBeginning(
          FeedRange.forLogicalPartition(key("p2"))));
      isTrue(got.items().size() == 10 && got.items().stream().allMatch(i -> i.get("pk").asText().equals("p2")), got);
    });
    test("change feed: of each feed range, through its text", () -> {
      CosmosContainer co = filled(20);
      int n = 0;
      for (FeedRange range : co.getFeedRanges()) {
        n += changes(co, CosmosChangeFeedRequestOptions.createForProcessingFromBeginning(
            FeedRange.fromString(range.toString()))).items().size();
      }
      equal(20, n);
    });
    test("change feed: pages and their continuations", () -> {
      CosmosContainer co = filled(20);
      CosmosChangeFeedRequestOptions options =
          CosmosChangeFeedRequestOptions.createForProcessingFromBeginning(FeedRange.forFullRange());
      List<JsonNode> all = new ArrayList<>();
      for (int i = 0; i < 40 && all.size() < 20; i++) {
        FeedResponse<JsonNode> page =
            co.queryChangeFeed(options.setMaxItemCount(3), JsonNode.class).iterableByPage().iterator().next();
        all.addAll(page.getResults());
        options = CosmosChangeFeedRequestOptions.createForProcessingFromContinuation(page.getContinuationToken());
      }
      equal(List.of(20, 20), List.of(all.size(), ids(all).size()));
    });
    test("change feed: the latest version only, no deletes", () -> {
      CosmosContainer co = container();
      for (int i = 0; i < 3; i++) co.upsertItem(item("a", "p").put("n", i));
      co.createItem(item("b", "p"));
      co.deleteItem("b", key("p"), options());
      Changes got = changes(co, CosmosChangeFeedRequestOptions.createForProcessingFromBeginning(
          FeedRange.forFullRange()));
      equal(Set.of("a"), ids(got.items()));
      equal(2, got.items().get(0).get("n").asInt());
    });
    test("sessions: the token of a write is enough for a read elsewhere", () -> {
      CosmosContainer co = container();
      String token = co.createItem(item("a", "p")).getSessionToken();
      try (CosmosClient other = connect(System.getenv("KEY"))) {
        CosmosContainer there = other.getDatabase("java").getContainer(co.getId());
        CosmosItemRequestOptions options = options().setSessionToken(token);
        equal(200, there.readItem("a", key("p"), options, JsonNode.class).getStatusCode());
      }
    });
    String scripts = "stored procedures, triggers and functions are left out";
    for (String name : List.of("stored procedures", "triggers", "user-defined functions")) leftOut(name, scripts);
    leftOut("users and permissions", "users and permissions are left out");
    leftOut("direct mode", "clients must use the gateway");
    leftOut("queries by vectors and by rank", "queries by vectors and by scores of full text are left out");
    leftOut("change feed of all versions and deletes", "the change feed of all versions and deletes is left out");
  }

  public static void main(String[] args) {
    client = connect(System.getenv("KEY"));
    client.createDatabaseIfNotExists("java");
    database = client.getDatabase("java");
    databases();
    policies();
    items1();
    patches();
    queries();
    feeds();
    int passed = 0, failed = 0, skipped = 0;
    String only = System.getenv().getOrDefault("ONLY", "");
    for (Case c : cases) {
      if (!c.name().contains(only)) continue;
      if (c.run() == null) {
        System.out.println("skip " + c.name() + ": " + c.why());
        skipped++;
        continue;
      }
      try {
        c.run().call();
        passed++;
      } catch (Throwable e) {
        String text = String.valueOf(e.getMessage()).replace('\n', ' ');
        System.out.println("FAIL " + c.name() + ": " + text.substring(0, Math.min(300, text.length())));
        if (System.getenv("TRACE") != null) e.printStackTrace(System.out);
        failed++;
      }
    }
    System.out.printf("java-conformance: %d passed, %d failed, %d need what is left out%n", passed, failed, skipped);
    System.out.flush();
    Runtime.getRuntime().halt(failed > 0 ? 1 : 0); // the client's own threads need not end first
  }
}
