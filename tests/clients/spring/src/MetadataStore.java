import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.integration.redis.metadata.RedisMetadataStore;
import org.springframework.integration.selector.MetadataStoreSelector;
import org.springframework.messaging.Message;
import org.springframework.messaging.support.GenericMessage;

/**
 * Runs Spring Integration's idempotent receiver, with the Redis endpoint as the server of its metadata store. The
 * argument is the port of the endpoint.
 */
final class MetadataStore {
  private static final int EVENTS = 200;

  private MetadataStore() {}

  public static void main(String[] arguments) {
    LettuceConnectionFactory factory = new LettuceConnectionFactory("127.0.0.1", Integer.parseInt(arguments[0]));
    factory.afterPropertiesSet();
    factory.start();
    // The key of the store's hash is the name of the filter.
    RedisMetadataStore store = new RedisMetadataStore(factory, "clicks");
    MetadataStoreSelector selector = new MetadataStoreSelector(message -> (String) message.getPayload(), store);
    List<Message<?>> messages =
        IntStream.range(0, EVENTS).<Message<?>>mapToObj(number -> new GenericMessage<>("event-" + number)).toList();
    List<Boolean> accepted = Stream.concat(messages.stream(), messages.stream()).map(selector::accept).toList();
    List<Boolean> wanted = IntStream.range(0, 2 * EVENTS).mapToObj(number -> number < EVENTS).toList();
    if (!accepted.equals(wanted)) {
      throw new IllegalStateException("each message is accepted once: " + accepted);
    }
    factory.destroy();
    System.out.println("every message once");
  }
}
