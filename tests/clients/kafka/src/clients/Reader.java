package clients;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintWriter;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Prints the records of a topic in their order, from the first one in each partition to the present end. */
final class Reader {
  private static final Duration POLL = Duration.ofMillis(100);
  private static final long DEADLINE_NS = Duration.ofMinutes(2).toNanos();
  private static final long ENDS_DEADLINE_NS = Duration.ofSeconds(10).toNanos();
  private static final Duration ENDS_PAUSE = Duration.ofMillis(50);

  private final String broker;
  private final PrintWriter output;

  Reader(String broker, PrintWriter output) {
    this.broker = broker;
    this.output = output;
  }

  /** Returns the number of records. `isolation` is `read_committed` or `read_uncommitted`. */
  long read(JsonNode command) throws InterruptedException {
    try (var consumer = consumer(command.get("isolation").asText())) {
      List<TopicPartition> partitions = consumer.partitionsFor(command.get("topic").asText()).stream()
          .map(found -> new TopicPartition(found.topic(), found.partition()))
          .toList();
      consumer.assign(partitions);
      consumer.seekToBeginning(partitions);
      return print(consumer, ends(consumer, partitions));
    }
  }

  private KafkaConsumer<byte[], byte[]> consumer(String isolation) {
    Map<String, Object> settings = Map.of(
        ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, broker,
        ConsumerConfig.ISOLATION_LEVEL_CONFIG, isolation,
        ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "none",
        ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG, false);
    return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
  }

  /**
   * Returns the ends of the partitions. For a consumer of committed records these are the last stable offsets. The broker
   * says that a transaction is committed before it moves these offsets, so this method waits until they include everything
   * that was written. A transaction that stays open ends the wait after ten seconds.
   */
  private Map<TopicPartition, Long> ends(KafkaConsumer<byte[], byte[]> consumer, List<TopicPartition> partitions)
      throws InterruptedException {
    Map<TopicPartition, Long> written;
    try (var everything = consumer("read_uncommitted")) {
      written = everything.endOffsets(partitions);
    }
    long deadline = System.nanoTime() + ENDS_DEADLINE_NS;
    while (true) {
      Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
      boolean isWhole = written.entrySet().stream().allMatch(end -> ends.get(end.getKey()) >= end.getValue());
      if (isWhole || System.nanoTime() > deadline) {
        return ends;
      }
      Thread.sleep(ENDS_PAUSE.toMillis());
    }
  }

  private long print(KafkaConsumer<byte[], byte[]> consumer, Map<TopicPartition, Long> ends) {
    long count = 0;
    long deadline = System.nanoTime() + DEADLINE_NS;
    while (ends.entrySet().stream().anyMatch(end -> consumer.position(end.getKey()) < end.getValue())) {
      for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
        if (record.offset() < ends.get(new TopicPartition(record.topic(), record.partition()))) {
          output.println(line(record));
          count += 1;
        }
      }
      if (System.nanoTime() > deadline) {
        throw new IllegalStateException("not read up to " + ends + " after two minutes");
      }
    }
    return count;
  }

  private static ObjectNode line(ConsumerRecord<byte[], byte[]> record) {
    ObjectNode line = KafkaClient.JSON.createObjectNode();
    line.put("partition", record.partition());
    line.put("offset", record.offset());
    line.put("timestamp", record.timestamp());
    line.put("key", Bytes.text(record.key()));
    line.put("value", Bytes.text(record.value()));
    ArrayNode headers = line.putArray("headers");
    for (Header header : record.headers()) {
      headers.addArray().add(header.key()).add(Bytes.text(header.value()));
    }
    return line;
  }
}
