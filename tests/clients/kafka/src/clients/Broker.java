package clients;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import kafka.tools.StorageTool;

/**
 * Apache Kafka that ends with the process that started it. Arguments: the file of server properties, the folder of
 * the data, and the folder to delete at the end.
 *
 * <p>Formats the data folder before the first start. When the standard input ends, which also happens when the
 * process that started this one is killed, deletes the folder and halts.
 */
final class Broker {
  private Broker() {}

  public static void main(String[] arguments) {
    Path properties = Path.of(arguments[0]);
    Path data = Path.of(arguments[1]);
    Path folder = Path.of(arguments[2]);
    Thread guard = new Thread(() -> haltAfterInput(folder), "guard");
    guard.setDaemon(true);
    guard.start();
    if (!Files.exists(data.resolve("meta.properties"))) {
      String[] format = {"format", "-t", "firstseen-broker-00000", "-c", properties.toString(), "--standalone"};
      if (StorageTool.execute(format, System.err) != 0) {
        Runtime.getRuntime().halt(1);
      }
    }
    kafka.Kafka.main(new String[] {properties.toString()});
  }

  private static void haltAfterInput(Path folder) {
    try {
      while (System.in.read() >= 0) {
        // Only the end of the input has a meaning.
      }
    } catch (IOException error) {
      System.err.println("the standard input failed: " + error);
    }
    delete(folder);
    Runtime.getRuntime().halt(0);
  }

  /** Deletes as much as possible, because the broker still writes. */
  private static void delete(Path folder) {
    List<Path> paths = List.of();
    try (Stream<Path> found = Files.walk(folder)) {
      paths = found.sorted(Comparator.reverseOrder()).toList();
    } catch (IOException error) {
      System.err.println(folder + " is not deleted: " + error);
    }
    for (Path path : paths) {
      try {
        Files.deleteIfExists(path);
      } catch (IOException error) {
        System.err.println(path + " is not deleted: " + error);
      }
    }
  }
}
