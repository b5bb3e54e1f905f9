package clients;

import java.util.List;

/** A client of the door, by its own methods. A pipeline throws nothing: each reply is a verdict or an error. */
interface Client extends AutoCloseable {
  String name();

  /** Sends SET NX EX for one event. */
  boolean isNew(String event);

  /** Sends the same for many events as a pipeline. */
  List<Answer> areNew(List<String> events);

  /** Sets one key twice, adds an item and asks about the key, by MULTI and EXEC. */
  List<Object> transaction();

  List<Boolean> bloom();

  /** Sends a command that the client does not know. Numbers are long, texts are String. */
  Object send(String... words);

  /** Tells errors of the door from those of the connection. */
  boolean isReply(Exception error);

  /** One connection: what is claimed on it can be confirmed and released on it. */
  Connection hold();

  @Override
  void close();

  /** A verdict, or an error. */
  record Answer(boolean isNew, Exception error) {}

  /** One connection. */
  interface Connection extends AutoCloseable {
    Object send(String... words);

    /** Sends SET NX PX. */
    boolean set(String key, long leaseMs);

    long delete(String key);

    @Override
    void close();
  }
}
