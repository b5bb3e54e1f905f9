package clients;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeSet;

/** Answers to the events of a round. Events that are undecided, or were never answered, are sent again. */
final class Round {
  private static final int EVENTS = 100;
  private static final long PATIENCE_MS = 120_000;

  private final Client client;
  private final int number;
  private final Map<String, String> verdicts = new LinkedHashMap<>();
  private final TreeSet<String> heard = new TreeSet<>();
  private List<Long> named;
  private int tries;

  Round(Client client, int number) {
    this.client = client;
    this.number = number;
    Script.numbered("round-" + number, EVENTS).forEach(event -> verdicts.put(event, null));
  }

  List<String> events() {
    return List.copyOf(verdicts.keySet());
  }

  void run() throws InterruptedException {
    long deadline = System.currentTimeMillis() + PATIENCE_MS;
    while (!attempt()) {
      if (System.currentTimeMillis() > deadline) {
        throw new IllegalStateException("no verdict: " + heard);
      }
      Thread.sleep(20);
    }
    Script.tell("round", verdicts.values(), Map.of("named", named, "tries", tries, "heard", heard));
  }

  /** Records the named events. Because of the name, a retry gets its first verdicts. */
  List<Long> observe() {
    List<String> words = new ArrayList<>();
    words.addAll(List.of("FS.OBSERVE", "clicks", "ID", client.name(), String.valueOf(number * EVENTS), "ITEMS"));
    words.addAll(Script.numbered("named-" + number, EVENTS));
    List<?> codes = (List<?>) client.send(words.toArray(new String[0]));
    return codes.stream().map(code -> (Long) code).toList();
  }

  private boolean attempt() {
    tries++;
    askNamed();
    askKeys();
    return named != null && verdicts.values().stream().allMatch(Objects::nonNull);
  }

  private void failed(Exception error) {
    if (client.isReply(error)) {
      heard.add(error.getMessage());
    }
  }

  private void askNamed() {
    if (named != null) {
      return;
    }
    List<Long> codes;
    try {
      codes = observe();
    } catch (RuntimeException error) {
      failed(error);
      return;
    }
    codes.stream().filter(code -> code < 0).forEach(code -> heard.add("UNDECIDED " + code));
    if (codes.stream().allMatch(code -> code >= 0)) {
      named = codes;
    }
  }

  private void askKeys() {
    List<String> open = events().stream().filter(event -> verdicts.get(event) == null).toList();
    List<Client.Answer> answers = client.areNew(open);
    for (int place = 0; place < open.size(); place++) {
      Client.Answer answer = answers.get(place);
      if (answer.error() != null) {
        failed(answer.error());
      } else {
        verdicts.put(open.get(place), Script.word(answer.isNew()));
      }
    }
  }
}
