package clients;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;

/**
 * Writes, reads and administers topics of the broker whose address is the argument. Executes one command for each
 * line of JSON on the standard input.
 *
 * <p>Replies to each command with one line, which has the field `done` or `error`. The command `read` prints one line
 * for each record before that.
 */
final class KafkaClient implements AutoCloseable {
  static final ObjectMapper JSON = new ObjectMapper();

  private final Admins admins;
  private final Writer writer;
  private final Reader reader;
  private final PrintWriter output;

  private KafkaClient(String broker, PrintWriter output) {
    this.output = output;
    this.admins = new Admins(broker);
    this.writer = new Writer(broker);
    this.reader = new Reader(broker, output);
  }

  public static void main(String[] arguments) throws IOException {
    var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    var output = new PrintWriter(new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8)));
    try (var client = new KafkaClient(arguments[0], output)) {
      for (String line = input.readLine(); line != null; line = input.readLine()) {
        client.reply(JSON.readTree(line));
      }
    }
    // Threads of a client that waits for a broker which is gone would keep the process alive.
    Runtime.getRuntime().halt(0);
  }

  private void reply(JsonNode command) {
    ObjectNode reply = JSON.createObjectNode();
    try {
      reply.set("done", JSON.valueToTree(execute(command)));
    } catch (Exception error) {
      Throwable cause = error.getCause() == null ? error : error.getCause();
      reply.put("error", cause.toString());
    }
    output.println(reply);
    output.flush();
  }

  private Object execute(JsonNode command) throws Exception {
    return switch (command.get("do").asText()) {
      case "create topic" -> admins.createTopic(command);
      case "delete topic" -> admins.deleteTopic(command);
      case "alter topic" -> admins.alterTopic(command);
      case "delete records" -> admins.deleteRecords(command);
      case "offsets" -> admins.offsets(command);
      case "committed" -> admins.committed(command);
      case "group" -> admins.group(command);
      case "transactions" -> admins.transactions();
      case "write" -> writer.write(command);
      case "read" -> reader.read(command);
      default -> throw new IllegalArgumentException("unknown command " + command);
    };
  }

  @Override
  public void close() {
    admins.close();
    writer.close();
  }
}
