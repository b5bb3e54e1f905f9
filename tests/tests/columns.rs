//! `dedup` and `estimate` over rows: files of Parquet, and streams of Arrow.

mod tables;

use std::fs;
use std::io::{Read, Write};

use parquet::basic::{Compression, ZstdLevel};

use self::tables::{
    Click, START_S, arrow_file, clicks, compressed_arrow_file, dates, read_parquet, read_stream, stream, table,
    with_one_long_text, write_parquet, write_with_large_groups,
};
use crate::local_cluster::LocalCluster;
use crate::run::{Folder, Random, Watchdog, number};

const CLICKS: [Click; 7] = [
    (Some("ann"), 1, START_S),
    (Some("bob"), 2, START_S + 1),
    (Some("ann"), 3, START_S + 2),
    (None, 4, START_S + 3),
    (Some("cid"), 5, START_S + 4),
    (None, 6, START_S + 5),
    (Some("bob"), 7, START_S + 6),
];

fn folder_with_clicks() -> Folder {
    let folder = Folder::new();
    write_parquet(&folder.path("in.parquet"), &table(&CLICKS));
    folder
}

fn numbers(rows: &[arrow_array::RecordBatch]) -> Vec<i64> {
    clicks(rows).into_iter().map(|(_, number)| number).collect()
}

#[test]
fn each_key_passes_once_and_rows_without_a_key_pass() {
    let folder = folder_with_clicks();
    let ran = folder.dedup(
        "--format parquet --key user --time time --window 1h --out out.parquet --duplicates twice.parquet \
         --report json in.parquet",
    );
    let report = ran.ok().report();
    assert_eq!((number(&report, "events"), number(&report, "first_seen"), number(&report, "duplicates")), (5, 3, 2));
    let (rows, index) = read_parquet(&folder.path("out.parquet"));
    assert_eq!(numbers(&rows), [1, 2, 4, 5, 6]);
    assert_eq!(numbers(&read_parquet(&folder.path("twice.parquet")).0), [3, 7]);
    assert_eq!(folder.names(), ["in.parquet", "out.parquet", "twice.parquet"], "no temporary file is left");

    // Every value of a row is as it was.
    let all = table(&CLICKS);
    let expected: Vec<_> = [0, 1, 3, 4, 5].iter().map(|row| all.slice(*row, 1)).collect();
    let found: Vec<_> = rows.iter().flat_map(|rows| (0..rows.num_rows()).map(|row| rows.slice(row, 1))).collect();
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found.columns(), expected.columns());
    }
    // So is what the file says about itself.
    let (_, before) = read_parquet(&folder.path("in.parquet"));
    assert_eq!(index.file_metadata().schema(), before.file_metadata().schema());
    let group = index.row_group(0);
    assert_eq!(group.column(0).compression(), Compression::ZSTD(ZstdLevel::try_new(1).expect("a level")));
    assert_eq!(group.column(1).compression(), Compression::SNAPPY);
    assert!(group.column(0).dictionary_page_offset().is_some() && group.column(1).dictionary_page_offset().is_none());
    assert_eq!(group.sorting_columns(), None, "rows of several groups or files need not be in order");
    let of_file = index.file_metadata().key_value_metadata().expect("metadata");
    assert!(of_file.iter().any(|entry| entry.key == "made" && entry.value.as_deref() == Some("by the test")));
}

/// The same clicks as text and as rows have the same verdicts, and a filter that one form has saved continues with the
/// other.
#[test]
fn a_filter_is_continued_from_rows_to_text_and_back() {
    let folder = folder_with_clicks();
    folder.write("more.csv", format!("user,number,time\nbob,8,{0}\ndan,9,{0}\n", START_S + 7));
    write_parquet(
        &folder.path("last.parquet"),
        &table(&[(Some("dan"), 10, START_S + 8), (Some("eve"), 11, START_S + 9)]),
    );
    let flags = "--key user --time time --window 1h --seed 7 --state state";
    folder.dedup(&format!("{flags} --out one.parquet in.parquet")).ok();
    let ran = folder.dedup(&format!("{flags} --format csv more.csv")).ok();
    assert_eq!(ran.out, format!("user,number,time\ndan,9,{}\n", START_S + 7));
    folder.dedup(&format!("{flags} --out two.parquet last.parquet")).ok();
    assert_eq!(numbers(&read_parquet(&folder.path("two.parquet")).0), [11]);
    // Rows of a further run need another file, because nothing can be appended to a Parquet file.
    let before = fs::read(folder.path("two.parquet")).expect("a file");
    let ran = folder.dedup(&format!("{flags} --out two.parquet last.parquet"));
    ran.fails(2, &["two.parquet has rows of an earlier run", "name another file"]);
    assert_eq!(fs::read(folder.path("two.parquet")).expect("a file"), before);
}

/// Regression test for a loss that a simple text form of a row would cause: a missing value is not an empty one.
#[test]
fn whole_rows_are_equal_only_if_the_same_values_are_missing() {
    let folder = Folder::new();
    let rows = [(Some(""), 1, START_S), (None, 1, START_S), (Some(""), 1, START_S), (None, 1, START_S)];
    write_parquet(&folder.path("in.parquet"), &table(&rows));
    let ran = folder.dedup("--window unbounded --ignore tags --out out.parquet in.parquet").ok();
    assert!(ran.err.contains("read as parquet and whole rows are compared"), "{}", ran.err);
    let users: Vec<_> =
        clicks(&read_parquet(&folder.path("out.parquet")).0).into_iter().map(|(user, _)| user).collect();
    assert_eq!(users, [Some(String::new()), None]);
}

#[test]
fn mistakes_are_named_before_anything_is_written() {
    let folder = folder_with_clicks();
    folder.write("text", "user,number\nann,1\n");
    write_parquet(&folder.path("other.parquet"), &table(&CLICKS).project(&[0, 1]).expect("columns"));
    let cut = fs::read(folder.path("in.parquet")).expect("a file");
    folder.write("cut.parquet", &cut[..cut.len() - 9]);
    for (flags, words) in [
        ("--key usr in.parquet", vec!["there is no field `usr`", "did you mean `user`"]),
        ("--key tags in.parquet", vec!["the column `tags` has values of type List", "--ignore"]),
        ("in.parquet", vec!["the column `tags`", "--ignore"]),
        ("--key user --time tags in.parquet", vec!["the column `tags`", "not times"]),
        ("--key user --time time,number in.parquet", vec!["--time names 2 columns"]),
        ("--key user --time time --time-format epoch in.parquet", vec!["--time-format", "leave it out"]),
        ("--key user in.parquet other.parquet", vec!["other.parquet", "it has 2 columns instead of 4"]),
        ("--format parquet --key user text", vec!["text: it cannot be read as parquet"]),
        ("--key user cut.parquet", vec!["cut.parquet: it cannot be read as parquet"]),
        ("--format csv --key user in.parquet", vec!["it is a Parquet table", "--format parquet"]),
        ("--format parquet --separator ; --key user in.parquet", vec!["--separator is for text"]),
        ("--format parquet --no-header --key user in.parquet", vec!["--no-header is for text"]),
        ("--key user --out out.csv in.parquet", vec!["out.csv would hold rows as parquet"]),
        ("--key user --out out.arrow in.parquet", vec!["out.arrow would hold rows as parquet"]),
        ("--key user --out out.parquet.gz in.parquet", vec!["out.parquet.gz would hold rows as parquet"]),
        ("--ignore user.id in.parquet", vec!["there is no field `user.id`"]),
    ] {
        let ran = folder.dedup(&format!("--window unbounded --duplicates twice.parquet {flags}"));
        ran.fails(2, &words);
        assert_eq!(folder.names(), ["cut.parquet", "in.parquet", "other.parquet", "text"], "{flags}");
    }
    let ran = folder.dedup_from("--format parquet --window unbounded --key user", &cut);
    ran.fails(2, &["cannot be read from a pipe", "< FILE"]);
}

#[test]
fn an_input_that_ends_early_leaves_a_whole_file_with_what_was_judged() {
    let folder = folder_with_clicks();
    let ran = folder.dedup("--window unbounded --key user --empty-key fail --out out.parquet in.parquet");
    ran.fails(2, &["row 4: its key column `user` has no value", "--empty-key fail"]);
    assert_eq!(numbers(&read_parquet(&folder.path("out.parquet")).0), [1, 2]);
}

#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    let folder = folder_with_clicks();
    let ran = folder.dedup("--window unbounded --key user --state state --out /dev/full in.parquet");
    ran.fails(1, &["cannot write /dev/full", "free space"]);
    assert!(!folder.has("state"), "the rows are not stored, so the filter must not know them");
    let ran = folder.dedup("--window unbounded --key user --out missing/out.parquet in.parquet");
    ran.fails(1, &["cannot write missing/out.parquet"]);
}

#[test]
fn a_stream_of_arrow_goes_from_pipe_to_pipe() {
    let folder = Folder::new();
    let all = table(&CLICKS);
    let bytes = stream(&[all.slice(0, 3), all.slice(3, 4)]);
    folder.write("in.arrows", &bytes);
    folder.write("in.arrow", arrow_file(&[all.slice(0, 3), all.slice(3, 4)]));
    let flags = "--key user --time time --window 1h --format arrow";
    folder.dedup(&format!("{flags} --out one.arrows in.arrows")).ok();
    folder.dedup(&format!("{flags} --out two.arrows in.arrow")).ok();
    folder.dedup("--key user --time time --window 1h --out three.arrows in.arrow").ok();
    for name in ["one.arrows", "two.arrows", "three.arrows"] {
        let found = read_stream(&fs::read(folder.path(name)).expect("a file"));
        assert_eq!(numbers(&found), [1, 2, 4, 5, 6], "{name}");
        assert_eq!(found[0].schema(), all.schema(), "{name}");
    }
    // A stream that is cut off is an error, and what came before it passes.
    folder.write("cut.arrows", &bytes[..bytes.len() - 40]);
    folder.dedup(&format!("{flags} --out four.arrows cut.arrows")).fails(1, &["cut.arrows", "ends within a batch"]);
    assert_eq!(numbers(&read_stream(&fs::read(folder.path("four.arrows")).expect("a file"))), [1, 2]);
}

/// The rows of a batch pass before the next batch arrives.
#[test]
fn a_stream_does_not_wait_for_its_end() {
    let folder = Folder::new();
    let all = table(&CLICKS);
    let bytes = stream(&[all.slice(0, 3), all.slice(3, 4)]);
    let first = stream(&[all.slice(0, 3)]).len() - 8;
    let mut child = folder.start("--key user --window unbounded --format arrow");
    let _watchdog = Watchdog::of(&child);
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut stdout = child.stdout.take().expect("a pipe");
    stdin.write_all(&bytes[..first]).expect("a running process");
    let mut found = vec![0; 16];
    stdout.read_exact(&mut found).expect("rows before the end of the input");
    stdin.write_all(&bytes[first..]).expect("a running process");
    drop(stdin);
    stdout.read_to_end(&mut found).expect("the rest");
    assert!(child.wait().expect("a process").success());
    assert_eq!(numbers(&read_stream(&found)), [1, 2, 4, 5, 6]);
}

#[test]
fn estimates_of_rows_go_to_lines_and_frequent_rows_to_a_file() {
    let folder = folder_with_clicks();
    let flags = "estimate --format parquet --key user --time time --epoch 1h --lambda 0.5";
    folder.run(&format!("{flags} --per-event lines in.parquet")).fails(2, &["--per-event-format json"]);
    let flags = format!("{flags} --per-event lines --per-event-format json --min-estimate 2 --out often.parquet");
    folder.run(&format!("{flags} --report json in.parquet")).ok();
    assert_eq!(folder.read("lines").lines().count(), 5);
    assert_eq!(folder.read("lines").lines().next(), Some("{\"estimate\":1.0,\"key\":[\"ann\"]}"));
    let (rows, _) = read_parquet(&folder.path("often.parquet"));
    assert_eq!(numbers(&rows), [3, 4, 6, 7], "rows that cannot be judged pass");
}

/// No damage of a file makes the program panic or hang, and rows that pass are rows of the input.
#[test]
fn damaged_files_are_errors() {
    let folder = folder_with_clicks();
    let rows = table(&CLICKS);
    let inputs = [
        ("parquet", fs::read(folder.path("in.parquet")).expect("a file")),
        ("arrow", stream(std::slice::from_ref(&rows))),
        ("arrow", arrow_file(std::slice::from_ref(&rows))),
        ("arrow", compressed_arrow_file(&rows)),
    ];
    let mut random = Random(61);
    let mut failed = 0;
    for round in 0..80 {
        let (format, bytes) = &inputs[round % inputs.len()];
        let mut bytes = bytes.clone();
        for _ in 0..=random.below(3) {
            let place = random.below(bytes.len() as u64) as usize;
            bytes[place] ^= 1 << random.below(8);
        }
        let folder = Folder::with(&bytes);
        let ran = folder.dedup(&format!("--format {format} --key user --window unbounded --out out input"));
        assert!(matches!(ran.code, Some(0..=2)), "round {round}: {:?}", ran.code);
        assert!(!ran.err.contains("fault of firstseen"), "round {round}: {}", ran.err);
        failed += usize::from(ran.code != Some(0));
        if folder.has("out") && *format == "parquet" {
            assert!(clicks(&read_parquet(&folder.path("out")).0).len() <= CLICKS.len(), "round {round}");
        }
    }
    assert!(failed > 20, "only {failed} of the files were found to be damaged");
}

/// Regression test: the size of compressed values is named before them, and a false one ended the process.
#[test]
fn a_false_size_of_compressed_values_allocates_nothing() {
    let long: Vec<Click> =
        (0..100).map(|number| (Some("a user with a name that can be compressed"), number, START_S)).collect();
    let bytes = compressed_arrow_file(&table(&long));
    let size = (100 * "a user with a name that can be compressed".len() as u64).to_le_bytes();
    let place = bytes.windows(size.len()).position(|window| window == size).expect("the size of the users");
    for false_size in [1u64 << 33, 1 << 42, 1 << 62] {
        let mut bytes = bytes.clone();
        bytes[place..place + size.len()].copy_from_slice(&false_size.to_le_bytes());
        let folder = Folder::with(&bytes);
        let ran = folder.dedup("--format arrow --key user --window unbounded --out out input");
        ran.fails(1, &["write smaller batches"]);
    }
}

/// Regression test: polars writes files of Arrow without a stream in them, which only their index shows.
#[test]
fn files_of_other_programs_are_read() {
    let folder = Folder::new();
    for (name, file) in [
        ("polars.arrow", &include_bytes!("columns/polars.arrow")[..]),
        ("polars-zstd.arrow", include_bytes!("columns/polars-zstd.arrow")),
        ("pyarrow-lz4.feather", include_bytes!("columns/pyarrow-lz4.feather")),
        ("pyarrow-int96.parquet", include_bytes!("columns/pyarrow-int96.parquet")),
        ("polars.parquet", include_bytes!("columns/polars.parquet")),
    ] {
        folder.write(name, file);
        let out = if name.ends_with("parquet") { "out.parquet" } else { "out.arrows" };
        let ran = folder.dedup(&format!("--key user --time time --window 1h --report json --out {out} {name}")).ok();
        let report = ran.report();
        let counts = ["events", "first_seen", "duplicates"].map(|count| number(&report, count));
        assert_eq!(counts, [5, 3, 2], "{name}: {report}");
        let found = match out {
            "out.parquet" => read_parquet(&folder.path(out)).0,
            _ => read_stream(&fs::read(folder.path(out)).expect("a file")),
        };
        assert_eq!(found.iter().map(arrow_array::RecordBatch::num_rows).sum::<usize>(), 5, "{name}");
    }
}

/// Regression test: a pipe among the files was opened twice, and what had been read from it was lost.
#[test]
fn a_named_pipe_is_opened_once() {
    let folder = Folder::new();
    let all = table(&CLICKS);
    folder.write("one.arrows", stream(&[all.slice(0, 3)]));
    folder.write("two.arrows", stream(&[all.slice(3, 4)]));
    let script = "mkfifo pipe\ncat two.arrows > pipe &\n\
                  firstseen dedup --key user --window unbounded --format arrow --out out.arrows one.arrows pipe\nwait";
    folder.shell(script).ok();
    assert_eq!(numbers(&read_stream(&fs::read(folder.path("out.arrows")).expect("a file"))), [1, 2, 4, 5, 6]);
}

/// Regression test: an appended file could not be read, and the run succeeded.
#[test]
fn rows_are_not_appended_to_a_file() {
    let folder = folder_with_clicks();
    let script = "cp in.parquet out.parquet\nfirstseen dedup --key user --window unbounded in.parquet >> out.parquet";
    folder.shell(script).fails(2, &["standard output has rows of an earlier run"]);
    assert_eq!(numbers(&read_parquet(&folder.path("out.parquet")).0).len(), CLICKS.len());
    folder.shell("firstseen dedup --key user --window unbounded in.parquet > out.parquet").ok();
    assert_eq!(numbers(&read_parquet(&folder.path("out.parquet")).0), [1, 2, 4, 5, 6]);
}

/// Regression test: one output got its name although another one had failed and the filter was not saved, so that the
/// same command could not be repeated.
#[test]
fn outputs_get_their_names_together() {
    let folder = folder_with_clicks();
    write_parquet(&folder.path("out.parquet"), &table(&CLICKS[..1]));
    let flags = "--key user --window unbounded --out out.parquet --duplicates /dev/full in.parquet";
    folder.dedup(flags).fails(1, &["cannot write /dev/full"]);
    assert_eq!(numbers(&read_parquet(&folder.path("out.parquet")).0), [1], "the output of before");
    let flags = "--key user --window unbounded --state state --out new.parquet --duplicates /dev/full in.parquet";
    folder.dedup(flags).fails(1, &["cannot write /dev/full"]);
    assert_eq!(folder.names(), ["in.parquet", "out.parquet"]);
}

/// Regression test: files that differ in their metadata only were refused in the middle of a run.
#[test]
fn files_may_differ_in_metadata() {
    let folder = folder_with_clicks();
    let more = table(&[(Some("ann"), 8, START_S + 7), (Some("eve"), 9, START_S + 8)]);
    let schema = more.schema().as_ref().clone().with_metadata([("made".to_owned(), "later".to_owned())].into());
    let more = more.with_schema(std::sync::Arc::new(schema)).expect("the same columns");
    write_parquet(&folder.path("more.parquet"), &more);
    folder.dedup("--key user --window unbounded --out out.parquet in.parquet more.parquet").ok();
    assert_eq!(numbers(&read_parquet(&folder.path("out.parquet")).0), [1, 2, 4, 5, 6, 9]);
    folder.write("one.arrows", stream(&[table(&CLICKS)]));
    folder.write("two.arrows", stream(&[more]));
    folder.dedup("--format arrow --key user --window unbounded --out out.arrows one.arrows two.arrows").ok();
    assert_eq!(numbers(&read_stream(&fs::read(folder.path("out.arrows")).expect("a file"))), [1, 2, 4, 5, 6, 9]);
}

/// Regression test: a long text that occurs in many rows was copied for each of them, until the copies did not fit.
#[test]
fn a_long_text_in_many_rows_needs_little_memory() {
    let folder = Folder::new();
    let rows = with_one_long_text(4_096, 140_000);
    write_with_large_groups(&folder.path("in.parquet"), &rows);
    // All copies would take 573 MB, and twice as much while they are made.
    let run = "firstseen dedup --key number --window unbounded --out out.parquet in.parquet";
    folder.shell(&format!("ulimit -v 800000\n{run}")).ok();
    assert_eq!(numbers(&read_parquet(&folder.path("out.parquet")).0), [0, 1, 2, 3]);
    // A stream of views has only the bytes that its rows refer to.
    folder.write("in.arrows", stream(&[rows]));
    folder.dedup("--format arrow --key number --window unbounded --out out.arrows in.arrows").ok();
    let bytes = fs::metadata(folder.path("out.arrows")).expect("a file").len();
    assert!(bytes < 5 * 140_000, "{bytes} bytes for four rows");
}

/// Regression test: a date without a time zone that is too far away was taken for a number of seconds.
#[test]
fn local_times_are_in_the_zone_of_the_flag() {
    let folder = Folder::new();
    write_parquet(&folder.path("in.parquet"), &dates(&[19_844, 2_932_902, 3_000_000, 19_844]));
    for zone in ["UTC", "Europe/Berlin"] {
        let flags =
            format!("--key date --time date --tz {zone} --window 1h --report json --out out.parquet in.parquet");
        let report = folder.dedup(&flags).ok().report();
        assert_eq!(number(&report, "duplicates"), 1, "{zone}: {report}");
        assert_eq!(report["unjudged"]["bad_time"], 2, "{zone}: {report}");
    }
}

#[test]
fn an_output_keeps_permissions_and_links() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let folder = folder_with_clicks();
    folder.write("kept.parquet", "");
    fs::set_permissions(folder.path("kept.parquet"), fs::Permissions::from_mode(0o646)).expect("permissions");
    symlink("target.parquet", folder.path("link.parquet")).expect("a link");
    for name in ["kept.parquet", "link.parquet"] {
        folder.dedup(&format!("--key user --window unbounded --out {name} in.parquet")).ok();
    }
    let mode = fs::metadata(folder.path("kept.parquet")).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o646);
    assert!(folder.path("link.parquet").is_symlink());
    assert_eq!(numbers(&read_parquet(&folder.path("target.parquet")).0), [1, 2, 4, 5, 6]);
}

#[test]
fn rows_through_a_cluster_are_those_of_one_process() {
    let folder = Folder::new();
    let mut random = Random(62);
    let users = ["ann", "bob", "cid", "dan", "eve", "fay", "gus", "hal"];
    let click = |number: u64| (Some(users[random.below(8) as usize]), number as i64 % 97, START_S + number as i64);
    let clicks: Vec<Click> = (0..2_000).map(click).collect();
    write_parquet(&folder.path("in.parquet"), &table(&clicks));
    let cluster = LocalCluster::start(&folder, "--nodes 3");
    let filter = "--window 10m --capacity 5k --fpr 0.000000001";
    cluster.create(&folder, "clicks", filter).ok();
    let flags = "--key user,number --time time";
    folder.dedup(&format!("{flags} {filter} --out here.parquet in.parquet")).ok();
    let at = format!("--cluster {} --filter clicks", cluster.addresses());
    folder.dedup(&format!("{flags} {at} --claims 10s in.parquet")).fails(2, &["--claims", "--format arrow"]);
    folder.dedup(&format!("{flags} {at} --out there.parquet in.parquet")).ok();
    let here = numbers(&read_parquet(&folder.path("here.parquet")).0);
    assert_eq!(here, numbers(&read_parquet(&folder.path("there.parquet")).0));
    assert!(here.len() > 400 && here.len() < 2_000, "{} rows", here.len());
    // With claims, rows are confirmed when they are on disk. A claim is decided in the order in which claims come, so
    // the window is longer than the log.
    let filter = "--window 24h --capacity 5k --fpr 0.000000001";
    cluster.create(&folder, "claimed", &format!("{filter} --claims 60s")).ok();
    folder.write("in.arrows", stream(&[table(&clicks)]));
    folder.dedup(&format!("{flags} {filter} --format arrow --out here.arrows in.arrows")).ok();
    let at = format!("--cluster {} --filter claimed --claims 10s", cluster.addresses());
    folder.dedup(&format!("{flags} {at} --format arrow --out there.arrows in.arrows")).ok();
    let [here, there] = ["here.arrows", "there.arrows"].map(|name| {
        let mut found = numbers(&read_stream(&fs::read(folder.path(name)).expect("a file")));
        found.sort_unstable();
        found
    });
    assert_eq!(here, there);
    cluster.end();
}
