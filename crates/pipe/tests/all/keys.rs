//! Keys and times of messages, compared with the parser of `firstseen dedup`.

use firstseen_filter::{Digest, FilterSecret};
use firstseen_pipe::{EventReader, Events, KeySources, Message, Outcome, PartitionFilter, Rejection, TimeSource};
use firstseen_records::{BlockOptions, BlockReader, ParsedBlock, ParserConfig, RecordFormat, RecordParser};

use crate::filters::definition;

/// A message of a test.
#[derive(Clone, Debug, Default)]
pub(crate) struct TestMessage {
    pub(crate) offset: i64,
    pub(crate) timestamp_ms: Option<i64>,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
}

impl Message for TestMessage {
    fn offset(&self) -> i64 {
        self.offset
    }

    fn timestamp_ms(&self) -> Option<i64> {
        self.timestamp_ms
    }

    fn key(&self) -> Option<&[u8]> {
        self.key.as_deref()
    }

    fn value(&self) -> Option<&[u8]> {
        self.value.as_deref()
    }

    fn read_header(&self, name: &str, value: &mut Vec<u8>) -> bool {
        let last = self.headers.iter().rev().find(|(found, _)| found == name);
        last.inspect(|(_, bytes)| value.extend_from_slice(bytes)).is_some()
    }

    fn size_bytes(&self) -> usize {
        self.value.as_ref().map_or(0, Vec::len)
    }
}

fn secret() -> FilterSecret {
    FilterSecret::from_seed(7)
}

pub(crate) fn reader(keys: &[&str], time: &str, needs_time: bool) -> EventReader {
    let keys = KeySources::new(keys.iter().map(|key| key.parse().unwrap()));
    EventReader::new(keys, time.parse().unwrap(), needs_time, secret()).unwrap()
}

fn with_value(value: &[u8]) -> TestMessage {
    TestMessage { value: Some(value.to_vec()), timestamp_ms: Some(1), ..TestMessage::default() }
}

/// Returns the outcomes of messages for a filter without a window.
fn outcomes(reader: &mut EventReader, messages: &[TestMessage]) -> Vec<Outcome> {
    let mut events = Events::default();
    reader.read(messages, &mut events).unwrap();
    let mut outcomes = Vec::new();
    PartitionFilter::build(&definition("unbounded")).unwrap().decide(&events, 0, &mut outcomes);
    assert_eq!(outcomes.len(), messages.len(), "one outcome for each message");
    outcomes
}

/// Returns the digests that `firstseen dedup --format jsonl` computes.
fn digests_of_dedup(key: &[&str], lines: &[u8]) -> Vec<Digest> {
    let key = key.iter().map(ToString::to_string).collect();
    let config = ParserConfig { key, ..ParserConfig::new(RecordFormat::Jsonl) };
    let mut parser = RecordParser::new(config, secret()).unwrap();
    let mut blocks = BlockReader::new(lines, BlockOptions::for_format(RecordFormat::Jsonl));
    let mut block = firstseen_records::Block::default();
    let mut parsed = ParsedBlock::default();
    assert!(blocks.read_block(&mut block).unwrap());
    parser.parse(&block, &mut parsed).unwrap();
    parsed.digests().to_vec()
}

#[test]
fn fields_of_json_have_the_digests_of_dedup() {
    let lines = [
        &br#"{"user":{"id":7},"ad":"x","more":[1,2]}"#[..],
        br#"{"ad":"x","user":{"id":7.0}}"#,
        br#"{"user":{"id":"\u0037"},"ad":"x y"}"#,
        br#"{"user":{"id":true},"ad":{"a": 1}}"#,
    ];
    let mut text = lines.join(&b"\n"[..]);
    text.push(b'\n');
    let expected = digests_of_dedup(&["user.id", "ad"], &text);
    let messages: Vec<TestMessage> = lines.iter().map(|line| with_value(line)).collect();
    let mut events = Events::default();
    for keys in [&["json:user.id,ad"][..], &["json:user.id", "json:ad"]] {
        reader(keys, "@timestamp", false).read(&messages, &mut events).unwrap();
        assert_eq!(events.digests(), expected);
    }
    // Line ends between the parts of a value do not matter.
    let pretty = with_value(b"{\n  \"user\": {\"id\": 7},\r\n  \"ad\": \"x\"\n}\n");
    reader(&["json:user.id,ad"], "@timestamp", false).read(&[pretty], &mut events).unwrap();
    assert_eq!(events.digests(), &expected[..1]);
}

#[test]
fn every_message_has_one_outcome_whatever_its_bytes_are() {
    let values: [&[u8]; 14] = [
        b"",
        b" ",
        b"\n\n",
        b"\0",
        b"\0\0{\"user\":1}",
        b"\xef\xbb\xbf{\"user\":2}",
        b"{\"user\":3}\n{\"user\":4}",
        b"\xff\xfe",
        b"[1,2]",
        b"{\"user\":null}",
        b"{\"user\":",
        b"#comment",
        b"{\"user\":5,\"user\":6}",
        b"{\"user\":9}",
    ];
    let mut messages: Vec<TestMessage> = values.iter().map(|value| with_value(value)).collect();
    messages.insert(3, TestMessage { timestamp_ms: Some(1), ..TestMessage::default() });
    let outcomes = outcomes(&mut reader(&["json:user"], "@timestamp", false), &messages);
    assert_eq!(outcomes.last(), Some(&Outcome::New), "{outcomes:?}");
    assert!(matches!(&outcomes[3], Outcome::Rejected(reason) if **reason == Rejection::NullValue));
    for (index, name) in [(0, "blank"), (8, "invalid_utf8"), (9, "not_an_object"), (10, "no_key"), (11, "invalid_json")]
    {
        let Outcome::Rejected(rejection) = &outcomes[index] else { panic!("{index}: {outcomes:?}") };
        assert_eq!(rejection.name(), name, "{index}");
    }
}

/// Returns a message with this key, header and value. The header occurs twice, and the last one counts.
fn message_of(key: &[u8], header: &[u8], value: &[u8]) -> TestMessage {
    TestMessage {
        key: Some(key.to_vec()),
        headers: vec![("id".to_owned(), b"old".to_vec()), ("id".to_owned(), header.to_vec())],
        ..with_value(value)
    }
}

#[test]
fn keys_can_have_parts_of_several_sources() {
    let mut reader = reader(&["@key", "@header:id", "json:user"], "@timestamp", false);
    let messages = [
        message_of(b"a", b"b", b"{\"user\":1}"),
        message_of(b"a", b"b", b"{\"user\":1.0,\"more\":2}"),
        message_of(b"ab", b"", b"{\"user\":1}"),
        message_of(b"a", b"b", b"{\"user\":2}"),
        TestMessage { key: None, ..message_of(b"", b"b", b"{\"user\":2}") },
        TestMessage { headers: Vec::new(), ..message_of(b"a", b"", b"{\"user\":2}") },
    ];
    let outcomes = outcomes(&mut reader, &messages);
    assert_eq!(outcomes[..4], [Outcome::New, Outcome::Duplicate, Outcome::New, Outcome::New]);
    assert_eq!(outcomes[4], Outcome::Rejected(Box::new(Rejection::NullKey)));
    assert_eq!(outcomes[5], Outcome::Rejected(Box::new(Rejection::NoHeader("id".to_owned()))));
}

#[test]
fn a_null_value_passes_if_the_key_does_not_need_it() {
    let tombstone = TestMessage { key: Some(b"k".to_vec()), timestamp_ms: Some(1), ..TestMessage::default() };
    let messages = [tombstone.clone(), tombstone];
    let passed = outcomes(&mut reader(&["@key"], "@timestamp", false), &messages);
    assert_eq!(passed, [Outcome::Tombstone, Outcome::Tombstone]);
    let rejected = outcomes(&mut reader(&["@value"], "@timestamp", false), &messages);
    assert!(rejected.iter().all(|outcome| matches!(outcome, Outcome::Rejected(_))));
}

#[test]
fn times_come_from_the_log_or_from_a_field() {
    let mut events = Events::default();
    let messages = [with_value(b"{\"at\":1700000000,\"user\":1}"), with_value(b"{\"user\":1}")];
    let mut of_field = reader(&["json:user"], "json:at", true);
    assert_eq!(of_field.identity(), "pipe key json:user time json:at");
    of_field.read(&messages, &mut events).unwrap();
    assert_eq!((events.messages(), events.digests().len()), (2, 1), "the second message has no time");
    let untimed = TestMessage { timestamp_ms: None, ..with_value(b"{\"user\":1}") };
    let negative = TestMessage { timestamp_ms: Some(-1), ..untimed.clone() };
    reader(&["json:user"], "@timestamp", true).read(&[untimed, negative], &mut events).unwrap();
    assert_eq!((events.messages(), events.digests().len()), (2, 0));
    assert_eq!(TimeSource::default(), TimeSource::Timestamp);
}
