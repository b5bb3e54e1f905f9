//! Tests the keys, times, sources, headers and rejections of each format.

use crate::common::{self, Outcome, config, read_files, read_text, secret};
use firstseen_records::{
    BlockOptions, ConfigError, EmptyKey, KeyNormalization, ParserConfig, Ragged, RecordFormat, RecordParser,
    RejectReason,
};

fn with_time(config: ParserConfig, time: &str) -> ParserConfig {
    ParserConfig { time: Some(time.into()), ..config }
}

fn with_empty(config: ParserConfig) -> ParserConfig {
    ParserConfig { empty_key: EmptyKey::Value, ..config }
}

#[test]
fn a_line_is_its_own_key_without_its_end() {
    let lines = ParserConfig::new(RecordFormat::Lines);
    let outcome = read_text("a\r\na\n\nb\r\r\na", ParserConfig { empty_key: EmptyKey::Value, ..lines.clone() });
    assert_eq!(outcome.keys(), ["a", "a", "", "b\r", "a"]);
    let without_blank = read_text("a\r\n\r\n\nb\n", lines);
    assert_eq!(without_blank.keys(), ["a", "b"]);
    assert_eq!(without_blank.complaints(), ["2: \"\\r\\n\": the line is blank", "3: \"\\n\": the line is blank"]);
    assert_eq!(outcome.events[0].bytes, "a\r\n", "bytes pass unchanged");
    assert_eq!(outcome.events[0].digest, secret().digest(b"a"));
    assert_eq!(outcome.events[0].digest, outcome.events[4].digest);
}

#[test]
fn an_empty_file_has_no_records() {
    for format in RecordFormat::ALL {
        let outcome = read_text("", ParserConfig::new(format));
        assert_eq!(outcome.events.len() + outcome.rejections.len() + outcome.headers.len(), 0, "{format}");
    }
}

#[test]
fn quotes_do_not_change_a_key() {
    let outcome =
        read_text("k,v\na,1\n\"a\",2\r\n\"a\"\"b\",3\n,4\n\"\",5\n", with_empty(config(RecordFormat::Csv, &["k"])));
    assert_eq!(outcome.keys(), ["a", "a", "a\"b", "", ""]);
    assert_eq!(outcome.events[0].digest, outcome.events[1].digest);
    assert_eq!(outcome.events[2].digest, secret().digest(b"a\"b"));
    assert_eq!(outcome.events[3].digest, outcome.events[4].digest);
}

#[test]
fn tabs_have_no_quotes() {
    let outcome = read_text("k\tv\n\"a\t1\n\"b\t2\r\n", config(RecordFormat::Tsv, &["k", "v"]));
    assert_eq!(outcome.keys(), ["\"a|1", "\"b|2"]);
}

#[test]
fn a_key_of_several_fields_keeps_them_apart() {
    let outcome = read_text("a,b\nab,c\na,bc\nab,c\n", config(RecordFormat::Csv, &["a", "b"]));
    assert_ne!(outcome.events[0].digest, outcome.events[1].digest);
    assert_eq!(outcome.events[0].digest, outcome.events[2].digest);
    assert_eq!(outcome.events[0].digest, secret().digest_parts([&b"ab"[..], b"c"], &mut Vec::new()));
}

#[test]
fn a_header_passes_once_and_must_stay_the_same() {
    let keys = config(RecordFormat::Csv, &["user"]);
    let files = ["\u{feff}user,ad\nann,1\n", "\"user\",ad\r\nbob,2\n", "", "user,ad"];
    let outcome = read_files(&files, keys.clone()).unwrap();
    assert_eq!(outcome.keys(), ["ann", "bob"]);
    let repeated: Vec<bool> = outcome.headers.iter().map(|(_, is_repeated)| *is_repeated).collect();
    assert_eq!(repeated, [false, true, true]);
    assert_eq!(outcome.headers[0].0, "\u{feff}user,ad\n");
    let error = read_files(&["user,ad\nann,1\n", "ad,user\n2,bob\n"], keys).err().unwrap();
    assert_eq!(error, ConfigError::HeaderDiffers { first: "user, ad".into(), other: "ad, user".into() });
}

#[test]
fn a_header_without_the_key_is_refused_at_once() {
    let error = |text: &str, key: &str| read_files(&[text], config(RecordFormat::Csv, &[key])).err().unwrap();
    let message = error("time,user\n1,ann\n", "usre").to_string();
    assert_eq!(message, "there is no field `usre` (did you mean `user`?); the fields are time, user");
    assert!(error("\n1,ann\n", "user").to_string().contains("the line is blank"));
    assert!(error("\"time,user\n1,ann\n", "user").to_string().contains("does not end"));
}

#[test]
fn a_field_that_no_record_has_is_an_error_at_the_end_that_names_the_others() {
    let error = |text: &str, format: RecordFormat, key: &[&str]| {
        let mut parser = RecordParser::new(config(format, key), secret()).expect("a parser");
        let mut outcome = Outcome::default();
        let options = BlockOptions::for_format(format);
        common::read_into(&mut outcome, text.as_bytes(), &mut parser, options).expect("input");
        parser.finish().map_or_else(|error| error.to_string(), |()| String::new())
    };
    let json = |text: &str, key: &str| error(text, RecordFormat::Jsonl, &[key]);
    let lines = "\n{\"user\":{\"id\":7,\"a.b\":1},\"n\":null}\n{\"user\":1}\nno json\n";
    assert_eq!(
        json(lines, "user.ip"),
        "no record has the field `user.ip` (did you mean `user.id`?); the fields are user.a\\.b, user.id"
    );
    assert!(json(lines, "id").contains("(did you mean `user.id`?)"), "{}", json(lines, "id"));
    assert_eq!((json(lines, "user"), json(lines, "user.id"), json("", "id")), Default::default());
    let empty = "the field `id` has no value in any record (--empty-key value takes an empty value for a key)";
    assert_eq!(json("no json\n{\"id\":null}\n{\"id\":\"\"}\n", "id"), empty);
    assert_eq!(error("id,m\n,b\n,c\n", RecordFormat::Csv, &["id"]), empty);
    assert_eq!(json("{\"id\":null}\n{\"x\":1}\n", "id"), "", "records lack it in different ways");
    // Each record lacks a field, but no two records lack the same field.
    assert_eq!(error("{\"a\":1}\n{\"b\":1}\n", RecordFormat::Jsonl, &["a", "b"]), "");
    let common = "h - - [10/Oct/2000:13:55:36 -0700] \"\" 408 -\n";
    assert_eq!(error(common, RecordFormat::Clf, &["agent"]), "no record has the field `agent`");
}

#[test]
fn without_a_header_fields_are_numbers() {
    let keys = ParserConfig { no_header: true, ..config(RecordFormat::Csv, &["2"]) };
    let outcome = read_text("1,ann\n2\n\n3,ann", with_time(keys.clone(), "1"));
    assert_eq!(outcome.keys(), ["ann", "ann"]);
    assert_eq!(outcome.events[1].time_ms, Some(3_000));
    assert_eq!(outcome.complaints(), ["2: \"2\\n\": it has no field `2`", "3: \"\\n\": the line is blank"]);
    let named = ParserConfig { key: vec!["user".into()], ..keys };
    assert!(matches!(RecordParser::new(named, secret()), Err(ConfigError::NotAnIndex { .. })));
}

#[test]
fn times_and_sources_stand_beside_the_events() {
    let pad = Ragged::Pad;
    let fields =
        ParserConfig { source: Some("s".into()), ragged: pad, ..with_time(config(RecordFormat::Csv, &["k"]), "t") };
    let outcome = read_text("t,k,s\n1,a,x\nnever,b,x\n2.5,c\n-1,d,y\n3,e,\"y\"\n", fields);
    let events: Vec<_> = outcome.events.iter().map(|event| (event.time_ms, event.source.as_deref())).collect();
    assert_eq!(events, [(Some(1_000), Some("x")), (Some(2_500), None), (Some(3_000), Some("y"))]);
    assert_eq!(
        outcome.complaints(),
        [
            "3: \"never,b,x\\n\": the time field `t` has `never`, which is no time in any known form: describe the form with \
             --time-format, such as '%d.%m.%Y %H:%M:%S'",
            "5: \"-1,d,y\\n\": the time field `t` has `-1`, which is before 1970 or after 9999: if it is a number in another \
             unit, name that with --time-format epoch, epoch-ms, epoch-us or epoch-ns"
        ]
    );
}

#[test]
fn json_members_are_found_by_path() {
    let text = concat!(
        r#"{"u":{"id":7},"t":1700000000,"n":"x"}"#,
        "\n",
        r#" { "t" : "2023-11-14T22:13:20Z", "n":"x", "u" : {"x":[{"id":1}], "id" : "\u0037" } } "#,
        "\n",
        r#"{"u":{"id":7.0},"t":1,"n":null,"n":"x","u":{"id":true}}"#,
        "\n",
    );
    let fields = with_time(config(RecordFormat::Jsonl, &["u.id", "n"]), "t");
    let outcome = read_text(text, fields);
    assert_eq!(outcome.keys(), ["7|x", "7|x"]);
    assert!(
        matches!(&outcome.rejections[..], [(3, _, RejectReason::RepeatedName { .. })]),
        "a selected name that occurs twice is rejected"
    );
    assert_eq!(outcome.events[0].digest, outcome.events[1].digest);
    assert_eq!(outcome.events[0].time_ms, outcome.events[1].time_ms);
    let others = read_text("{\"n\":\"x\",\"m\":1,\"m\":2}\n", config(RecordFormat::Jsonl, &["n"]));
    assert_eq!(others.keys(), ["x"], "a name that is not selected may occur twice");
    let dotted = read_text("{\"a.b\":\"c\"}\n", config(RecordFormat::Jsonl, &["a\\.b"]));
    assert_eq!(dotted.keys(), ["c"]);
    let empty_step = RecordParser::new(config(RecordFormat::Jsonl, &["a..b"]), secret());
    assert!(matches!(empty_step, Err(ConfigError::EmptyName { .. })));
}

#[test]
fn lines_that_are_no_json_objects_are_rejected() {
    let text = "{\"a\":1}\n{\"a\":null}\n{\"b\":1}\n[1]\n{\"a\":1\n{\"a\":1} x\n\n{\"a\":{}}\n";
    let outcome = read_text(text, config(RecordFormat::Jsonl, &["a"]));
    assert_eq!(outcome.keys(), ["1", "{}"]);
    let messages: Vec<String> =
        outcome.rejections.iter().map(|(line, _, reason)| format!("{line}: {reason}")).collect();
    assert_eq!(
        messages,
        [
            "2: its key field `a` has no value (--empty-key value takes an empty value for a key)",
            "3: it has no field `a`",
            "4: it is JSON but no object",
            "5: it is not valid JSON at byte 6",
            "6: it is not valid JSON at byte 9",
            "7: the line is blank"
        ]
    );
}

#[test]
fn bytes_that_are_no_text_are_rejected_only_where_text_is_needed() {
    let mut parser = RecordParser::new(config(RecordFormat::Jsonl, &["a"]), secret()).unwrap();
    let mut outcome = common::Outcome::default();
    let options = firstseen_records::BlockOptions::for_format(RecordFormat::Jsonl);
    common::read_into(&mut outcome, &b"{\"a\":\"\xff\"}\n{\"a\":1}\n"[..], &mut parser, options).unwrap();
    assert_eq!(outcome.rejections[0].2.to_string(), "it is not UTF-8 at byte 7");
    let mut parser = RecordParser::new(config(RecordFormat::Csv, &["a"]), secret()).unwrap();
    common::read_into(&mut outcome, &b"a\n\xff\n"[..], &mut parser, options).unwrap();
    assert_eq!(outcome.events[1].digest, secret().digest(b"\xff"));
}

#[test]
fn log_lines_have_named_fields() {
    let combined = "83.149.9.216 - Ann Lee [17/May/2015:10:05:03 +0000] \"GET /a b HTTP/1.1\" 200 2030 \
                    \"http://x.org/\" \"Mozilla \\\"5\\\" (X)\"\n";
    let common = "h - - [10/Oct/2000:13:55:36 -0700] \"\" 408 -\r\n";
    let every = ["host", "user", "request", "path", "status", "bytes", "referrer", "user_agent"];
    let outcome = read_text(combined, with_time(config(RecordFormat::Clf, &every), "time"));
    assert_eq!(
        outcome.keys(),
        ["83.149.9.216|Ann Lee|GET /a b HTTP/1.1|/a b|200|2030|http://x.org/|Mozilla \\\"5\\\" (X)"]
    );
    assert_eq!(outcome.events[0].time_ms, Some(1_431_857_103_000));
    let both = read_text(&format!("{combined}{common}no log line\n"), ParserConfig::new(RecordFormat::Clf));
    assert_eq!(both.keys(), ["83.149.9.216|GET /a b HTTP/1.1"], "the default key is host and request");
    assert_eq!(both.rejections[0].2, RejectReason::NoKey { field: "request".into() });
    assert_eq!(both.complaints()[1..], ["3: \"no log line\\n\": it is no line of the common log format"]);
    let agents = read_text(common, config(RecordFormat::Clf, &["agent"]));
    assert_eq!(agents.rejections[0].2.to_string(), "it has no field `agent`");
    let error = RecordParser::new(config(RecordFormat::Clf, &["methode"]), secret()).err().unwrap().to_string();
    assert!(error.contains("did you mean `method`?"), "{error}");
}

#[test]
fn index_lines_have_a_key_a_time_and_an_object() {
    let line = "org,example)/ 20240101120000 {\"url\": \"http://example.org/\", \"mime\": \"text/html\"}\n";
    let outcome = read_text(line, with_time(ParserConfig::new(RecordFormat::Cdxj), "timestamp"));
    assert_eq!(outcome.keys(), ["org,example)/"]);
    assert_eq!(outcome.events[0].time_ms, Some(1_704_110_400_000));
    let outcome = read_text(&format!("{line}org 1\norg 1 {{}}\n"), config(RecordFormat::Cdxj, &["url", "1"]));
    assert_eq!(outcome.keys(), ["http://example.org/|org,example)/"]);
    assert_eq!(
        outcome.complaints(),
        [
            "2: \"org 1\\n\": it is no index line: `urlkey timestamp {json}`",
            "3: \"org 1 {}\\n\": it has no field `url`"
        ]
    );
}

#[test]
fn normalized_keys_are_shown_as_they_are_hashed() {
    let fields = ParserConfig {
        normalization: KeyNormalization::Url,
        no_header: true,
        ..config(RecordFormat::Csv, &["1", "2"])
    };
    let outcome = read_text("HTTP://A.org:80/#x,b\n\"http://a.org/\",b\n", fields);
    assert_eq!(outcome.keys(), ["http://a.org/|b", "http://a.org/|b"]);
    assert_eq!(outcome.events[0].digest, outcome.events[1].digest);
}

#[test]
fn an_unknown_format_or_zone_is_refused() {
    let error = "xml".parse::<RecordFormat>().unwrap_err().to_string();
    assert_eq!(error, "there is no format `xml`: choose lines, csv, tsv, w3c, jsonl, clf or cdxj");
    let berlin = ParserConfig { zone: "Europe/Berlim".into(), ..ParserConfig::new(RecordFormat::Lines) };
    let error = RecordParser::new(berlin, secret()).err().unwrap().to_string();
    assert!(error.contains("did you mean `Europe/Berlin`?"), "{error}");
}
