import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.stream.IntStream;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.core.RedisCallback;
import org.springframework.data.redis.core.StringRedisTemplate;

/**
 * Runs a Spring service that uses `setIfAbsent` and sets, with the Redis endpoint as its server. The argument is the
 * port of the endpoint.
 */
final class Template {
  private static final int EVENTS = 200;
  private static final int WORKERS = 8;

  private Template() {}

  public static void main(String[] arguments) throws InterruptedException {
    String node = "127.0.0.1";
    int port = Integer.parseInt(arguments[0]);
    // shown in docs/reference/redis.md
    LettuceConnectionFactory factory = new LettuceConnectionFactory(node, port);
    // shown until here
    factory.afterPropertiesSet();
    factory.start();
    StringRedisTemplate template = new StringRedisTemplate(factory);
    List<String> events = IntStream.range(0, EVENTS).mapToObj(number -> "event-" + number).toList();

    // If several workers get the same event at the same time, one of them handles it.
    Set<String> handled = new ConcurrentSkipListSet<>();
    List<Thread> workers = IntStream.range(0, WORKERS).mapToObj(
        worker -> new Thread(() -> events.forEach(event -> {
          if (isNew(template, event) && !handled.add(event)) {
            throw new IllegalStateException(event + " was new twice");
          }
        }))).toList();
    workers.forEach(Thread::start);
    for (Thread worker : workers) {
      worker.join();
    }
    check(handled.equals(new TreeSet<>(events)), "every event was new to one worker: " + handled);

    // In a pipeline, the replies are in the order of their commands.
    List<Object> replies = template.executePipelined((RedisCallback<Object>) connection -> {
      for (String event : List.of("event-0", "piped-0", "piped-1", "piped-0")) {
        connection.stringCommands().set(("clicks:" + event).getBytes(), "1".getBytes(),
            org.springframework.data.redis.core.types.Expiration.seconds(600),
            org.springframework.data.redis.connection.RedisStringCommands.SetOption.SET_IF_ABSENT);
      }
      return null;
    });
    check(replies.stream().map(Boolean.TRUE::equals).toList().equals(List.of(false, true, true, false)), replies);

    check(template.opsForSet().add("clicks", "item", "item") == 1, "SADD counts what is new");
    check(Boolean.TRUE.equals(template.opsForSet().isMember("clicks", "item")), "SISMEMBER");
    check(Boolean.TRUE.equals(template.hasKey("clicks:event-0")), "EXISTS");
    check(!Boolean.TRUE.equals(template.hasKey("clicks:never")), "EXISTS of what was not seen");
    factory.destroy();
    System.out.println("every event once");
  }

  private static boolean isNew(StringRedisTemplate template, String event) {
    // shown in docs/reference/redis.md
    Boolean isNew = template.opsForValue().setIfAbsent("clicks:" + event, "1", Duration.ofMinutes(10));
    // shown until here
    return Boolean.TRUE.equals(isNew);
  }

  private static void check(boolean isSo, Object what) {
    if (!isSo) {
      throw new IllegalStateException(String.valueOf(what));
    }
  }
}
