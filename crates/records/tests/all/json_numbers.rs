//! Tests JSON numbers as keys.

use firstseen_records::{ParserConfig, RecordFormat, canonical_number};

use crate::common::{config, read_text, secret};

#[test]
fn spellings_of_a_number_are_one_key() {
    // Two producers wrote to one stream, and one of them wrote 1000.0 instead of 1000. Its repeats used to be passed
    // on.
    let text = "{\"id\":1000}\n{\"id\":1e3}\n{\"id\":1000.0}\n{\"id\":1.0E+3}\n{\"id\":\"1000\"}\n{\"id\":1000.5}\n{\"id\":\"1e3\"}\n";
    let outcome = read_text(text, config(RecordFormat::Jsonl, &["id"]));
    assert_eq!(
        outcome.keys(),
        ["1000", "1000", "1000", "1000", "1000", "1000.5", "1e3"],
        "a string is not converted to a number"
    );
    for (event, value) in outcome.events.iter().zip(outcome.keys()) {
        assert_eq!(event.digest, secret().digest(value.as_bytes()), "{}", event.bytes);
    }
}

#[test]
fn large_integers_are_told_apart() {
    let text = "{\"id\":9007199254740992}\n{\"id\":9007199254740993}\n{\"id\":123456789012345678901234567890}\n{\"id\":123456789012345678901234567891}\n";
    let outcome = read_text(text, config(RecordFormat::Jsonl, &["id"]));
    let mut keys = outcome.keys();
    keys.dedup();
    assert_eq!(keys.len(), 4, "{keys:?}");
}

#[test]
fn numbers_in_keys_of_several_fields_and_in_index_lines() {
    let text = "{\"a\":{\"b\":1.50},\"c\":\"x\"}\n{\"a\":{\"b\":15e-1},\"c\":\"x\"}\n";
    let outcome = read_text(text, config(RecordFormat::Jsonl, &["a.b", "c"]));
    assert_eq!(outcome.keys(), ["1.5|x", "1.5|x"]);
    assert_eq!(outcome.events[0].digest, outcome.events[1].digest);
    let text = "org)/ 20240101120000 {\"length\":1e3}\norg)/ 20240101120000 {\"length\":1000}\n";
    let outcome = read_text(text, config(RecordFormat::Cdxj, &["length"]));
    assert_eq!(outcome.events[0].digest, outcome.events[1].digest);
}

#[test]
fn a_source_is_counted_under_one_form_and_a_time_is_read_as_written() {
    let text = "{\"k\":1,\"s\":7.0,\"t\":1.7e9}\n{\"k\":2,\"s\":7,\"t\":1700000000.50}\n{\"k\":3,\"s\":70e-1,\"t\":20240101.0}\n";
    let fields = ParserConfig {
        time: Some("t".to_owned()),
        source: Some("s".to_owned()),
        ..config(RecordFormat::Jsonl, &["k"])
    };
    let outcome = read_text(text, fields);
    let sources: Vec<_> = outcome.events.iter().map(|event| event.source.as_deref()).collect();
    assert_eq!(sources, [Some("7"); 3]);
    let times_ms: Vec<_> = outcome.events.iter().filter_map(|event| event.time_ms).collect();
    assert_eq!(times_ms, [1_700_000_000_000, 1_700_000_000_500, 1_704_067_200_000]);
}

#[test]
fn integers_and_plain_decimals_keep_their_digests() {
    // States that were saved before numbers had a canonical form stay valid.
    for number in ["0", "7", "-7", "1000", "15.26", "-0.5", "0.001", "18446744073709551616", "3.141592653589793"] {
        assert_eq!(&canonical_number(number.as_bytes())[..], number.as_bytes());
        let outcome = read_text(&format!("{{\"id\":{number}}}\n"), config(RecordFormat::Jsonl, &["id"]));
        assert_eq!(outcome.events[0].digest, secret().digest(number.as_bytes()), "{number}");
    }
}
