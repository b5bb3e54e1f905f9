package clients;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.Response;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.util.SafeEncoder;

/** Executes the script of ../README.md with jedis. The argument is the port of the Redis endpoint. */
final class JedisClient implements Client {
  private final String node;
  private final int port;
  private final RedisClient jedis;

  private JedisClient(String node, int port) {
    this.node = node;
    this.port = port;
    // shown in docs/reference/redis.md
    RedisClient jedis = RedisClient.create(node, port);
    // shown until here
    this.jedis = jedis;
  }

  public static void main(String[] arguments) throws Exception {
    Script.run(new JedisClient("127.0.0.1", Integer.parseInt(arguments[0])));
  }

  @Override
  public String name() {
    return "jedis";
  }

  @Override
  public boolean isNew(String event) {
    // shown in docs/reference/redis.md
    boolean isNew = jedis.set("clicks:" + event, "1", SetParams.setParams().nx().ex(600)) != null;
    // shown until here
    return isNew;
  }

  @Override
  public List<Answer> areNew(List<String> events) {
    try {
      return pipelined(events).stream().map(JedisClient::answer).toList();
    } catch (RuntimeException error) {
      return events.stream().map(event -> new Answer(false, error)).toList();
    }
  }

  private List<Response<String>> pipelined(List<String> events) {
    List<Response<String>> replies = new ArrayList<>();
    // shown in docs/reference/redis.md
    try (Pipeline pipeline = jedis.pipelined()) {
      for (String event : events) {
        replies.add(pipeline.set("clicks:" + event, "1", SetParams.setParams().nx().ex(600)));
      }
      pipeline.sync(); // each reply has its own `get()`
    }
    // shown until here
    return replies;
  }

  private static Answer answer(Response<String> reply) {
    try {
      return new Answer(reply.get() != null, null);
    } catch (RuntimeException error) {
      return new Answer(false, error);
    }
  }

  @Override
  public List<Object> transaction() {
    try (AbstractTransaction transaction = jedis.multi()) {
      SetParams isNew = SetParams.setParams().nx().ex(600);
      transaction.set("clicks:transaction", "1", isNew);
      transaction.set("clicks:transaction", "1", isNew);
      transaction.sadd("clicks", "transaction-item");
      transaction.exists("clicks:transaction");
      List<Object> replies = transaction.exec();
      boolean exists = (Boolean) replies.get(3);
      return List.of(
          Script.word(replies.get(0) != null), Script.word(replies.get(1) != null), replies.get(2), exists ? 1 : 0);
    }
  }

  @Override
  public List<Boolean> bloom() {
    List<Boolean> saw = new ArrayList<>();
    saw.add(jedis.bfAdd("clicks", "bloom"));
    saw.add(jedis.bfAdd("clicks", "bloom"));
    saw.addAll(jedis.bfMAdd("clicks", "bloom", "bloom-2"));
    saw.add(jedis.bfExists("clicks", "bloom-2"));
    saw.add(jedis.bfExists("clicks", "bloom-3"));
    return saw;
  }

  @Override
  public Object send(String... words) {
    CommandArguments arguments = new CommandArguments(named(words[0]));
    return plain(jedis.executeCommand(arguments.addObjects(List.of(rest(words)))));
  }

  @Override
  public boolean isReply(Exception error) {
    return error instanceof JedisDataException;
  }

  @Override
  public Connection hold() {
    Jedis connection = new Jedis(node, port);
    return new Connection() {
      @Override
      public Object send(String... words) {
        return plain(connection.sendCommand(named(words[0]), rest(words)));
      }

      @Override
      public boolean set(String key, long leaseMs) {
        return connection.set(key, "1", SetParams.setParams().nx().px(leaseMs)) != null;
      }

      @Override
      public long delete(String key) {
        return connection.del(key);
      }

      @Override
      public void close() {
        connection.close();
      }
    };
  }

  @Override
  public void close() {
    jedis.close();
  }

  private static ProtocolCommand named(String name) {
    return () -> SafeEncoder.encode(name);
  }

  private static String[] rest(String[] words) {
    return Arrays.copyOfRange(words, 1, words.length);
  }

  private static Object plain(Object reply) {
    if (reply instanceof byte[] bytes) {
      return SafeEncoder.encode(bytes);
    }
    if (reply instanceof List<?> several) {
      return several.stream().map(JedisClient::plain).toList();
    }
    return reply;
  }
}
