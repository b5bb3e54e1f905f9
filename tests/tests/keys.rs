//! Tests which records count as the same event.

use crate::run::Folder;

#[test]
fn parts_of_a_key_do_not_run_together() {
    let folder = Folder::with("a,b\nab,c\na,bc\n\"ab,c\",\n,\"ab,c\"\nab,c\n");
    let ran = folder.dedup("--format csv --key a,b --empty-key value input").ok();
    assert_eq!(ran.out, "a,b\nab,c\na,bc\n\"ab,c\",\n,\"ab,c\"\n");
}

#[test]
fn the_whole_record_is_the_key_by_default() {
    assert_eq!(Folder::with("a b\na  b\na b\n").dedup("input").ok().out, "a b\na  b\n");
    assert_eq!(Folder::with("k,v\na,1\na,2\na,1\n").dedup("--format csv input").ok().out, "k,v\na,1\na,2\n");
}

/// Checks keys inside objects. A dotted name selects a nested field, a number and its text form are the same key, and
/// null is no key.
#[test]
fn keys_lie_in_objects() {
    let folder =
        Folder::with("{\"u\":{\"id\":1}}\n{\"u\":{\"id\":\"1\"}}\n{\"u\":{\"id\":null}}\n{\"u\":{\"id\":2}}\n");
    let ran = folder.dedup("--format jsonl --key u.id input").ok();
    assert_eq!(ran.out, "{\"u\":{\"id\":1}}\n{\"u\":{\"id\":null}}\n{\"u\":{\"id\":2}}\n");
    assert!(ran.err.contains("input:3: passed on unjudged: its key field `u.id` has no value"), "{}", ran.err);
    let ran = folder.dedup("--format jsonl --key u.ids input");
    let ran = ran.fails(2, &["no record has the field `u.ids` (did you mean `u.id`?); the fields are u.id"]);
    assert_eq!(ran.out, "");
    folder.run("estimate --format jsonl --key id --epoch 10events input").fails(2, &["did you mean `u.id`?"]);
}

#[test]
fn spellings_of_one_url_are_one_key() {
    let same = ["HTTP://Example.com:80/a/../b?x#part", "http://example.com/b?x", "http://EXAMPLE.com/%62?x"];
    let other = ["http://example.com/b?y", "https://example.com/b?x", "no url", "no URL"];
    let input: String = same.iter().chain(&other).map(|url| format!("{url}\n")).collect();
    let folder = Folder::with(&input);
    let kept = folder.dedup("--normalize url input").ok().out;
    let kept: Vec<&str> = kept.lines().collect();
    assert_eq!(kept[0], same[0], "the record itself is unchanged");
    assert_eq!(kept[kept.len() - 4..], other);
    assert!(kept.len() <= 2 + other.len(), "{kept:?}");
    assert_eq!(folder.dedup("input").ok().out, input);
}

#[test]
fn a_zone_turns_local_times_into_instants_and_days() {
    let input = "t,k\n2024-05-30 23:30:00,b\n2024-05-31 00:10:00,b\n2024-05-31 02:30:00,b\n";
    let folder = Folder::with(input);
    let kept = |flags: &str| {
        let ran = folder.dedup(&format!("--format csv --key k --time t {flags} --report json input")).ok();
        (ran.report()["first_seen"].as_u64(), ran.report()["time_zone"].as_str().map(str::to_owned))
    };
    assert_eq!(kept("--window landmark:day"), (Some(2), Some("UTC".to_owned())));
    let athens = || Some("Europe/Athens".to_owned());
    assert_eq!(kept("--window landmark:day --tz Europe/Athens"), (Some(2), athens()), "local times, local days");
    // 23:30 and 00:10 in Athens are 20:30 and 21:10 UTC on the same day, and 02:30 in Athens is 23:30 UTC.
    assert_eq!(kept("--window landmark:day@UTC --tz Europe/Athens"), (Some(1), athens()));
    // 20:30, 21:10 and 23:30 UTC are 05:30, 06:10 and 08:30 on one day in Tokyo.
    assert_eq!(kept("--window landmark:day@Asia/Tokyo --tz Europe/Athens"), (Some(1), athens()));
    // The three records are in three different hours: 23, 0 and 2.
    assert_eq!(kept("--window landmark:hour"), (Some(3), Some("UTC".to_owned())));
    assert_eq!(kept("--window landmark:week"), (Some(1), Some("UTC".to_owned())));
}

#[test]
fn the_seed_decides_which_events_collide() {
    let input: String = (0..4000).map(|event| format!("{event}\n")).collect();
    let folder = Folder::with(input);
    let run =
        |seed: u32| folder.dedup(&format!("--cells 4096 --hashes 1 --layout classic --seed {seed} input")).ok().out;
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

/// Checks JSON keys that contain half of a surrogate pair, which is not valid Unicode text. Such a key must
/// nevertheless work as a key. All spellings of it in JSON are the same key, and no valid text may be equal to it.
#[test]
fn half_a_surrogate_pair_is_one_key() {
    let folder = Folder::with(
        r#"{"k":"\ud800"}
{"k":"\\ud800"}
{"k":"\uD800"}
{"k":"\ud801"}
"#,
    );
    let ran = folder.dedup("--format jsonl --key k input").ok();
    assert_eq!(ran.out, "{\"k\":\"\\ud800\"}\n{\"k\":\"\\\\ud800\"}\n{\"k\":\"\\ud801\"}\n");
}
