//! Tests of `--state`. Two runs with the same state equal one run over the joined files, and only a state that fits the
//! run is accepted.

use std::os::unix::fs::MetadataExt;

use crate::run::{Folder, Random, example_text};

/// All kinds, window rules and slicings that can be saved.
const FILTERS: [&str; 23] = [
    "--window unbounded --capacity 3000",
    "--window unbounded --capacity 100 --growth geometric:2",
    "--window landmark:day --capacity 3000 --layout partitioned",
    "--window landmark:500events --capacity 400",
    "--window 1h --capacity 700",
    "--window 1h --capacity 700 --rule refresh",
    "--window 1h --capacity 700 --equal-timers 3 --cell-bits 16",
    "--window 1h --capacity 90 --growth equal:8",
    "--window 1h --capacity 90 --growth equal:8 --grow-by density",
    "--window 700events --capacity 500",
    "--window 1h --kind generations --capacity 700",
    "--window 700events --kind generations --capacity 500 --cell-bits 16",
    "--window 1h --kind cuckoo --capacity 700",
    "--window 1h --kind cuckoo --capacity 700 --rule refresh --ticks 60 --lateness 2m",
    "--window 700events --kind cuckoo --capacity 500 --fpr 1e-8",
    "--window 1h --kind cuckoo --capacity 90 --growth equal:8",
    "--window 1h --kind cuckoo --slicing horizontal:8 --capacity 900",
    "--window 1h --kind counting --capacity 700",
    "--window 700events --kind counting",
    "--kind stable --capacity 500",
    "--window 1h --slicing horizontal:8 --capacity 900",
    "--window 1h --slicing vertical:8 --capacity 900",
    "--window 1h --slicing horizontal-vertical:2x4 --capacity 900",
];

const INPUT: &str = "--format tsv --no-header --key 1,5 --time 3 --seed 5 --report none";

/// Returns requests of the real log, without its header.
fn requests(count: usize) -> Vec<String> {
    example_text("nasa_19950801.tsv.gz").lines().skip(1).take(count).map(|line| format!("{line}\n")).collect()
}

#[test]
fn two_runs_equal_one_over_the_joined_files() {
    let lines = requests(3000);
    for filter in FILTERS {
        let folder = Folder::with(lines.concat());
        let whole = folder.dedup(&format!("{INPUT} {filter} input --duplicates whole")).ok();
        assert!(folder.read("whole").len() > 1000, "{filter} finds no duplicates");
        // In a full filter, none of the last records might be judged, so the cuts are not close to the end.
        for (number, cut) in [1, 777, 2048].into_iter().enumerate() {
            folder.write("head", lines[..cut].concat());
            folder.write("tail", lines[cut..].concat());
            let saved = format!("{INPUT} {filter} --state state{number}");
            let files = format!("--out out{number} --duplicates again{number}");
            folder.dedup(&format!("{saved} head {files}")).ok();
            folder.dedup(&format!("{saved} tail {files}")).ok();
            assert!(folder.read(&format!("out{number}")) == whole.out, "{filter}, cut at {cut}");
            assert_eq!(folder.read(&format!("again{number}")), folder.read("whole"), "{filter}, cut at {cut}");
        }
    }
}

/// Checks the input of `tail -n +1 -F` after a restart: the file from its beginning, with additional lines.
#[test]
fn a_log_that_is_fed_again_from_its_beginning_adds_what_is_new() {
    let lines = requests(3000);
    let folder = Folder::with(lines.concat());
    let flags = format!("{INPUT} --window 10m --capacity 3000 --fpr 1e-6");
    let whole = folder.dedup(&format!("{flags} --late duplicate input")).ok();
    for cut in [1, 777, 2048, 2999] {
        folder.write("head", lines[..cut].concat());
        let saved = format!("{flags} --late duplicate --state state{cut} --out out{cut}");
        for file in ["head", "input", "input"] {
            folder.dedup(&format!("{saved} {file}")).ok();
        }
        let passed = folder.read(&format!("out{cut}"));
        let mut all = passed.lines();
        assert!(whole.out.lines().all(|line| all.any(|other| other == line)), "cut at {cut}: something is lost");
        // Additional lines are repetitions that the window has forgotten in the meantime.
        let (expected, more) = (whole.out.lines().count(), passed.lines().count() - whole.out.lines().count());
        assert!(more * 100 < expected, "cut at {cut}: {more} pass again");
    }
    // By default, old records are passed on once more.
    for _ in 0..2 {
        folder.dedup(&format!("{flags} --state state --out out input")).ok();
    }
    assert!(folder.read("out").len() > whole.out.len());
}

#[test]
fn many_runs_leave_the_same_state_as_one() {
    let lines = requests(1000);
    let folder = Folder::with(lines.concat());
    let flags = format!("{INPUT} --window 1h --capacity 500");
    folder.dedup(&format!("{flags} --state one input")).ok();
    for part in lines.chunks(300) {
        folder.write("part", part.concat());
        folder.dedup(&format!("{flags} --state many part")).ok();
    }
    folder.write("none", "");
    folder.dedup(&format!("{flags} --state one none")).ok();
    folder.dedup(&format!("{flags} --state many none")).ok();
    folder.write("again", lines.concat());
    let one = folder.dedup(&format!("{flags} --state one again")).ok();
    let many = folder.dedup(&format!("{flags} --state many again")).ok();
    assert_eq!(one.out, many.out);
}

#[test]
fn a_state_brings_its_own_seed() {
    let folder = Folder::with("a\nb\n");
    folder.dedup("--state state input").ok();
    folder.write("input", "b\nc\n");
    assert_eq!(folder.dedup("--state state input").ok().out, "c\n");
}

#[test]
fn a_state_of_another_definition_is_refused() {
    let folder = Folder::with("k,v,t\na,b,1\n");
    let made = "--format csv --key k,v --seed 5 --window unbounded --capacity 1000 --state state input";
    folder.dedup(made).ok();
    let before = std::fs::read(folder.path("state")).expect("a state");
    for (from, to, words) in [
        ("--key k,v", "--key k", "its key is k,v, here it is k"),
        ("--key k,v", "--key v,k", "its key is k,v, here it is v,k"),
        ("--key k,v", "--key k,v --normalize url", "normalized"),
        ("--seed 5", "--seed 6", "its seed is 5, here it is 6"),
        ("--capacity 1000", "--capacity 2000", "made with --capacity 1000, here --capacity 2000)"),
        ("--capacity 1000", "--capacity 1000 --fpr 0.1", "made with --fpr 0.01, here --fpr 0.1)"),
        (
            "--window unbounded",
            "--window landmark:day --time t",
            "made with --window unbounded, here --window landmark:day@UTC)",
        ),
        (
            "--window unbounded",
            "--window 1h --time t",
            "made with --window unbounded --kind bloom, here --window 1h --kind timing)",
        ),
        ("--window unbounded", "--window unbounded --slicing horizontal:4", "here --capacity"),
        ("--capacity 1000", "--capacity 1000 --layout classic", "it is bloom"),
    ] {
        let flags = made.replace(from, to);
        let refused = folder.dedup(&flags).fails(2, &["state", words]);
        assert_eq!(refused.out, "", "{flags}");
    }
    assert_eq!(std::fs::read(folder.path("state")).expect("a state"), before, "a refused state is not touched");
    let hourly = "--format csv --key k --time t --window 1h --seed 5 --state hourly input";
    folder.dedup(hourly).ok();
    let other = folder.dedup(&hourly.replace("1h", "2h"));
    other.fails(2, &["(made with --window 1h, here --window 2h)"]);
}

/// Checks that flags which result in the same cells count as the same filter. Here these are 12 ticks of 5 minutes, one
/// of them for lateness.
#[test]
fn a_state_goes_on_under_other_flags_for_the_same_cells() {
    let folder = Folder::with("k,t\na,1\n");
    let made = "--format csv --key k --time t --window 1h --kind cuckoo --capacity 1000 --state state input";
    folder.dedup(&format!("{made} --ticks 12 --lateness 5m")).ok();
    for lateness in ["4m", "5m", "61s"] {
        assert_eq!(folder.dedup(&format!("{made} --ticks 12 --lateness {lateness}")).ok().out, "k,t\n", "{lateness}");
    }
    let other = folder.dedup(&format!("{made} --ticks 12 --lateness 6m"));
    other.fails(2, &["(made with --lateness 61s, here --lateness 6m)"]);
}

/// Checks that a record from a damaged archive is not stored in the saved state. The damage may have altered the
/// record. If the altered record were remembered as seen, the correct record could later be dropped as a duplicate.
#[test]
fn records_before_the_damage_was_noticed_are_not_saved() {
    let folder = Folder::new();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    std::io::Write::write_all(&mut encoder, b"alpha\nbeta\ngamma\n").expect("memory");
    let mut archive = encoder.finish().expect("memory");
    let place = archive.windows(4).position(|bytes| bytes == b"beta").expect("stored text");
    archive[place] = b'z';
    folder.write("damaged", &archive);
    let ran = folder.dedup("--state state damaged").fails(1, &["damaged", "the state state is as it was", "altered"]);
    assert_eq!(ran.out, "alpha\nzeta\ngamma\n");
    assert!(!folder.has("state"));
    // Without the end of the archive it is unknown whether the record was altered.
    folder.write("short", &archive[..place + 10]);
    let ran = folder.dedup("--state state short").fails(1, &["breaks off", "the state state is as it was", "altered"]);
    assert_eq!(ran.out, "alpha\nzeta\n");
    assert!(!folder.has("state"));
    folder.write("true", "beta\nzeta\n");
    assert_eq!(folder.dedup("--state state true").ok().out, "beta\nzeta\n");
}

#[test]
fn every_flipped_bit_is_refused() {
    let folder = Folder::with("a\nb\nc\n");
    let flags = "--seed 5 --capacity 40 --layout classic --state state input --report none";
    folder.dedup(flags).ok();
    let whole = std::fs::read(folder.path("state")).expect("a state");
    let mut random = Random(11);
    for (number, byte) in (0..whole.len()).step_by(3).enumerate() {
        let mut damaged = whole.clone();
        damaged[byte] ^= 1 << random.below(8);
        folder.write("state", &damaged);
        let ran = folder.dedup(flags);
        assert!(matches!(ran.code, Some(1 | 2)) && ran.out.is_empty(), "byte {byte}, number {number}: {}", ran.err);
        assert!(ran.err.contains("state"), "byte {byte}: {}", ran.err);
    }
    for length in [0, 1, 8, whole.len() / 2, whole.len() - 1] {
        folder.write("state", &whole[..length]);
        folder.dedup(flags).fails(1, &["state", "put a copy of it back, or delete it to start with an empty filter"]);
    }
    folder.write("state", [&whole[..], b"x"].concat());
    folder.dedup(flags).fails(1, &["state"]);
    folder.write("state", &whole);
    assert_eq!(folder.dedup(flags).ok().out, "", "the whole state still knows all three");
}

#[test]
fn lookup_changes_nothing() {
    let inode = |folder: &Folder| std::fs::metadata(folder.path("state")).expect("a state").ino();
    for window in ["unbounded", "1h", "landmark:1h"] {
        let flags = format!("--format csv --no-header --key 1 --time 2 --window {window} --state state input");
        let folder = Folder::with("a,1700000000\nb,1700000001\n");
        folder.dedup(&flags).ok();
        let before = (std::fs::read(folder.path("state")).expect("a state"), inode(&folder));
        folder.write("input", "c,1700000002\na,1700000003\nc,1700000004\nd,1700090000\n");
        for _ in 0..2 {
            let asked = folder.dedup(&format!("--lookup {flags}")).ok();
            assert_eq!(asked.out, "c,1700000002\nc,1700000004\nd,1700090000\n", "{window}");
        }
        assert!(before == (std::fs::read(folder.path("state")).expect("a state"), inode(&folder)), "{window}");
    }
}

/// Checks that a lookup in a missing filter is an error, and not the answer "never seen".
#[test]
fn lookup_needs_a_saved_filter() {
    let folder = Folder::with("a\n");
    folder.dedup("--lookup input").fails(2, &["--state"]);
    folder.dedup("--lookup --state state input").fails(2, &["there is no state state"]);
    assert_eq!(folder.names(), ["input"]);
}

/// Checks that `--verify exact` is rejected if the saved filter contains events of an earlier run. The exact comparison
/// starts empty in each run and does not know these events. It would therefore call them new, and report the correct
/// verdicts of the filter as errors.
#[test]
fn verify_refuses_a_filter_that_knows_more() {
    let folder = Folder::with("a\n");
    folder.dedup("--state state --verify exact input").ok();
    folder.dedup("--state state --verify exact input").fails(2, &["--verify exact", "--state"]);
    folder.dedup("--state state --lookup --verify exact input").fails(2, &["--verify exact", "--lookup"]);
}

#[test]
fn a_state_is_replaced_whole_and_leaves_no_litter() {
    let folder = Folder::with("a\n");
    folder.dedup("--state state input").ok();
    folder.dedup("--state state input").ok();
    assert_eq!(folder.names(), ["input", "state"]);
    let folder = Folder::with("k\na\n");
    folder.dedup("--format csv --key x --state state input").fails(2, &["no field `x`"]);
    assert_eq!(folder.names(), ["input"], "a mistake in the flags leaves no state that would refuse the right ones");
}

#[test]
fn a_folder_that_cannot_hold_the_state_is_an_error_before_input_is_read() {
    let folder = Folder::with("a\n");
    let ran = folder
        .dedup("--state missing/state --out out input")
        .fails(1, &["lock file of the state missing/state", "check the path"]);
    assert_eq!((ran.out.as_str(), folder.has("out")), ("", false));
}
