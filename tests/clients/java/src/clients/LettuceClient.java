package clients;

import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.SetArgs;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;

/** Executes the script of ../README.md with lettuce. The argument is the port of the Redis endpoint. */
final class LettuceClient implements Client {
  private final RedisClient client;
  private final StatefulRedisConnection<String, String> connection;
  private final RedisCommands<String, String> sync;

  private LettuceClient(String node, int port) {
    // shown in docs/reference/redis.md
    RedisClient client = RedisClient.create("redis://" + node + ":" + port);
    StatefulRedisConnection<String, String> connection = client.connect();
    RedisCommands<String, String> sync = connection.sync();
    // shown until here
    this.client = client;
    this.connection = connection;
    this.sync = sync;
  }

  public static void main(String[] arguments) throws Exception {
    Script.run(new LettuceClient("127.0.0.1", Integer.parseInt(arguments[0])));
  }

  @Override
  public String name() {
    return "lettuce";
  }

  @Override
  public boolean isNew(String event) {
    // shown in docs/reference/redis.md
    boolean isNew = sync.set("clicks:" + event, "1", SetArgs.Builder.nx().ex(600)) != null;
    // shown until here
    return isNew;
  }

  @Override
  public List<Answer> areNew(List<String> events) {
    List<RedisFuture<String>> replies = new ArrayList<>();
    // shown in docs/reference/redis.md
    for (String event : events) { // commands that do not wait for replies form a pipeline
      replies.add(connection.async().set("clicks:" + event, "1", SetArgs.Builder.nx().ex(600)));
    }
    // shown until here
    return replies.stream().map(LettuceClient::answer).toList();
  }

  private static Answer answer(RedisFuture<String> reply) {
    try {
      return new Answer(reply.get() != null, null);
    } catch (ExecutionException error) {
      return new Answer(false, (Exception) error.getCause());
    } catch (InterruptedException error) {
      throw new IllegalStateException(error);
    }
  }

  @Override
  public List<Object> transaction() {
    sync.multi();
    sync.set("clicks:transaction", "1", SetArgs.Builder.nx().ex(600));
    sync.set("clicks:transaction", "1", SetArgs.Builder.nx().ex(600));
    sync.sadd("clicks", "transaction-item");
    sync.exists("clicks:transaction");
    TransactionResult replies = sync.exec();
    return List.of(
        Script.word(replies.get(0) != null), Script.word(replies.get(1) != null), replies.get(2), replies.get(3));
  }

  @Override
  public List<Boolean> bloom() {
    List<Boolean> saw = new ArrayList<>();
    saw.add(sync.bfAdd("clicks", "bloom"));
    saw.add(sync.bfAdd("clicks", "bloom"));
    saw.addAll(sync.bfMAdd("clicks", "bloom", "bloom-2"));
    saw.add(sync.bfExists("clicks", "bloom-2"));
    saw.add(sync.bfExists("clicks", "bloom-3"));
    return saw;
  }

  @Override
  public Object send(String... words) {
    return send(sync, words);
  }

  @Override
  public boolean isReply(Exception error) {
    return error instanceof RedisCommandExecutionException;
  }

  @Override
  public Connection hold() {
    StatefulRedisConnection<String, String> held = client.connect();
    return new Connection() {
      @Override
      public Object send(String... words) {
        return LettuceClient.send(held.sync(), words);
      }

      @Override
      public boolean set(String key, long leaseMs) {
        return held.sync().set(key, "1", SetArgs.Builder.nx().px(leaseMs)) != null;
      }

      @Override
      public long delete(String key) {
        return held.sync().del(key);
      }

      @Override
      public void close() {
        held.close();
      }
    };
  }

  @Override
  public void close() {
    client.shutdown();
  }

  private static Object send(RedisCommands<String, String> to, String... words) {
    CommandArgs<String, String> arguments = new CommandArgs<>(StringCodec.UTF8);
    for (int place = 1; place < words.length; place++) {
      arguments.add(words[place]);
    }
    ProtocolKeyword name = () -> words[0].getBytes(StandardCharsets.UTF_8);
    return to.dispatch(name, new PlainOutput(), arguments);
  }
}
