package clients;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Writes records to given partitions, in the given order in each partition. */
final class Writer implements AutoCloseable {
  private final String broker;
  private final KafkaProducer<byte[], byte[]> plain;

  Writer(String broker) {
    this.broker = broker;
    this.plain = new KafkaProducer<>(settings(), new ByteArraySerializer(), new ByteArraySerializer());
  }

  private Map<String, Object> settings() {
    return Map.of(
        ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, broker,
        ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, true,
        ProducerConfig.MAX_REQUEST_SIZE_CONFIG, 16 << 20,
        ProducerConfig.BUFFER_MEMORY_CONFIG, 48 << 20,
        ProducerConfig.COMPRESSION_TYPE_CONFIG, "lz4");
  }

  /** Returns the offsets. With the field `transaction`, the records form a transaction that is committed or aborted. */
  List<Long> write(JsonNode command) throws Exception {
    String topic = command.get("topic").asText();
    if (!command.has("transaction")) {
      return send(plain, topic, command.get("records"));
    }
    Map<String, Object> settings = new HashMap<>(settings());
    settings.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, "writer-" + UUID.randomUUID());
    try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
      producer.initTransactions();
      producer.beginTransaction();
      List<Long> offsets = send(producer, topic, command.get("records"));
      if (command.get("transaction").asText().equals("abort")) {
        producer.abortTransaction();
      } else {
        producer.commitTransaction();
      }
      return offsets;
    }
  }

  private static List<Long> send(KafkaProducer<byte[], byte[]> producer, String topic, JsonNode records)
      throws Exception {
    List<Future<RecordMetadata>> sent = new ArrayList<>();
    for (JsonNode record : records) {
      Long timestamp = record.get("timestamp").isNull() ? null : record.get("timestamp").asLong();
      byte[] key = Bytes.of(record.get("key"));
      byte[] value = Bytes.of(record.get("value"));
      var message = new ProducerRecord<>(topic, record.get("partition").asInt(), timestamp, key, value);
      for (JsonNode header : record.get("headers")) {
        message.headers().add(header.get(0).asText(), Bytes.of(header.get(1)));
      }
      sent.add(producer.send(message));
    }
    producer.flush();
    List<Long> offsets = new ArrayList<>();
    for (Future<RecordMetadata> one : sent) {
      offsets.add(one.get().offset());
    }
    return offsets;
  }

  @Override
  public void close() {
    plain.close(Duration.ZERO);
  }
}
