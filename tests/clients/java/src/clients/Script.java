package clients;

import com.google.gson.Gson;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

/** Executes the script of ../README.md. */
final class Script {
  private Script() {}

  static String word(boolean isNew) {
    return isNew ? "new" : "seen";
  }

  static List<String> numbered(String beginning, int count) {
    return IntStream.range(0, count).mapToObj(number -> beginning + "-" + number).toList();
  }

  static void tell(String step, Object saw) {
    tell(step, saw, Map.of());
  }

  static void tell(String step, Object saw, Map<String, Object> more) {
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("step", step);
    line.put("saw", saw);
    line.putAll(more);
    System.out.println(new Gson().toJson(line));
  }

  private static List<String> pipelined(Client client, List<String> events) {
    List<String> words = new ArrayList<>();
    for (Client.Answer answer : client.areNew(events)) {
      if (answer.error() != null) {
        throw new IllegalStateException(answer.error());
      }
      words.add(word(answer.isNew()));
    }
    return words;
  }

  private static List<Object> claims(Client client) {
    try (Client.Connection mine = client.hold(); Client.Connection other = client.hold()) {
      List<Object> saw = new ArrayList<>();
      saw.add(mine.send("FS.CLAIM", "jobs:1", "PX", "60000"));
      saw.add(other.send("FS.CLAIM", "jobs:1", "PX", "60000"));
      saw.add(mine.send("FS.CONFIRM", "jobs:1"));
      saw.add(other.send("FS.CLAIM", "jobs:1", "PX", "60000"));
      List<?> granted = (List<?>) mine.send("FS.CLAIM", "jobs:2", "PX", "60000", "WITHFENCE");
      saw.add(granted.get(0));
      saw.add(other.send("FS.CONFIRM", "jobs:2", "FENCE", (String) granted.get(1)));
      saw.add(word(mine.set("jobs:3", 60_000)));
      saw.add(word(other.set("jobs:3", 60_000)));
      saw.add(mine.delete("jobs:3"));
      saw.add(word(other.set("jobs:3", 60_000)));
      return saw;
    }
  }

  private static String refused(Client client) {
    try {
      return String.valueOf(client.send("SET", "clicks:too-long", "1", "NX", "EX", "7200"));
    } catch (RuntimeException error) {
      return error.getMessage();
    }
  }

  static void run(Client client) throws IOException, InterruptedException {
    List<String> first = numbered("alone", 20);
    List<String> many = numbered("pipelined", 1000);
    tell("connect", client.send("PING"));
    List<String> twice = new ArrayList<>(first);
    twice.addAll(first);
    tell("alone", twice.stream().map(event -> word(client.isNew(event))).toList());
    tell("pipelined", pipelined(client, many.stream().flatMap(event -> List.of(event, event).stream()).toList()));
    tell("transaction", client.transaction());
    tell("bloom", client.bloom());
    tell("claims", claims(client));
    tell("refused", refused(client));
    List<Round> rounds = new ArrayList<>();
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null && !line.equals("over"); line = lines.readLine()) {
      Round round = new Round(client, rounds.size());
      rounds.add(round);
      round.run();
    }
    List<String> known = new ArrayList<>(first);
    known.addAll(many);
    rounds.forEach(round -> known.addAll(round.events()));
    tell("again", pipelined(client, known));
    List<Long> named = new ArrayList<>();
    rounds.forEach(round -> named.addAll(round.observe()));
    tell("named again", named);
    client.close();
  }
}
