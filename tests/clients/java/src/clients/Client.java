package clients;

import java.util.List;

/**
 * Client of the Redis endpoint, which uses the methods of its client library. A pipeline throws no exception, because
 * each reply is a verdict or an error.
 */
interface Client extends AutoCloseable {
  String name();

  /** Sends SET NX EX for one event. */
  boolean isNew(String event);

  /** Sends SET NX EX for many events in a pipeline. */
  List<Answer> areNew(List<String> events);

  /** Sets one key twice, adds an item and looks up the key, between MULTI and EXEC. */
  List<Object> transaction();

  List<Boolean> bloom();

  /** Sends a command for which the client library has no method. Numbers are returned as Long, and texts as String. */
  Object send(String... words);

  /** Returns whether an error is a reply of the endpoint, and not an error of the connection. */
  boolean isReply(Exception error);

  /** Opens a single connection. Claims on it can be confirmed and released on the same connection. */
  Connection hold();

  @Override
  void close();

  /** Verdict or error. */
  record Answer(boolean isNew, Exception error) {}

  /** Single connection to the endpoint. */
  interface Connection extends AutoCloseable {
    Object send(String... words);

    /** Sends SET NX PX. */
    boolean set(String key, long leaseMs);

    long delete(String key);

    @Override
    void close();
  }
}
