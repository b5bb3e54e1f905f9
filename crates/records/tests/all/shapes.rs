//! Tests that records which do not have the form of their format are not events. A wrong field must never become the
//! key.

use crate::common::{Outcome, config, read_files, read_text, secret};
use firstseen_records::{
    Block, BlockOptions, BlockReader, ConfigError, EmptyKey, ParsedBlock, ParserConfig, Ragged, RecordFormat,
    RecordParser, RejectReason,
};

fn csv(key: &[&str]) -> ParserConfig {
    config(RecordFormat::Csv, key)
}

fn reasons(outcome: &Outcome) -> Vec<String> {
    outcome.rejections.iter().map(|(line, _, reason)| format!("{line}: {reason}")).collect()
}

/// The log format `main` of nginx has the addresses of proxies as its tenth field. The flag `--key 10` used to select
/// the HTTP method instead. For each method, all requests except the first were therefore dropped as duplicates.
#[test]
fn numbers_count_the_fields_of_the_log_line() {
    let line = "192.0.2.7 - - [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.1\" 200 12 \"-\" \"x (y)\" \"198.51.100.1\" 0.5 \"b c\"\n";
    for (number, value) in [("1", "192.0.2.7"), ("5", "GET /a HTTP/1.1"), ("6", "200"), ("7", "12"), ("9", "x (y)")] {
        assert_eq!(read_text(line, config(RecordFormat::Clf, &[number])).keys(), [value], "{number}");
    }
    for (number, value) in [("10", "198.51.100.1"), ("11", "0.5"), ("12", "b c")] {
        assert_eq!(read_text(line, config(RecordFormat::Clf, &[number])).keys(), [value], "{number}");
    }
    let none = read_text(line, config(RecordFormat::Clf, &["13"]));
    assert_eq!(reasons(&none), ["1: it has no field `13`"]);
    let named = read_text(line, config(RecordFormat::Clf, &["method", "agent"]));
    assert_eq!(named.keys(), ["GET|x (y)"]);
    assert!(RecordParser::new(config(RecordFormat::Clf, &["0"]), secret()).is_err());
    // After the number of bytes, a server may write other fields than the two quoted fields.
    let other = "h - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.1\" 200 12 0.25 \"r\" \"a\"\n";
    assert_eq!(read_text(other, config(RecordFormat::Clf, &["8", "9", "10"])).keys(), ["0.25|r|a"]);
    assert!(read_text(other, config(RecordFormat::Clf, &["agent"])).keys().is_empty());
}

#[test]
fn a_virtual_host_in_front_is_a_field_of_its_own() {
    let rest = "[10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.1\" 200 12 \"-\" \"x\" \"y\"\n";
    for (head, vhost, host, user) in [
        ("www.example.org:443 192.0.2.7 - -", "www.example.org:443", "192.0.2.7", None),
        ("www.example.org 192.0.2.7 - ann", "www.example.org", "192.0.2.7", Some("ann")),
        ("[2001:db8::1]:80 2001:db8::7 - Ann Lee", "[2001:db8::1]:80", "2001:db8::7", Some("Ann Lee")),
        ("203.0.113.1:8080 client.example.net - -", "203.0.113.1:8080", "client.example.net", None),
    ] {
        let line = format!("{head} {rest}");
        let outcome = read_text(&line, config(RecordFormat::Clf, &["vhost", "host"]));
        assert_eq!(outcome.keys(), [format!("{vhost}|{host}")], "{head}");
        assert_eq!(
            read_text(&line, config(RecordFormat::Clf, &["1", "2", "11"])).keys(),
            [format!("{vhost}|{host}|y")]
        );
        let users = read_text(&line, config(RecordFormat::Clf, &["user"]));
        assert_eq!(users.keys(), user.into_iter().collect::<Vec<_>>(), "{head}");
    }
    for (head, host, user) in [
        ("2001:db8::7 - ann", "2001:db8::7", "ann"),
        ("2001:db8:: - ann", "2001:db8::", "ann"),
        ("192.0.2.7:51234 - ann", "192.0.2.7:51234", "ann"),
        ("[2001:db8::7]:51234 - ann", "[2001:db8::7]:51234", "ann"),
        ("h - Ann van der Lee", "h", "Ann van der Lee"),
        ("h ident ann@example.org", "h", "ann@example.org"),
    ] {
        let outcome = read_text(&format!("{head} {rest}"), config(RecordFormat::Clf, &["host", "user"]));
        assert_eq!(outcome.keys(), [format!("{host}|{user}")], "{head}");
        assert!(read_text(&format!("{head} {rest}"), config(RecordFormat::Clf, &["vhost"])).keys().is_empty());
    }
}

/// After the prefix of a syslog line, `Oct` used to be read as the client of every line, so lines of different clients
/// were dropped.
#[test]
fn a_log_line_behind_a_prefix_has_no_host() {
    let line = "192.0.2.7 - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.1\" 200 12\n";
    for prefix in [
        "Oct 10 13:55:30 web01 nginx: ",
        "<190>Oct 10 13:55:30 web01 nginx: ",
        "2024-10-10T13:55:30Z web01 nginx[42]: ",
        "<13>1 2024-10-10T13:55:30Z web01 nginx 42 - - ",
        "2024-10-10T13:55:30.123Z stdout F ",
        "web_1  | ",
        "web_1 | ",
        "nginx: ",
        "web01 nginx: ",
        "web01 - ",
        "192.0.2.1 ",
        "{app} ",
    ] {
        let outcome = read_text(&format!("{prefix}{line}"), config(RecordFormat::Clf, &["host"]));
        assert_eq!(outcome.keys(), Vec::<String>::new(), "{prefix}");
        assert_eq!(outcome.rejections[0].2, RejectReason::NotALogLine, "{prefix}");
    }
}

#[test]
fn a_status_is_three_digits_or_none() {
    let line = |status: &str| format!("h - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.1\" {status} 12\n");
    for status in ["200", "-", "499", "000"] {
        assert_eq!(read_text(&line(status), config(RecordFormat::Clf, &["host"])).keys(), ["h"], "{status}");
    }
    for status in ["20", "2000", "OK", "20x", "\"200\"", "0.004", ""] {
        assert!(read_text(&line(status), config(RecordFormat::Clf, &["host"])).keys().is_empty(), "{status}");
    }
}

/// A decimal comma shifted all fields after it, and the price of one row became the key of another row.
#[test]
fn a_row_has_as_many_fields_as_its_header() {
    let text = "id,price,user\n1,1,50,ann\n2,2.50,bob\n3\n4,x,cy,\n\"5,6\",x,di\n";
    let outcome = read_text(text, csv(&["user"]));
    assert_eq!(outcome.keys(), ["bob", "di"]);
    let header = "and the header has 3 (--ragged pad takes such rows)";
    assert_eq!(
        reasons(&outcome),
        [
            format!("2: it has 4 fields, {header}"),
            format!("4: it has 1 field, {header}"),
            format!("5: it has 4 fields, {header}"),
        ]
    );
    let padded = read_text(text, ParserConfig { ragged: Ragged::Pad, ..csv(&["user"]) });
    assert_eq!(padded.keys(), ["50", "bob", "cy", "di"]);
    assert_eq!(
        reasons(&padded),
        ["4: its key field `user` has no value (--empty-key value takes an empty value for a key)"]
    );
    // Without a header, the number of fields is not known, and some products write rows of several kinds into one log.
    let bare = ParserConfig { no_header: true, ..csv(&["2"]) };
    let outcome = read_text("starting\n1,a\n2,b,c\n3\n", bare.clone());
    assert_eq!(outcome.keys(), ["a", "b"]);
    assert_eq!(reasons(&outcome), ["1: it has no field `2`", "4: it has no field `2`"]);
    // If the key is all fields except some, the expected number of fields is that of most rows.
    let ignoring = ParserConfig { key: Vec::new(), ignore: vec!["1".into()], ..bare };
    let outcome = read_text("starting\n1,a\n2,b,c\n3,a\n", ignoring);
    assert_eq!(outcome.keys(), ["a", "a"]);
    assert_eq!(outcome.rejections.len(), 2, "{:?}", reasons(&outcome));
    // If the key is the whole record, equal rows are equal, whatever their fields are.
    assert_eq!(read_text("a,b\n1\n1,2,3\n", csv(&[])).keys(), ["1", "1,2,3"]);
}

/// In a well-known log, the rows end with two tabs, but the header does not.
#[test]
fn rows_may_end_with_empty_fields_that_the_header_lacks() {
    let text = "id\tuser\n1\ta\t\t\n2\t\t\t\n3\tb\t\n4\tc\tx\t\n5\td\n6\te\t\tx\n7\tf\t\t\r\n";
    let outcome = read_text(text, config(RecordFormat::Tsv, &["user"]));
    assert_eq!(outcome.keys(), ["a", "b", "d", "f"]);
    assert!(matches!(outcome.rejections[0].2, RejectReason::NoKey { .. }));
    let others = &outcome.rejections[1..];
    assert!(others.iter().all(|(_, _, reason)| matches!(reason, RejectReason::Ragged { expected: 2, .. })));
    assert_eq!(others.len(), 2);
    let ignoring = ParserConfig { ignore: vec!["id".into()], ..config(RecordFormat::Tsv, &[]) };
    assert_eq!(read_text("id\tuser\n1\ta\t\n2\ta\t\n", ignoring).keys(), ["a", "a"]);
    // The first row decides how many such fields a row may have. For commas, additional fields are not accepted, because
    // a comma may be part of a number.
    assert_eq!(read_text("id\tuser\n1\ta\n2\tb\t\n", config(RecordFormat::Tsv, &["user"])).keys(), ["a"]);
    assert!(read_text("id,price,user\n1,1,50,\n2,2,50,\n", csv(&["user"])).keys().is_empty());
    let semicolons = ParserConfig { separator: Some(b';'), ..csv(&["user"]) };
    assert_eq!(read_text("id;user\n1;a;\n2;\"b\";\n3;c;\"\"\n", semicolons).keys(), ["a", "b"]);
}

/// If the first row ended with empty fields that the header lacks, all rows with exactly the fields of the header were
/// rejected, as "it has 2 fields, and the header has 2". Rows were compared with the first row instead of the header.
#[test]
fn rows_as_wide_as_the_header_are_read_whatever_the_first_row_is() {
    let text = "a\tb\n1\t2\t\t\n3\t4\n5\t6\n7\n8\t9\t\t\t\n";
    let outcome = read_text(text, config(RecordFormat::Tsv, &["b"]));
    assert_eq!(outcome.keys(), ["2", "4", "6"]);
    let header = "and the header has 2 (--ragged pad takes such rows)";
    assert_eq!(reasons(&outcome), [format!("5: it has 1 field, {header}"), format!("6: it has 5 fields, {header}")]);
    let ignoring = ParserConfig { ignore: vec!["a".into()], ..config(RecordFormat::Tsv, &[]) };
    assert_eq!(read_text("a\tb\n1\t2\t\t\n3\t2\n", ignoring).keys(), ["2", "2"]);
    let semicolons = ParserConfig { separator: Some(b';'), ..csv(&["b"]) };
    assert_eq!(read_text("a;b\n1;2;;\n3;\"4\"\n", semicolons).keys(), ["2", "4"]);
}

#[test]
fn quotes_in_tabbed_rows_are_named_as_the_reason() {
    let text = "id\tname\n1\t\"a\tb\"\n2\t\"x\"\n3\t\"multi\nline\"\n";
    let outcome = read_text(text, config(RecordFormat::Tsv, &["id", "name"]));
    assert_eq!(outcome.keys(), ["2|\"x\"", "3|\"multi"], "a quote is a byte like any other");
    assert!(reasons(&outcome)[0].contains("--format csv --separator tab"), "{:?}", reasons(&outcome));
    assert_eq!(outcome.rejections.len(), 2);
    let quoted = ParserConfig { separator: Some(b'\t'), ..csv(&["id", "name"]) };
    assert_eq!(read_text(text, quoted).keys(), ["1|a\tb", "2|x", "3|multi\nline"]);
}

#[test]
fn blanks_may_stand_before_a_quote() {
    let text =
        "id, name\n1, \"Lee, Ann\"\n2,   \"Lee, \"\"Bob\"\"\"\n  \"3\",\"x\n y\"\n4, plain\n5, 6\" nails\n6,\"x\" \n";
    let outcome = read_text(text, csv(&["1", "2"]));
    assert_eq!(outcome.keys(), ["1|Lee, Ann", "2|Lee, \"Bob\"", "3|x\n y", "4| plain", "5| 6\" nails", "6|x "]);
    let with = |separator| ParserConfig { separator: Some(separator), no_header: true, ..csv(&["1", "2"]) };
    assert_eq!(read_text("1; \"a;b\"\n", with(b';')).keys(), ["1|a;b"]);
    assert_eq!(read_text("1 \"a b\"\n", with(b' ')).keys(), ["1|a b"]);
}

/// Some programs write a quote within a quoted field as `\"`. RFC 4180 does not define this form, so a CSV reader
/// treats such a quote as the closing quote.
///
/// The actual closing quote then used to open another field, and all lines up to the following quote became one record.
/// If the key of that record occurred again, all these lines were dropped.
#[test]
fn escaped_quotes_join_no_lines() {
    let text = "id,name\n1,\"a \\\"\"\n2,\"b\"\n1,\"a \\\"\"\n3,\"c\"\n";
    let outcome = read_text(text, csv(&["id"]));
    let kept: String = outcome.events.iter().map(|event| event.bytes.as_str()).collect();
    assert!(
        !kept.contains('\n') || outcome.events.iter().all(|event| event.bytes.matches('\n').count() == 1),
        "{kept}"
    );
    assert!(matches!(outcome.rejections[0].2, RejectReason::JoinedLines { lines: 2 }), "{:?}", reasons(&outcome));
    let text = "id,name\n1,\"say \\\"a, b\\\"\"\n2,\"\\\"x\\\", y\"\n3,\"\\\"z\\\"\"\n";
    let outcome = read_text(text, csv(&["id"]));
    assert_eq!(outcome.keys(), ["3"], "{:?}", reasons(&outcome));
    assert!(reasons(&outcome).iter().all(|reason| reason.contains("and the header has 2")));
}

#[test]
fn a_name_that_two_columns_have_is_refused() {
    let text = "id,name,id\n1,a,2\n";
    let error = read_files(&[text], csv(&["id"])).err().unwrap();
    assert_eq!(error, ConfigError::AmbiguousField { field: "id".into(), first: 1, second: 3 });
    assert_eq!(read_text(text, csv(&["name"])).keys(), ["a"]);
    assert_eq!(read_text(text, csv(&["3"])).keys(), ["2"]);
}

#[test]
fn fields_are_parted_by_any_one_byte() {
    for (separator, name) in [(b';', ";"), (b'|', "|"), (b'\t', "\t"), (1, "\u{1}")] {
        let text = "id,name\n1,\"a,b\n\"\n2,c\n".replace(',', name);
        for format in [RecordFormat::Csv, RecordFormat::Tsv] {
            let text =
                if format == RecordFormat::Tsv { text.replace(['"'], "").replace("b\n", "b") } else { text.clone() };
            let fields = ParserConfig { separator: Some(separator), ..config(format, &["name"]) };
            let outcome = read_with(&text, fields.clone());
            let first = if format == RecordFormat::Csv { format!("a{name}b\n") } else { String::new() };
            let expected: Vec<&str> = [first.as_str(), "c"].into_iter().filter(|key| !key.is_empty()).collect();
            assert_eq!(outcome.keys(), expected, "{format} {name:?}");
        }
    }
    let refused = |format, separator| {
        let fields = ParserConfig { separator: Some(separator), ..config(format, &[]) };
        RecordParser::new(fields, secret()).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(
        refused(RecordFormat::Csv, b'"').contains("`\\\"` cannot separate fields"),
        "{}",
        refused(RecordFormat::Csv, b'"')
    );
    assert!(refused(RecordFormat::Csv, b'\n').contains("cannot separate"));
    assert!(refused(RecordFormat::Jsonl, b';').contains("have no separator"));
    let error = read_files(&["id;name\n1;a\n"], csv(&["id"])).err().unwrap().to_string();
    assert!(error.contains("--separator ';'"), "{error}");
}

/// Reads a text with the same separator for cutting it into blocks and for its fields.
fn read_with(text: &str, config: ParserConfig) -> Outcome {
    let separator = config.separator.unwrap_or(b',');
    let options = BlockOptions { separator, ..BlockOptions::for_format(config.format) };
    let mut parser = RecordParser::new(config, secret()).expect("a parser");
    let mut outcome = Outcome::default();
    crate::common::read_into(&mut outcome, text.as_bytes(), &mut parser, options).expect("fields");
    outcome
}

#[test]
fn no_value_is_no_key_in_any_format() {
    let log = |user: &str| format!("h - {user} [10/Oct/2000:13:55:36 -0700] \"GET - HTTP/1.1\" 200 12\n");
    let cases = [
        (RecordFormat::Csv, "id,m\n,b\n\"\",c\n  \"\",d\n0,e\n".to_owned(), "id", vec!["", "", "", "0"]),
        (RecordFormat::Tsv, "id\tm\n\tb\n0\te\n".to_owned(), "id", vec!["", "0"]),
        (RecordFormat::Jsonl, "{\"id\":null}\n{\"id\":\"\"}\n{\"id\":0}\n".to_owned(), "id", vec!["", "", "0"]),
        (RecordFormat::Clf, log("-") + &log("ann"), "user", vec!["-", "ann"]),
        (RecordFormat::W3c, "#Fields: id m\n- b\n0 e\n".to_owned(), "id", vec!["-", "0"]),
    ];
    for (format, text, key, values) in cases {
        let fields = |empty_key| ParserConfig { empty_key, ..config(format, &[key]) };
        let passed = read_text(&text, fields(EmptyKey::Pass));
        assert_eq!(passed.keys(), values[values.len() - 1..], "{format}");
        let no_key = passed.rejections.iter().filter(|(_, _, reason)| matches!(reason, RejectReason::NoKey { .. }));
        assert_eq!(no_key.count(), values.len() - 1, "{format}");
        assert_eq!(read_text(&text, fields(EmptyKey::Value)).keys(), values, "{format}");
        assert_eq!(refusal(&text, fields(EmptyKey::Fail)).0, Vec::<String>::new(), "{format}");
    }
    // A part of a request is an ordinary text, so `-` is a value there.
    assert_eq!(read_text(&log("ann"), config(RecordFormat::Clf, &["path"])).keys(), ["-"]);
    // A dash is a value in rows that do not come from a log.
    assert_eq!(read_text("id\n-\n", csv(&["id"])).keys(), ["-"]);
}

#[test]
fn blanks_are_no_value() {
    for (text, config) in [
        ("id,m\n ,a\n\"  \",b\n x,c\n", csv(&["id"])),
        ("id\tm\n \ta\n  \tb\n x\tc\n", config(RecordFormat::Tsv, &["id"])),
        ("{\"id\":\" \"}\n{\"id\":\"  \"}\n{\"id\":\" x\"}\n", config(RecordFormat::Jsonl, &["id"])),
    ] {
        let outcome = read_text(text, config.clone());
        assert_eq!(outcome.keys(), [" x"], "{text:?}");
        assert!(outcome.rejections.iter().all(|(_, _, reason)| matches!(reason, RejectReason::NoKey { .. })));
        let value = ParserConfig { empty_key: EmptyKey::Value, ..config };
        assert_eq!(read_text(text, value).keys().len(), 3, "{text:?}");
    }
    // A line of blanks is a record, and equals another line with the same blanks.
    assert_eq!(read_text(" \n \n", config(RecordFormat::Lines, &[])).keys(), [" ", " "]);
}

#[test]
fn a_key_with_one_empty_part_is_no_key() {
    let text = "a,b\n1,\n,2\n,\n1,2\n";
    assert_eq!(read_text(text, csv(&["a", "b"])).keys(), ["1|2"]);
    let value = ParserConfig { empty_key: EmptyKey::Value, ..csv(&["a", "b"]) };
    assert_eq!(read_text(text, value).keys(), ["1|", "|2", "|", "1|2"]);
    // If the key is the whole record, empty fields are part of the key.
    assert_eq!(read_text(text, csv(&[])).keys(), ["1,", ",2", ",", "1,2"]);
    let ignoring = ParserConfig { ignore: vec!["a".into()], ..csv(&[]) };
    let outcome = read_text(text, ignoring.clone());
    assert_eq!(outcome.keys(), ["2", "2"], "a record without any value has no key");
    assert!(outcome.rejections.iter().all(|(_, _, reason)| matches!(reason, RejectReason::NoKey { .. })));
    let ignoring = ParserConfig { empty_key: EmptyKey::Value, ..ignoring };
    assert_eq!(read_text(text, ignoring).keys(), ["", "2", "", "2"]);
}

/// Returns the keys of the records before the first record without a key, and the error at that record.
fn refusal(text: &str, config: ParserConfig) -> (Vec<String>, String) {
    let mut reader = BlockReader::new(text.as_bytes(), BlockOptions::for_format(config.format));
    let mut parser = RecordParser::new(config, secret()).expect("a parser");
    let (mut block, mut parsed) = (Block::default(), ParsedBlock::default());
    assert!(reader.read_block(&mut block).expect("memory"));
    parser.parse(&block, &mut parsed).expect("fields");
    let keys = (0..parsed.len()).map(|event| parsed.key_parts(event, &block).join("|")).collect();
    (keys, parsed.refusal().map(ToString::to_string).unwrap_or_default())
}

#[test]
fn records_end_before_one_without_a_key_where_it_is_to_be_refused() {
    let fail = |format, key: &str| ParserConfig { empty_key: EmptyKey::Fail, ..config(format, &[key]) };
    let (keys, error) = refusal("id,m\n1,a\n2,b\nx\n,c\n3,d\n,e\n", fail(RecordFormat::Csv, "id"));
    assert_eq!(keys, ["1", "2"]);
    assert_eq!(error, "line 5: its key field `id` has no value, and --empty-key fail ends the run there");
    let (keys, error) = refusal("{\"id\":1}\n{\"x\":1}\n{\"id\":2}\n", fail(RecordFormat::Jsonl, "id"));
    assert_eq!((keys, error.contains("line 2")), (vec!["1".to_owned()], true), "{error}");
    assert_eq!(refusal("id\n1\n2\n", fail(RecordFormat::Csv, "id")), (vec!["1".into(), "2".into()], String::new()));
}

#[test]
fn fields_can_be_ignored_where_the_whole_record_is_the_key() {
    let ignoring = |format, names: &[&str]| ParserConfig {
        ignore: names.iter().map(|&name| name.to_owned()).collect(),
        ..config(format, &[])
    };
    let text = "id,t,name\n1,100,a\n1,200,a\n1,100,b\n1,100,a,x\n";
    let outcome = read_text(text, ignoring(RecordFormat::Csv, &["t"]));
    assert_eq!(outcome.keys(), ["1|a", "1|a", "1|b"]);
    assert_eq!(outcome.events[0].digest, outcome.events[1].digest);
    assert_eq!(outcome.rejections.len(), 1);
    let padded = ParserConfig { ragged: Ragged::Pad, ..ignoring(RecordFormat::Csv, &["t"]) };
    assert_eq!(
        read_text("id,t,n\n1,2,a,x\n1,2,a,y\n1\n", padded).keys(),
        ["1|"],
        "the additional field is part of the key"
    );
    let bare = ParserConfig { no_header: true, ..ignoring(RecordFormat::Tsv, &["2"]) };
    assert_eq!(read_text("1\t100\ta\n1\t200\ta\n", bare).keys(), ["1|a", "1|a"]);
    let json = "{\"t\":1,\"id\":7,\"u\":{\"t\":1}}\n{\"id\":7.0,\"u\":{\"t\":1},\"t\":2}\n{\"id\":7,\"u\":{\"t\":2}}\n";
    let outcome = read_text(json, ignoring(RecordFormat::Jsonl, &["t"]));
    assert_eq!(outcome.events[0].digest, outcome.events[1].digest);
    assert_ne!(outcome.events[0].digest, outcome.events[2].digest);
    let outcome = read_text(json, ignoring(RecordFormat::Jsonl, &["t", "u.t"]));
    assert_eq!(outcome.events[0].digest, outcome.events[2].digest);
    let error = |config: ParserConfig| RecordParser::new(config, secret()).err().unwrap().to_string();
    assert!(error(ignoring(RecordFormat::Clf, &["time"])).contains("cannot be ignored"));
    assert!(
        error(ParserConfig { key: vec!["id".into()], ..ignoring(RecordFormat::Csv, &["t"]) }).contains("whole record")
    );
    let error = |names: &[&str]| read_files(&[text], ignoring(RecordFormat::Csv, names)).err().unwrap().to_string();
    assert!(error(&["time"]).contains("there is no field `time`"));
    assert!(error(&["id", "t", "name"]).contains("all 3 fields are ignored"));
}

#[test]
fn whole_json_records_are_equal_by_value() {
    let text = "{\"a\":1,\"b\":{\"c\":\"x\",\"d\":[1,2]}}\n { \"b\" : {\"d\":[1.0,2], \"c\":\"\\u0078\"}, \"a\":1 }\r\n{\"a\":1,\"b\":{\"c\":\"x\",\"d\":[2,1]}}\n";
    let outcome = read_text(text, config(RecordFormat::Jsonl, &[]));
    assert_eq!(outcome.events[0].digest, outcome.events[1].digest);
    assert_ne!(outcome.events[0].digest, outcome.events[2].digest);
    // A state that was saved with the text of an object still matches if that text is in canonical form.
    assert_eq!(outcome.events[0].digest, secret().digest(b"{\"a\":1,\"b\":{\"c\":\"x\",\"d\":[1,2]}}"));
}

#[test]
fn a_comment_line_names_the_fields() {
    let w3c = "#Software: x\n#Version: 1.0\n#Fields: date time c-ip cs-uri\n2024-01-01 10:00:00 192.0.2.7 /a\n\
               2024-01-01 10:00:01 - /b\n#Software: x\n#Fields: date time cs-uri c-ip\n2024-01-01 10:00:02 /c 192.0.2.8\n\
               2024-01-01 10:00:03 /d\n";
    let outcome = read_text(w3c, config(RecordFormat::W3c, &["c-ip"]));
    assert_eq!(outcome.keys(), ["192.0.2.7", "192.0.2.8"]);
    assert_eq!(outcome.headers, [("#Fields: date time c-ip cs-uri\n".to_owned(), false)]);
    let comments = outcome.rejections.iter().filter(|(_, _, reason)| matches!(reason, RejectReason::Comment { .. }));
    assert_eq!(comments.map(|(line, _, _)| *line).collect::<Vec<_>>(), [1, 2, 6, 7]);
    assert_eq!(reasons(&outcome)[5], "9: it has 3 fields, and the header has 4 (--ragged pad takes such rows)");
    // A field that the new names no longer include is in none of the rows after them.
    let gone = "#Fields: a b\n1 2\n#Fields: a\n3\n";
    assert_eq!(read_text(gone, config(RecordFormat::W3c, &["b"])).keys(), ["2"]);
    let front = "#Version: 1.0\n#Fields: date time x-edge-location cs(User-Agent)\n2024-01-01\t10:00:00\tFRA2\tx%20y\n";
    assert_eq!(read_text(front, config(RecordFormat::Tsv, &["x-edge-location"])).keys(), ["FRA2"]);
    let zeek = "#separator \\x09\n#set_separator\t,\n#fields\tts\tuid\thost\n#types\ttime\tstring\tstring\n1.5\tC1\t-\n\
                2.5\tC2\th\n#close\t2024\n";
    let outcome = read_text(zeek, config(RecordFormat::Tsv, &["uid"]));
    assert_eq!(outcome.keys(), ["C1", "C2"]);
    assert_eq!(read_text(zeek, config(RecordFormat::Tsv, &["host"])).keys(), ["h"]);
}

#[test]
fn further_files_may_name_their_fields_in_another_order() {
    let files = ["#Fields: a b\n1 2\n", "#Date: x\n#Fields: b a\n3 4\n", "#Fields: b a\n5 6\n"];
    let outcome = read_files(&files, config(RecordFormat::W3c, &["a"])).unwrap();
    assert_eq!(outcome.keys(), ["1", "4", "6"]);
    assert_eq!(outcome.headers.iter().map(|(_, is_repeated)| *is_repeated).collect::<Vec<_>>(), [false, false, true]);
    let error = read_files(&["1 2\n"], config(RecordFormat::W3c, &["a"])).err().unwrap();
    assert_eq!(error, ConfigError::NoFieldsLine { line: 1 });
    let numbers = ParserConfig { no_header: true, ..config(RecordFormat::W3c, &["2"]) };
    assert_eq!(read_text("#x\n1 2\n# y\n3 4\n", numbers).keys(), ["2", "4"]);
}

#[test]
fn other_comments_stand_before_a_header_or_are_one() {
    for (text, key, expected) in [
        ("# exported, by x\nid,name\n1,a\n# end\n2,b\n", "id", vec!["1", "2"]),
        ("#id,name\n1,a\n2,b\n", "#id", vec!["1", "2"]),
        ("##v=1\n#id,name\n1,a\n", "name", vec!["a"]),
        ("#Date: 1,2\nid,name\n1,a\n", "id", vec!["1"]),
    ] {
        let outcome = read_text(text, csv(&[key]));
        assert_eq!(outcome.keys(), expected, "{text:?}");
        assert_eq!(outcome.headers.len(), 1);
    }
    // In a file that does not begin with a comment, a line with `#` is a row.
    assert_eq!(read_text("id,name\n#1,a\n", csv(&["id"])).keys(), ["#1"]);
}

/// Files of two programs were concatenated, and the headers of the files have the same names in a different order. The
/// parser used to ignore the second header and to read the key from the columns of the first header. Rows of the second
/// file were therefore dropped as duplicates of unrelated rows.
#[test]
fn a_header_in_another_order_ends_the_input() {
    let joined = "id,name\n1,a\nname,id\nx,1\nx,2\n";
    let mut parser = RecordParser::new(csv(&["id"]), secret()).unwrap();
    let (mut block, mut parsed) = (Block::default(), ParsedBlock::default());
    let mut reader = BlockReader::new(joined.as_bytes(), BlockOptions::for_format(RecordFormat::Csv));
    assert!(reader.read_block(&mut block).unwrap());
    parser.parse(&block, &mut parsed).unwrap();
    assert_eq!(parsed.len(), 1, "the record before the second header is read");
    assert!(matches!(parsed.refusal(), Some(ConfigError::HeaderReordered { line: 3, .. })), "{:?}", parsed.refusal());
    // A row of values is not a reordered header, and neither is the header itself.
    for text in ["a,b\n1,2\nb,a\n", "id,name\nid,name\n1,name\n", "from,2\n2,from\n"] {
        let outcome = read_text(text, csv(&["1"]));
        assert!(!outcome.events.is_empty() && outcome.rejections.is_empty(), "{text:?}");
    }
}

/// A program was killed while it wrote a line, and its next run continued directly after the incomplete line. The
/// joined line used to be read as if it were only the first of the two lines, so the second line was lost.
#[test]
fn log_lines_that_were_joined_are_rejected() {
    let line = |host: &str, path: &str| {
        format!("{host} - - [10/Oct/2024:13:55:38 +0000] \"GET {path} HTTP/1.1\" 200 15 \"-\" \"x [y]\"")
    };
    let (first, second) = (line("192.0.2.1", "/a?b[]=1"), line("192.0.2.2", "/b"));
    assert_eq!(read_text(&format!("{first}\n"), config(RecordFormat::Clf, &["host"])).keys(), ["192.0.2.1"]);
    // The first line may break off at any position, except where the address after it still reads as a separate field.
    for cut in "192.0.2.1 - -".len()..=first.len() {
        let outcome = read_text(&format!("{}{second}\n", &first[..cut]), config(RecordFormat::Clf, &["host"]));
        assert!(matches!(&outcome.rejections[..], [(1, _, RejectReason::NotALogLine)]), "{}", &first[..cut]);
    }
    let short = "192.0.2.1 - - [10/Oct/2024:13:55:38 +0000] \"GET /a HTTP/1.1\" 200 ";
    for bytes in ["1.5k", "abc", "152.2.2.2"] {
        let outcome = read_text(&format!("{short}{bytes}\n"), config(RecordFormat::Clf, &["host"]));
        assert!(matches!(&outcome.rejections[..], [(1, _, RejectReason::NotALogLine)]), "{bytes}");
    }
}

#[test]
fn hosts_that_servers_write_are_hosts() {
    let rest = "- - [10/Oct/2024:13:55:38 +0000] \"GET /a HTTP/1.1\" 200 15\n";
    for (head, host, vhost) in [
        ("unix:", "unix:", None),
        ("_ 192.0.2.1", "192.0.2.1", Some("_")),
        ("_:80 192.0.2.1", "192.0.2.1", Some("_:80")),
        ("*:443 2001:db8::1", "2001:db8::1", Some("*:443")),
        ("- 192.0.2.1", "192.0.2.1", None),
        ("_default_:443 192.0.2.1", "192.0.2.1", Some("_default_:443")),
    ] {
        let text = format!("{head} {rest}");
        assert_eq!(read_text(&text, config(RecordFormat::Clf, &["host"])).keys(), [host], "{head}");
        let found = read_text(&text, config(RecordFormat::Clf, &["vhost"])).keys();
        assert_eq!(found.first().map(String::as_str), vhost, "{head}");
    }
    // Two addresses may be those of a client and its proxy, in either order.
    let outcome = read_text(&format!("192.0.2.1 192.0.2.2 {rest}"), config(RecordFormat::Clf, &["host"]));
    assert!(outcome.events.is_empty(), "{:?}", outcome.keys());
}

/// Names of channels, colours and numbers of issues also begin with `#`.
#[test]
fn rows_that_begin_with_a_number_sign_are_rows() {
    let bare = ParserConfig { no_header: true, ..config(RecordFormat::Tsv, &["1"]) };
    assert_eq!(read_text("#a\t1\n#b\t2\n", bare).keys(), ["#a", "#b"]);
    assert_eq!(read_text("#tag,n\n#a,1\n#b,2\nc,3\n", csv(&["#tag"])).keys(), ["#a", "#b", "c"]);
    let named = config(RecordFormat::Tsv, &["#CHROM", "POS"]);
    let outcome = read_text("##fileformat=VCFv4.2\n##source=x\n#CHROM\tPOS\n1\t100\n1\t200\n", named);
    assert_eq!(outcome.keys(), ["1|100", "1|200"]);
    assert_eq!(outcome.rejections.len(), 2, "comments");
}
