//! Checks that every record goes to exactly one output, unchanged and in order, and that a failing output is an error.

use crate::run::{Folder, Random, example, example_text, number};

/// Checks that the lines of `whole` are divided over `parts`: every line is in exactly one part, and each part keeps
/// the order.
fn splits(whole: &str, parts: &[&str]) {
    let mut rest: Vec<_> = parts.iter().map(|part| part.lines().peekable()).collect();
    for (number, line) in whole.lines().enumerate() {
        // The same line may come next in several parts. Any of them can be chosen, because the parts are equal from
        // there on, or one of them fails later.
        let next = rest.iter_mut().find_map(|part| part.next_if_eq(&line));
        assert!(next.is_some(), "line {} is lost or out of order", number + 1);
    }
    assert!(rest.iter_mut().all(|part| part.peek().is_none()), "an output has more than the input");
}

#[test]
fn no_line_is_lost() {
    let mut random = Random(3);
    let input: String = (0..20_000)
        .map(|number| match random.below(20) {
            0 => format!("{{\"k\": broken {number}\n"),
            1 => format!("{{\"other\": {number}}}\n"),
            2 => format!("{{\"k\": {}, \"t\": {}, \"n\": {number}}}\n", random.below(900), 1_800_000_000),
            _ => {
                let time = 1_700_000_000 + number - random.below(3000);
                format!("{{\"k\": {}, \"t\": {time}, \"n\": {number}}}\n", random.below(900))
            }
        })
        .collect();
    for (filter, exact) in [
        ("--window 10m --capacity 900", true),
        ("--window 10m --capacity 20 --late undecided", true),
        ("--window 10m --capacity 900 --kind generations --late duplicate", true),
        ("--window 10m --capacity 900 --confirm exact:8KiB --uncertain uncertain", false),
    ] {
        let folder = Folder::with(&input);
        let files = "--out out --duplicates again --rejected rejected";
        let flags = format!("--format jsonl --key k --time t {filter} {files} --report json input");
        let ran = folder.dedup(&flags).ok();
        let uncertain = if exact { String::new() } else { folder.read("uncertain") };
        let (out, again, rejected) = (folder.read("out"), folder.read("again"), folder.read("rejected"));
        splits(&input, &[&out, &again, &rejected, &uncertain]);
        let report = ran.report();
        let lines = |text: &str| text.lines().count() as u64;
        assert_eq!(number(&report, "first_seen") + number(&report, "undecided"), lines(&out), "{report}");
        assert_eq!(number(&report, "duplicates"), lines(&again) + lines(&uncertain), "{report}");
        assert_eq!(number(&report, "rejected"), lines(&rejected), "{report}");
        assert!([out, again, rejected].iter().all(|text| text.len() > 1000), "{filter}: {report}");
    }
}

#[test]
fn a_real_log_is_split_without_loss() {
    let folder = Folder::new();
    let flags = format!("--format clf --key host,request --duplicates again {}", example("apache_logs.gz"));
    let ran = folder.dedup(&flags).ok();
    splits(&example_text("apache_logs.gz"), &[&ran.out, &folder.read("again")]);
    assert!(ran.out.lines().count() > 7000 && folder.read("again").lines().count() > 1000);
}

#[test]
fn stdout_is_empty_where_records_go_to_a_file() {
    let folder = Folder::with("a\nb\na\n");
    assert_eq!(folder.dedup("--out out input").ok().out, "");
    assert_eq!(folder.read("out"), "a\nb\n");
    folder.write("out", "something longer than what comes now\n");
    folder.dedup("--out out input").ok();
    assert_eq!(folder.read("out"), "a\nb\n", "what was there is replaced");
}

#[test]
fn a_full_disk_is_an_error_and_no_state_is_saved() {
    let log = example("nasa_19950801.tsv.gz");
    for output in ["--out /dev/full", "--duplicates /dev/full --out out"] {
        let folder = Folder::new();
        let ran = folder.dedup(&format!("--format tsv --key host {output} --state state --report none {log}"));
        ran.fails(1, &["cannot write /dev/full", "No space left"]);
        assert!(!folder.has("state"), "{output}");
    }
    let ran = Folder::with("a\n").dedup("--report-file /dev/full input").fails(1, &["report", "/dev/full"]);
    assert_eq!(ran.out, "a\n");
}

/// Checks a file on a disk that becomes full. The file must end with a complete record, even if records contain line
/// breaks.
#[test]
fn a_file_without_room_ends_with_a_whole_record() {
    let records: Vec<String> = (0..200_000).map(|number| format!("{number},\"two\n\nlines\"\n")).collect();
    let folder = Folder::with(records.concat());
    let flags = "--format csv --no-header --key 1 --window unbounded --capacity 300k --report none";
    for (output, name) in [("--out out", "out"), (">> shell", "shell")] {
        let limited = format!("trap '' XFSZ; ulimit -f 900; firstseen dedup {flags} input {output}");
        folder.shell(&limited).fails(1, &["cannot write", "File too large"]);
        let left = folder.read(name);
        let end = records.iter().scan(0, |end, record| {
            *end += record.len();
            Some(*end)
        });
        let is_whole = end.into_iter().chain([0]).any(|end| end == left.len());
        assert!(is_whole && folder.read("input").starts_with(&left), "{output}: {} bytes", left.len());
        assert!(left.len() > 10_000 && left.len() < records.concat().len(), "{output}: {} bytes", left.len());
    }
}

#[test]
fn an_output_that_promises_to_be_compressed_is_refused() {
    let folder = Folder::with("a\n");
    for name in ["o.gz", "o.GZ", "o.tgz", "o.bz2", "o.xz", "o.Zst", "o.zstd"] {
        folder.dedup(&format!("--out {name} input")).fails(2, &[name, "plain text"]);
    }
    assert_eq!(folder.names(), ["input"]);
    folder.dedup("--out gz input").ok();
    assert_eq!(folder.read("gz"), "a\n");
}

#[test]
fn an_output_that_cannot_be_made_is_an_error_before_anything_else() {
    let folder = Folder::with("a\n");
    for flag in ["--out", "--duplicates", "--rejected"] {
        let ran = folder.dedup(&format!("{flag} missing/file input")).fails(1, &["cannot write missing/file"]);
        assert_eq!(ran.out, "", "{flag}");
    }
}

#[test]
fn an_exact_cache_separates_duplicates_that_are_certain() {
    let mut random = Random(9);
    let input: String = (0..3000).map(|_| format!("{}\n", random.below(2000))).collect();
    let folder = Folder::with(&input);
    let flags =
        "--cells 6000 --hashes 2 --layout classic --seed 3 --duplicates again --uncertain uncertain --report json";
    // The cache grows as needed, so a limit beyond the machine's memory does no harm.
    let roomy = folder.dedup(&format!("{flags} --verify exact --confirm exact:1TB input")).ok().report();
    let confirm = |name: &str| number(&roomy["confirm"], name);
    assert_eq!(
        (confirm("certain"), confirm("uncertain")),
        (number(&roomy, "tp"), number(&roomy, "duplicates") - number(&roomy, "tp"))
    );
    assert!(number(&roomy, "fp") > 50, "{roomy}");
    assert_eq!(folder.read("again").lines().count() as u64, confirm("certain"));
    assert_eq!(folder.read("uncertain").lines().count() as u64, confirm("uncertain"));
    let tight = folder.dedup(&format!("{flags} --confirm exact:8KiB input")).ok().report();
    assert!(number(&tight["confirm"], "certain") < confirm("certain"), "{tight}");
    let all = folder.dedup("--seed 3 --duplicates again --confirm exact:1MiB --report json input").ok();
    assert_eq!(folder.read("again").lines().count() as u64, number(&all.report(), "duplicates"), "without --uncertain");
}

#[test]
fn an_older_output_stays_where_the_input_does_not_fit_the_flags() {
    let folder = Folder::with("id,user\n1,ann\n");
    folder.write("kept.csv", "an older run\n");
    folder.dedup("--format csv --key nope --out kept.csv input").fails(2, &["nope"]);
    assert_eq!(folder.read("kept.csv"), "an older run\n");
    folder.dedup("--format csv --key user --out kept.csv input").ok();
    assert_eq!(folder.read("kept.csv"), "id,user\n1,ann\n");
    folder.write("empty", "");
    folder.dedup("--format csv --key user --out kept.csv empty").ok();
    assert_eq!(folder.read("kept.csv"), "");
}
