//! Tests that `dedup` detects the format of an input from its first lines. A record that does not have the form of its
//! format, or that has no key, must never be reported as a duplicate.

use crate::run::Folder;

const COMBINED: &str = "192.0.2.7 - - [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.1\" 200 12 \"-\" \"x\"\n\
                        192.0.2.7 - - [10/Oct/2000:13:55:37 -0700] \"GET /a HTTP/1.1\" 200 12 \"-\" \"x\"\n\
                        192.0.2.8 - - [10/Oct/2000:13:55:38 -0700] \"GET /a HTTP/1.1\" 200 12 \"-\" \"x\"\n";

fn lines(text: &str, wanted: &[usize]) -> String {
    text.lines().enumerate().filter(|(at, _)| wanted.contains(at)).map(|(_, line)| format!("{line}\n")).collect()
}

#[test]
fn the_first_lines_show_the_format() {
    let json = "{\"id\":1,\"m\":\"a\"}\n{\"m\":\"a\",\"id\":1}\n{\"id\":2,\"m\":\"a\"}\n";
    let csv = "id,t\n1,5\n2,6\n1,5\n";
    let semicolons = "id;price\n1;1,5\n2;2,5\n1;1,7\n";
    let w3c = "#Fields: date time c-ip\n2024-01-01 10:00:00 192.0.2.7\n2024-01-01 10:00:01 192.0.2.7\n";
    for (input, flags, format, kept) in [
        (COMBINED, "--key 1", "clf", vec![0, 2]),
        (json, "", "jsonl", vec![0, 2]),
        (json, "--key m", "jsonl", vec![0]),
        (csv, "", "csv", vec![0, 1, 2]),
        (csv, "--key id", "csv", vec![0, 1, 2]),
        (semicolons, "--key id", "csv --separator ';'", vec![0, 1, 2]),
        (w3c, "--key c-ip", "w3c", vec![0, 1]),
    ] {
        let folder = Folder::with(input);
        let words = format!("read as {format} (--format lines compares whole lines)");
        for ran in [
            folder.dedup(&format!("--window unbounded --report none {flags} input")).ok(),
            folder.dedup(&format!("--window unbounded --report none --format auto {flags} input")).ok(),
            folder.dedup_from(&format!("--window unbounded --report none {flags}"), input.as_bytes()).ok(),
        ] {
            assert_eq!(ran.out, lines(input, &kept), "{flags} {format}");
            assert!(ran.err.contains(&words), "{words}: {}", ran.err);
        }
        let given = folder.dedup("--window unbounded --report none --format lines input").ok();
        assert!(!given.err.contains("read as"), "{}", given.err);
    }
}

/// `firstseen dedup access.log` used to compare only clients and their requests, and dropped lines of other days and
/// with other statuses.
#[test]
fn whole_lines_of_a_log_are_compared_where_no_field_is_named() {
    let again = COMBINED.lines().next().expect("a line");
    let folder = Folder::with(format!("{COMBINED}{again}\n"));
    for flags in ["--window unbounded", "--window 24h"] {
        let ran = folder.dedup(&format!("{flags} --report none input")).ok();
        assert_eq!(ran.out, COMBINED, "{}", ran.err);
        let words = "read as clf and whole lines are compared (--key host,request compares these fields)";
        assert!(ran.err.contains(words), "{}", ran.err);
    }
}

/// The lines of one JSON document, or of a quoted text in several lines, are not records. Their brackets used to be
/// dropped as duplicates.
#[test]
fn documents_are_not_torn_into_lines() {
    let csvlog = "2024-10-10 03:00:00.123 UTC,\"u\",\"d\",42,\"[local]\",5f.1,1,\"idle\",2024-10-10 03:00:00 UTC,3/1,0,LOG,\
                  00000,\"a\nb\",,,,,,,,,\"psql\"\n";
    for (input, words) in [
        ("[\n  {\n    \"id\": 1\n  },\n  {\n    \"id\": 2\n  }\n]\n", "jq -c '.[]'"),
        ("[{\"id\":1},{\"id\":2}]\n", "jq -c '.[]'"),
        ("{\n  \"id\": 1\n}\n{\n  \"id\": 2\n}\n", "jq -c ."),
        ("{\"Records\": [\n{\"id\": 1},\n{\"id\": 2}\n]}\n", "jq -c '.Records[]'"),
        (csvlog, "--format csv --no-header"),
        ("<?xml version=\"1.0\"?>\n<a>\n<b/>\n<b/>\n</a>\n", "XML"),
    ] {
        let folder = Folder::with(input);
        for ran in [
            folder.dedup("--window unbounded --out out input"),
            folder.dedup_from("--window unbounded --out out", input.as_bytes()),
        ] {
            ran.fails(2, &[words, "--format lines compares its lines"]);
        }
        assert!(!folder.path("out").exists());
        folder.dedup("--window unbounded --format lines input").ok();
    }
}

#[test]
fn lines_that_show_no_format_are_compared_as_a_whole() {
    for (input, kept) in [
        ("a\nb\na\n", vec![0, 1]),
        ("hello, world\nbye, world\nhello, world\n", vec![0, 1]),
        ("{\"id\":1}\nno json\n{\"id\":1}\n", vec![0, 1]),
        ("id,m\n1,a\n", vec![0, 1]),
    ] {
        let ran = Folder::with(input).dedup("--window unbounded --report none input").ok();
        assert_eq!((ran.out, ran.err), (lines(input, &kept), String::new()));
    }
    let ran = Folder::with("id m\n1 a\n").dedup("--window unbounded --key id input");
    ran.fails(2, &["there is no field `id`", "name their format by --format"]);
    // A header that has the field is enough, because a file without records cannot lack a field.
    let ran = Folder::with("id,m\n1,a\n").dedup("--window unbounded --report none --key id input").ok();
    assert_eq!(ran.out, "id,m\n1,a\n");
    let folder = Folder::with("id,m\n1,a\n1,b\n");
    folder.write("empty", "");
    let ran = folder.dedup("--window unbounded --report none --key id empty input").ok();
    assert_eq!(ran.out, "id,m\n1,a\n");
    assert_eq!(folder.dedup("--window unbounded --report none --key id empty").ok().out, "");
    // The last line counts even if the file ends without a line break.
    let ran = Folder::with("{\"id\":1,\"t\":1}").dedup("--window unbounded --report none --key id input").ok();
    assert!(ran.err.contains("read as jsonl"), "{}", ran.err);
}

#[test]
fn what_was_looked_at_is_read_again_whole() {
    let input: String = (0..40_000).map(|number| format!("{{\"id\":{}}}\n", number % 30_000)).collect();
    let expected: String = (0..30_000).map(|number| format!("{{\"id\":{number}}}\n")).collect();
    let folder = Folder::with(&input);
    let flags = "--window unbounded --capacity 100k --fpr 1e-8 --seed 1 --report none --key id";
    assert_eq!(folder.dedup(&format!("{flags} input")).ok().out, expected);
    assert_eq!(folder.dedup_from(flags, input.as_bytes()).ok().out, expected);
    assert_eq!(folder.dedup(&format!("{flags} input input")).ok().out, expected);
    assert_eq!(folder.dedup_from("--window unbounded --report none", b"").ok().out, "");
}

#[test]
fn a_state_does_not_depend_on_who_named_the_format() {
    let folder = Folder::with(COMBINED);
    let flags = "--window unbounded --report none --state state";
    assert_eq!(folder.dedup(&format!("{flags} --key host,request --out once input")).ok().out, "");
    assert_eq!(folder.dedup(&format!("{flags} --format clf --out once input")).ok().out, "");
    assert_eq!(folder.read("once"), lines(COMBINED, &[0, 2]));
    folder.dedup(&format!("{flags} --format clf --key host,request input")).ok();
    folder.dedup(&format!("{flags} --format lines input")).fails(2, &["state"]);
    let folder = Folder::with("{\"id\":1,\"t\":1}\n");
    folder.dedup(&format!("{flags} --ignore t input")).ok();
    assert_eq!(folder.dedup(&format!("{flags} --format jsonl --ignore t input")).ok().out, "");
    folder.dedup(&format!("{flags} --format jsonl input")).fails(2, &["state"]);
}

#[test]
fn fields_are_parted_by_the_separator_of_the_flag() {
    let flags = "--window unbounded --report none --key id";
    for (separator, byte) in [(";", ";"), ("|", "|"), ("tab", "\t"), ("\\t", "\t"), ("\\x01", "\u{1}")] {
        let input = "id,m\n1,\"a,b\n,c\"\n1,\"d\"\n2,e\n".replace(',', byte);
        let expected = "id,m\n1,\"a,b\n,c\"\n2,e\n".replace(',', byte);
        for format in ["", "--format csv "] {
            let folder = Folder::with(&input);
            let ran = folder.dedup(&format!("{flags} {format}--separator {separator} input")).ok();
            assert_eq!(ran.out, expected, "{separator}");
        }
    }
    let folder = Folder::with("id;m\n1;a\n");
    folder.dedup(&format!("{flags} --format csv input")).fails(2, &["the header has one column", "--separator ';'"]);
    folder.dedup(&format!("{flags} --format jsonl --separator ; input")).fails(2, &["no separator"]);
    folder.dedup(&format!("{flags} --separator ;; input")).fails(2, &["a separator is one character"]);
    // If a run was killed within a quoted field, the next run appends after that field is closed.
    folder.write("once", "id;m\n1;\"cut off");
    folder.write("more", "id;m\n2;b\n");
    folder.dedup(&format!("{flags} --separator ; --state state --out once more")).ok();
    assert_eq!(folder.read("once"), "id;m\n1;\"cut off\"\n2;b\n");
}

#[test]
fn commas_in_names_are_written_with_a_backslash() {
    let folder = Folder::with("\"Lee, Ann\",b,m\n1,2,x\n1,2,y\n1,3,z\n");
    let flags = "--window unbounded --report none --format csv input";
    let run = |key: [&str; 2]| {
        let mut command = crate::run::dedup(flags);
        command.args(key).current_dir(folder.path(""));
        String::from_utf8(command.output().expect("the binary").stdout).expect("text")
    };
    let header = "\"Lee, Ann\",b,m\n";
    assert_eq!(run(["--key", "Lee\\, Ann,b"]), format!("{header}1,2,x\n1,3,z\n"));
    assert_eq!(run(["--key", "Lee\\, Ann"]), format!("{header}1,2,x\n"));
    assert_eq!(run(["--ignore", "Lee\\, Ann,m"]), format!("{header}1,2,x\n1,3,z\n"));
}

#[test]
fn records_of_another_shape_go_aside_and_take_none_with_them() {
    let rest = "[10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.1\" 200 12\n";
    let prefixed = |host: &str| format!("Oct 10 13:55:30 web01 nginx: {host} - - {rest}");
    let log = format!("h - - {rest}{}{}h - - {rest}", prefixed("192.0.2.7"), prefixed("192.0.2.8"));
    let cases = [
        ("--format clf --key host", log, vec![0], vec![1, 2]),
        ("--format csv --key user", "id,user\n1,5,a\n2,5,b\n3,5\n4,5\n".to_owned(), vec![0, 3], vec![1, 2]),
        ("--format csv --key id", "id,m\n,a\n,b\n1,c\n1,d\n".to_owned(), vec![0, 3], vec![1, 2]),
        ("--format jsonl --key id", "{\"id\":null}\n{\"id\":\"\"}\n{\"id\":1}\n".to_owned(), vec![2], vec![0, 1]),
    ];
    for (flags, input, kept, aside) in cases {
        let folder = Folder::with(&input);
        let ran = folder.dedup(&format!("--window unbounded --report none --rejected aside {flags} input")).ok();
        assert_eq!(ran.out, lines(&input, &kept), "{flags}");
        let aside = lines(&input, &aside);
        let header = if flags.contains("csv") { lines(&input, &[0]) } else { String::new() };
        assert_eq!(folder.read("aside"), header + &aside, "{flags}");
    }
}

#[test]
fn a_run_can_end_at_a_record_without_a_key() {
    let folder = Folder::with("id,m\n1,a\n1,b\n2,c\n,d\n3,e\n");
    let flags = "--window unbounded --report none --format csv --key id";
    let ran = folder.dedup(&format!("{flags} --empty-key fail input"));
    assert_eq!(ran.out, "id,m\n1,a\n2,c\n");
    ran.fails(2, &["input", "line 5", "its key field `id` has no value"]);
    let ran = folder.dedup(&format!("{flags} --empty-key value input input")).ok();
    assert_eq!(ran.out, "id,m\n1,a\n2,c\n,d\n3,e\n");
    folder.dedup(&format!("{flags} --empty-key drop input")).fails(2, &["pass", "value", "fail"]);
}

#[test]
fn rows_can_be_padded() {
    let input = "id,m\n1\n1,x\n2,y,z\n";
    let flags = "--window unbounded --report none --format csv --key id --rejected aside";
    let folder = Folder::with(input);
    assert_eq!(folder.dedup(&format!("{flags} --ragged pad input")).ok().out, "id,m\n1\n2,y,z\n");
    let ran = folder.dedup(&format!("{flags} input")).ok();
    assert_eq!((ran.out.as_str(), folder.read("aside").as_str()), ("id,m\n1,x\n", "id,m\n1\n2,y,z\n"));
    for words in ["it has 1 field, and the header has 2", "--ragged pad"] {
        assert!(ran.err.contains(words), "{words}: {}", ran.err);
    }
}

/// A comment in a log can give new names to the fields of all lines that follow, so an output must contain the comment
/// before these lines.
///
/// `dedup` used to write such a comment too late, after the first line with the new fields. In the output for
/// duplicates, this line was therefore read with the old field names.
#[test]
fn comments_stay_in_their_place_and_names_reach_every_output() {
    let input = "#Software: IIS\n#Version: 1.0\n#Fields: date time c-ip\n2024-01-01 10:00:00 192.0.2.1\n\
                 2024-01-01 10:00:01 192.0.2.1\n#Fields: date c-ip time\n2024-01-01 192.0.2.2 10:00:02\n\
                 2024-01-01 192.0.2.2 10:00:03\n";
    let folder = Folder::with(input);
    let flags = "--window unbounded --format w3c --key c-ip --report none --out once";
    folder.dedup(&format!("{flags} --unjudged drop --duplicates again --rejected bad input")).ok();
    assert_eq!(folder.read("once"), lines(input, &[0, 1, 2, 3, 5, 6]));
    assert_eq!(folder.read("again"), lines(input, &[2, 4, 5, 7]));
    assert_eq!(folder.read("bad"), lines(input, &[2, 5]));
    // A run that appends to the file finds its header after the comments.
    folder.dedup(&format!("{flags} --state state input")).ok();
    assert_eq!(folder.read("once").matches("#Fields: date time c-ip").count(), 1);
}
