//! Tests of `firstseen-lab generate`, which generates streams for `dedup`.

use crate::run::{Folder, number};

#[test]
fn a_stream_is_generated_and_deduplicated() {
    let folder = Folder::new();
    let flags = "generate --events 20k --keys repeats:0.5:100 --sites 3 --home-share 0.8 --late-share 0.1 --late-max 2s \
                 --burst 2s..4s:5 --seed 7";
    for format in ["csv", "jsonl"] {
        let stream = folder.run_lab(&format!("{flags} --format {format}")).ok().out;
        assert_eq!(stream, folder.run_lab(&format!("{flags} --format {format}")).ok().out, "a seed decides all of it");
        let keys: std::collections::BTreeSet<&str> = stream.split([',', '"']).filter(|word| word.len() == 16).collect();
        folder.write("stream", &stream);
        let window = "--window 10m --lateness 1m --capacity 20k --fpr 0.000001 --seed 1";
        let dedup = format!("--format {format} --key key --time time_ms {window} --out once --report json stream");
        let report = folder.dedup(&dedup).ok().report();
        assert_eq!(number(&report, "events"), 20_000);
        assert_eq!(number(&report, "first_seen"), keys.len() as u64, "{format}");
        assert!((9_000..11_000).contains(&keys.len()), "{}", keys.len());
    }
}

#[test]
fn a_stream_that_cannot_be_is_refused_by_the_name_of_the_flag() {
    let folder = Folder::new();
    folder.run_lab("generate --keys zipf:100").fails(2, &["--keys", "zipf:100k:1"]);
    folder.run_lab("generate --burst 5s:2").fails(2, &["--burst", "10s..20s:5"]);
    folder.run_lab("generate --late-share 2 --late-max 2s --seed 1").fails(2, &["--late-share", "from 0 to 1"]);
    folder.run_lab("generate --keys zipf:100:-1 --seed 1").fails(2, &["--keys", "-1", "0 or more"]);
    folder.run_lab("generate --burst 5s..2s:2 --seed 1").fails(2, &["--burst", "after its start"]);
    folder.run_lab("generate --home-share 2 --seed 1").fails(2, &["--home-share", "from 0 to 1"]);
    folder.run_lab("generate --rate 0 --seed 1").fails(2, &["--rate", "above 0"]);
    folder.run_lab("generate --rate 1X --seed 1").fails(2, &["--rate", "1X"]);
    folder.run_lab("generate --rate 1e-300 --seed 1").fails(2, &["--rate", "1e-300", "year 2286"]);
    folder.run_lab(&format!("generate --start-ms {} --seed 1", u64::MAX)).fails(2, &["--start-ms", "year 2286"]);
    folder.run_lab("generate --start-ms 0 --seed 1").fails(2, &["--start-ms"]);
    let late = "generate --start-ms 100000000000 --late-share 0.1 --late-max 1d --seed 1";
    folder.run_lab(late).fails(2, &["--late-max", "before 1973", "--start-ms"]);
    folder.run_lab("generate --late-share 0.1 --seed 1").fails(2, &["--late-max"]);
    folder.run_lab("generate --late-max 2s --seed 1").fails(2, &["--late-share"]);
}

#[test]
fn the_example_of_the_page_runs() {
    let folder = Folder::new();
    let page = include_str!("../../docs/tutorials/laboratory.md");
    let script = page.split("```sh\n").find(|part| part.starts_with("firstseen-lab generate")).expect("an example");
    let script = script.split("```").next().expect("its end");
    folder.shell_with_lab(script).ok();
    let once = folder.read("once.csv");
    let kept = once.lines().count();
    assert!(once.starts_with("time_ms,key,site\n") && (100_000..1_000_000).contains(&kept), "{kept} lines");
}

#[test]
fn a_reader_that_goes_away_ends_it() {
    let folder = Folder::new();
    let ran = folder.shell_with_lab("firstseen-lab generate --events 100M --seed 1 | head -n 2");
    assert_eq!(ran.ok().out.lines().count(), 2);
}
