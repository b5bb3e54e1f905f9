//! Checks that invalid flags result in a clear error message and exit code 2, before any output file is changed.

use crate::run::Folder;

/// Invalid flags, and a part of the expected message.
const INVALID_FLAGS: &[(&str, &str)] = &[
    ("--capacity -5", "`-5` is negative"),
    ("--capacity 0", "`0` is zero"),
    ("--capacity 1.5", "not a whole number"),
    ("--capacity 1e30", "too large"),
    ("--capacity 1e18", "1e18 events at a rate of 0.01"),
    ("--capacity 18446744073709551615", "1.84e19 events"),
    ("--fpr 1e30", "rate of 1e30:"),
    ("--capacity 1M --growth geometric:1e30", "by 1e30:"),
    ("--memory -1", "negative"),
    ("--memory 0", "zero"),
    ("--memory lots", "not a size"),
    ("--fpr 0", "rate of 0"),
    ("--fpr 1", "rate of 1"),
    ("--fpr -1", "rate of -1"),
    ("--fpr nan", "rate of NaN"),
    ("--fpr inf", "rate of inf"),
    ("--window 0", "window `0`"),
    ("--window 0h", "window `0h`"),
    ("--window 0events", "empty"),
    ("--window -5h", "window `-5h`"),
    ("--window landmark:0d", "empty"),
    ("--window landmark:fortnight", "landmark:day"),
    ("--window landmark:day@Mars", "Mars"),
    ("--window garbage", "window `garbage`"),
    ("--window 99999999999999999999d", "99999999999999999999d"),
    ("--filter clicks --window 1h", "--filter is for a filter of a cluster"),
    ("--site oslo --capacity 10", "--cluster"),
    ("--window 5events --equal-timers 17", "k' must be at most k"),
    ("--window 5events --hashes 4 --equal-timers 5", "k' must be at most k"),
    ("--equal-timers 2", "kind timing"),
    ("--hashes 0", "1..=16"),
    ("--hashes 17", "1..=16"),
    ("--hashes -3", "1..=16"),
    ("--cells 0", "zero"),
    ("--cells -8", "negative"),
    ("--cell-bits 9 --window 10events", "8 or 16 bits"),
    ("--kind generations --window 10events --sub-windows 0", "sub-windows"),
    ("--kind generations --window 10000events --sub-windows 60", "sub-windows"),
    ("--kind generations", "unbounded"),
    ("--kind stable --window 10events", "kind stable has no window"),
    ("--kind stable", "capacity"),
    ("--kind stable --capacity 100 --stable-max 0", "Max"),
    ("--kind stable --capacity 100 --stable-decrements -1", "P"),
    ("--kind stable --capacity 100 --stable-decrements nan", "P"),
    ("--kind stable --capacity 100 --stable-decrements 1e30", "decremented"),
    ("--window 1h --lateness 7d", "a lateness of 7d"),
    ("--window 1s --lateness 28125ms", "a lateness of 28s 125ms"),
    ("--growth equal:0 --capacity 10", "generations"),
    ("--growth equal:99 --capacity 10", "generations"),
    ("--growth geometric:0.5 --capacity 10", "ratio"),
    ("--growth geometric:nan --capacity 10", "ratio"),
    ("--growth sideways", "equal:4"),
    ("--grow-by density", "--growth"),
    ("--slicing vertical:0", "0 slices"),
    ("--slicing vertical:100000", "slices"),
    ("--slicing diagonal:8", "horizontal:S"),
    ("--slicing vertical:8 --window 100events", "counts events"),
    ("--slicing horizontal:8 --window landmark:100events", "counts events"),
    ("--window 1000events --cell-bits 16 --layout blocked1 --fpr 1e-9", "classic"),
    ("--cluster a:1", "--filter"),
    ("--filter clicks", "--cluster"),
    ("--cluster a:1 --filter clicks --window 1h", "--window"),
    ("--cluster a:1 --filter clicks --capacity 10", "--capacity"),
    ("--cluster a:1 --filter clicks --fpr 0.1", "--fpr"),
    ("--cluster a:1 --filter clicks --ticks 9", "--ticks"),
    ("--ticks 9", "kind bloom has no choice of ticks"),
    ("--cluster a:1 --filter clicks --slicing none", "--slicing"),
    ("--cluster a:1 --filter clicks --seed 1", "--seed"),
    ("--cluster a:1 --filter clicks --state seen", "--state"),
    ("--cluster a:1 --filter clicks --verify exact", "--verify"),
    ("--cluster a --filter clicks", "`a` is not an address"),
    ("--tls-ca a", "--tls-cert"),
    ("--tls-ca a --tls-cert b --tls-key c", "--cluster"),
    ("--cluster a:1 --filter clicks --tls-ca no --tls-cert no --tls-key no", "cannot read certificate authority no"),
    ("--lateness soon --window 1h --time t --format csv", "duration"),
    ("--future-max -5d", "duration"),
    ("--lateness 5m --window 10events", "lateness"),
    ("--format cvs", "choose lines, csv"),
    ("--tz Mars/Olympus", "time zone `Mars/Olympus`"),
    ("--tz Europe/Athen", "did you mean `Europe/Athens`?"),
    ("--window landmark:day@Europe/Athen", "Europe/Athen"),
    ("--normalize upper", "choose url"),
    ("--uncertain file", "--confirm"),
    ("--duplicates again.zst", "plain text"),
    ("--fpr 1%%", "1e-6 or 1%"),
    ("--confirm 1MiB", "exact:64MiB"),
    ("--confirm exact:0", "zero"),
    ("--seed minus", "minus"),
    ("--windw 1h", "--window"),
];

#[test]
fn nonsense_is_refused_by_name() {
    let folder = Folder::with("k,t\na,1\n");
    folder.write("out", "kept");
    for (flags, words) in INVALID_FLAGS {
        let ran = folder.dedup(&format!("{flags} --out out input")).fails(2, &[words]);
        assert_eq!(ran.out, "", "{flags}");
        assert_eq!(folder.read("out"), "kept", "{flags}");
    }
}

#[test]
fn a_seed_without_a_new_secret_is_refused_with_its_purpose() {
    let ran = Folder::new().run("filter alter clicks --cluster 127.0.0.1:1 --seed 7");
    ran.fails(2, &["`clicks` would keep its own", "add --new-secret"]);
}

#[test]
fn a_time_window_needs_a_time() {
    let ran = Folder::with("a\n").dedup("--window 24h input");
    ran.fails(2, &["--time", "--clock wall", "1000000events"]);
    let folder = Folder::with("a\na\n");
    let ran = folder.dedup("--window 24h --clock wall --report json input").ok();
    assert_eq!((ran.out.as_str(), &ran.report()["times"]), ("a\n", &"arrival".into()));
    folder.dedup("--format csv --no-header --key 1 --time 2 --clock wall --window 24h input").fails(2, &["--time"]);
    assert_eq!(folder.dedup_from("--window 24h", b"a\nb\na\n").ok().out, "a\nb\n");
    assert_eq!(folder.dedup_from("--window landmark:week", b"a\nb\na\n").ok().out, "a\nb\n");
    folder.dedup_from("--window 24h --clock event", b"a\n").fails(2, &["--time"]);
    let request = br#"1.2.3.4 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1 "-" "-""#;
    let own = folder.dedup_from("--format clf --window 24h --report json", request).ok().report();
    assert_eq!((&own["times"], &own["clock"]), (&"record".into(), &"2015-05-17T10:05:03Z".into()));
    let ran = Folder::with("a\n").dedup("--window landmark:day input");
    ran.fails(2, &["--time"]);
    // Standard input that the shell has redirected from a file is not a stream.
    let folder = Folder::with("a\na\n");
    folder.shell("firstseen dedup --window 1h < input").fails(2, &["--time", "--clock wall"]);
    assert_eq!(folder.shell("firstseen dedup --window 1h --clock wall < input").ok().out, "a\n");
    assert_eq!(folder.shell("cat input | firstseen dedup --window 1h").ok().out, "a\n");
    assert_eq!(folder.shell("firstseen dedup --window 1h < /dev/null").ok().out, "");
    Folder::with("a\n").dedup("--window landmark:10events input").ok();
}

#[test]
fn a_field_missing_in_the_header_is_the_only_message() {
    let folder = Folder::with("host,status\na,1\n");
    for (flags, words) in [
        ("--key hots", "did you mean `host`?"),
        ("--key host,nothing", "the fields are host, status"),
        ("--key 3", "no field `3`"),
        ("--key 0", "no field `0`"),
        ("--key host --time tiem --window 1h", "no field `tiem`"),
        ("--key host --source ip", "no field `ip`"),
    ] {
        let ran = folder.dedup(&format!("--format csv {flags} input")).fails(2, &[words]);
        assert_eq!((ran.out.as_str(), ran.err.lines().count()), ("", 1), "{}", ran.err);
    }
    folder.dedup("--format csv --no-header --key host input").fails(2, &["without a header", "numbers"]);
}

#[test]
fn missing_files_are_an_error_before_anything_is_written() {
    let folder = Folder::with("a\n");
    folder.dedup("--out out input nothing").fails(2, &["nothing: No such file"]);
    folder.dedup("--out out input .").fails(2, &["is a folder"]);
    assert!(!folder.has("out"));
}

#[test]
fn no_file_is_both_read_and_written_or_written_twice() {
    let folder = Folder::with("a\nb\n");
    std::fs::hard_link(folder.path("input"), folder.path("linked")).expect("a link");
    std::fs::create_dir(folder.path("sub")).expect("a folder");
    for (link, target) in [("dangling", "later"), ("sub/far", "../dangling")] {
        std::os::unix::fs::symlink(target, folder.path(link)).expect("a link");
    }
    for (flags, words) in [
        ("--out input input", "input is read too"),
        ("--out ./input input", "is read too"),
        ("--duplicates linked input", "linked (it is input) is read too"),
        ("--state input input", "is read too"),
        ("--out same --duplicates same input", "same is written twice"),
        ("--rejected same --report-file same input", "same is written twice"),
        ("--state state --out ./state input", "is written twice"),
        ("--out new --duplicates sub/../new input", "is written twice"),
        ("--out later --duplicates dangling input", "dangling (it is later) is written twice"),
        ("--out later --state sub/far input", "is written twice"),
    ] {
        folder.dedup(flags).fails(2, &[words]);
        assert_eq!(folder.read("input"), "a\nb\n", "{flags}");
        assert_eq!(folder.names(), ["dangling", "input", "linked", "sub"], "{flags}");
    }
    folder.dedup("--out /dev/null --duplicates /dev/null input").ok();
    let appending = std::fs::OpenOptions::new().append(true).open(folder.path("input")).expect("a file");
    let output =
        crate::run::dedup("input").current_dir(folder.path("")).stdout(appending).output().expect("the binary");
    assert_eq!(output.status.code(), Some(2), "`firstseen dedup x >> x` would never end");
    assert_eq!(folder.read("input"), "a\nb\n");
}
