package clients;

import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.CommandOutput;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;

/** Reply to a command for which lettuce has no method: Long, String, or a list of these. */
final class PlainOutput extends CommandOutput<String, String, Object> {
  private final Deque<List<Object>> open = new ArrayDeque<>();

  PlainOutput() {
    super(StringCodec.UTF8, null);
  }

  @Override
  public void set(ByteBuffer bytes) {
    put(bytes == null ? null : decodeString(bytes));
  }

  @Override
  public void set(long integer) {
    put(integer);
  }

  @Override
  public void multi(int count) {
    List<Object> list = new ArrayList<>();
    put(list);
    open.push(list);
  }

  @Override
  public void complete(int depth) {
    if (depth < open.size()) {
      open.pop();
    }
  }

  private void put(Object value) {
    if (open.isEmpty()) {
      output = value;
    } else {
      open.peek().add(value);
    }
  }
}
