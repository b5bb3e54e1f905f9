package clients;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;

/** Bytes in JSON: a string in which each character is one byte, or null. */
final class Bytes {
  private Bytes() {}

  static byte[] of(JsonNode node) {
    return node == null || node.isNull() ? null : node.asText().getBytes(StandardCharsets.ISO_8859_1);
  }

  static String text(byte[] bytes) {
    return bytes == null ? null : new String(bytes, StandardCharsets.ISO_8859_1);
  }
}
