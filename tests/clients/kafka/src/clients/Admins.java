package clients;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** Creates, changes and describes topics and groups. */
final class Admins implements AutoCloseable {
  private final Admin admin;

  Admins(String broker) {
    this.admin = Admin.create(Map.of(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, broker));
  }

  /** Returns the id of the new topic, which other clients find from now on. */
  String createTopic(JsonNode command) throws Exception {
    String name = command.get("topic").asText();
    var topic = new NewTopic(name, Optional.of(command.get("partitions").asInt()), Optional.empty());
    topic.configs(strings(command.get("config")));
    String id = create(topic);
    while (!isDescribed(name)) {
      Thread.onSpinWait();
    }
    return id;
  }

  /** Waits while a broker that was started again is not yet known to its controller. */
  private String create(NewTopic topic) throws Exception {
    long deadline = System.nanoTime() + Duration.ofMinutes(1).toNanos();
    while (true) {
      try {
        return admin.createTopics(List.of(topic)).topicId(topic.name()).get().toString();
      } catch (ExecutionException error) {
        boolean isEarly = error.getCause() instanceof InvalidReplicationFactorException;
        if (!isEarly || System.nanoTime() > deadline) {
          throw error;
        }
      }
    }
  }

  /** Returns when no client finds the topic any more. */
  boolean deleteTopic(JsonNode command) throws Exception {
    String name = command.get("topic").asText();
    admin.deleteTopics(List.of(name)).all().get();
    while (isDescribed(name)) {
      Thread.onSpinWait();
    }
    return true;
  }

  private boolean isDescribed(String topic) throws Exception {
    try {
      admin.describeTopics(List.of(topic)).allTopicNames().get();
      return true;
    } catch (ExecutionException error) {
      if (error.getCause() instanceof UnknownTopicOrPartitionException) {
        return false;
      }
      throw error;
    }
  }

  boolean alterTopic(JsonNode command) throws Exception {
    var topic = new ConfigResource(ConfigResource.Type.TOPIC, command.get("topic").asText());
    List<AlterConfigOp> changes = new ArrayList<>();
    strings(command.get("config")).forEach((name, value) ->
        changes.add(new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)));
    admin.incrementalAlterConfigs(Map.of(topic, changes)).all().get();
    return true;
  }

  /** Deletes the records of one partition before an offset. */
  boolean deleteRecords(JsonNode command) throws Exception {
    var partition = new TopicPartition(command.get("topic").asText(), command.get("partition").asInt());
    var before = RecordsToDelete.beforeOffset(command.get("before").asLong());
    admin.deleteRecords(Map.of(partition, before)).all().get();
    return true;
  }

  /** Returns the offsets of all partitions: `earliest`, `latest` (the high watermark) or `stable`. */
  List<Long> offsets(JsonNode command) throws Exception {
    String which = command.get("which").asText();
    OffsetSpec spec = which.equals("earliest") ? OffsetSpec.earliest() : OffsetSpec.latest();
    Map<TopicPartition, OffsetSpec> wanted = new HashMap<>();
    List<TopicPartition> partitions = partitions(command.get("topic").asText());
    partitions.forEach(partition -> wanted.put(partition, spec));
    IsolationLevel level = which.equals("stable") ? IsolationLevel.READ_COMMITTED : IsolationLevel.READ_UNCOMMITTED;
    var found = admin.listOffsets(wanted, new ListOffsetsOptions(level)).all().get();
    return partitions.stream().map(partition -> found.get(partition).offset()).collect(Collectors.toList());
  }

  /** Returns the committed offset of each partition of a topic, or null where a group has committed none. */
  List<Long> committed(JsonNode command) throws Exception {
    List<Long> offsets = new ArrayList<>();
    Map<TopicPartition, OffsetAndMetadata> found = Map.of();
    try {
      found = admin.listConsumerGroupOffsets(command.get("group").asText()).partitionsToOffsetAndMetadata().get();
    } catch (ExecutionException error) {
      if (!(error.getCause() instanceof GroupIdNotFoundException)) {
        throw error;
      }
    }
    for (TopicPartition partition : partitions(command.get("topic").asText())) {
      var offset = found.get(partition);
      offsets.add(offset == null ? null : offset.offset());
    }
    return offsets;
  }

  /** Returns the state of a group and the number of partitions that each member owns. */
  Map<String, Object> group(JsonNode command) throws Exception {
    String name = command.get("group").asText();
    try {
      var group = admin.describeConsumerGroups(List.of(name)).all().get().get(name);
      List<Integer> owned =
          group.members().stream().map(member -> member.assignment().topicPartitions().size()).toList();
      return Map.of("state", group.groupState().toString(), "owned", owned);
    } catch (ExecutionException error) {
      if (error.getCause() instanceof GroupIdNotFoundException) {
        return Map.of("state", "Dead", "owned", List.of());
      }
      throw error;
    }
  }

  /** Returns the transactional ids that the broker knows, with their states. */
  Map<String, String> transactions() throws Exception {
    Map<String, String> states = new HashMap<>();
    for (var transaction : admin.listTransactions().all().get()) {
      states.put(transaction.transactionalId(), transaction.state().toString());
    }
    return states;
  }

  private List<TopicPartition> partitions(String topic) throws Exception {
    int count = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
    return IntStream.range(0, count).mapToObj(number -> new TopicPartition(topic, number)).toList();
  }

  private static Map<String, String> strings(JsonNode object) {
    Map<String, String> strings = new HashMap<>();
    object.properties().forEach(entry -> strings.put(entry.getKey(), entry.getValue().asText()));
    return strings;
  }

  @Override
  public void close() {
    admin.close(Duration.ZERO);
  }
}
