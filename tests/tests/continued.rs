//! `--state` keeps files from run to run: which may be continued, and how.

use crate::run::Folder;

const CSV: &str = "--format csv --key k --seed 1 --report none --state state --out out.csv";

/// A torn tail takes nothing into itself, whatever its last byte is: a line break between quotes ends no record.
#[test]
fn a_file_that_ends_between_quotes_is_continued_behind_them() {
    for (torn, closed) in [
        ("k,v\n1,\"a\n", "k,v\n1,\"a\n\"\n"),
        ("k,v\n1,\"a\"\"\n", "k,v\n1,\"a\"\"\n\"\n"),
        ("k,v\n1,\"a\n\n", "k,v\n1,\"a\n\n\"\n"),
        ("k,v\n1,\"a\n\"\"", "k,v\n1,\"a\n\"\"\"\n"),
        ("k,v\n1,\"a\n\"\n", "k,v\n1,\"a\n\"\n"),
        ("k,v\n1,a\"\n", "k,v\n1,a\"\n"),
        ("\u{feff}\"k\",v\n1,\"", "\u{feff}\"k\",v\n1,\"\"\n"),
    ] {
        let folder = Folder::with("k,v\n2,\"b\"\n");
        folder.write("out.csv", torn);
        if torn.starts_with('\u{feff}') {
            folder.write("input", "\"k\",v\n2,\"b\"\n");
        }
        folder.dedup(&format!("{CSV} input")).ok();
        assert_eq!(folder.read("out.csv"), format!("{closed}2,\"b\"\n"), "{torn:?}");
    }
}

#[test]
fn a_file_with_another_header_is_not_continued() {
    let folder = Folder::with("k,t\na,1\n");
    folder.dedup(&format!("{CSV} --duplicates again.csv input")).ok();
    folder.write("other", "t,k\n2,b\n");
    let kept = folder.read("out.csv");
    let state = std::fs::read(folder.path("state")).expect("a state");
    let refused = folder.dedup(&format!("{CSV} --duplicates new.csv other")).fails(2, &["out.csv", "`k,t`", "`t,k`"]);
    assert_eq!(refused.err.lines().count(), 1, "nothing has happened that could be told: {}", refused.err);
    folder
        .dedup(&format!("{CSV} --duplicates new.csv other").replace("out.csv", "fresh.csv").replace("new", "again"))
        .fails(2, &["again.csv", "`k,t`", "`t,k`"]);
    let written = ["new.csv", "fresh.csv"].map(|name| folder.read(name));
    assert_eq!(written, ["", ""], "all are looked at before one is written");
    assert_eq!(folder.read("out.csv"), kept);
    assert!(state == std::fs::read(folder.path("state")).expect("a state"));
    // What ends a line, or marks the order of bytes, is no part of it.
    folder.write("other", "\u{feff}k,t\r\nb,2\r\n");
    folder.dedup(&format!("{CSV} other")).ok();
    assert_eq!(folder.read("out.csv"), "k,t\na,1\nb,2\r\n");
    // A run was killed within the header.
    folder.write("out.csv", "k,");
    folder.write("other", "k,t\nc,3\n");
    folder.dedup(&format!("{CSV} other")).ok();
    assert_eq!(folder.read("out.csv"), "k,\nk,t\nc,3\n");
    let estimate =
        "estimate --epoch 9events --capacity 100 --format csv --key k --seed 1 --min-estimate 1 --report none";
    folder.write("out.csv", "t,k\n");
    folder.run(&format!("{estimate} --state e --out out.csv other")).fails(2, &["out.csv", "`t,k`", "`k,t`"]);
    assert_eq!((folder.read("out.csv"), folder.has("e")), ("t,k\n".to_owned(), false));
}
