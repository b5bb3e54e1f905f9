//! Black-box tests of the commands that need no cluster. The tests start the binary and check its output, its files and
//! its exit code. They do not use the crates for clusters, so `cargo test -p firstseen-cli --no-default-features`
//! builds them quickly.

mod bytes;
mod first_state;
mod gate;
mod messages;
mod nothing_is_lost;
mod order;
mod products;
#[path = "../../../../tests/tests/run.rs"]
#[allow(dead_code, reason = "the tests of clusters use more of it")]
mod run;
mod shapes;
mod times;
mod unjudged;

use run::Folder;

#[test]
fn a_repeated_line_is_passed_on_once() {
    let ran = Folder::with("a\nb\na\n").dedup("--window unbounded input").ok();
    assert_eq!(ran.out, "a\nb\n");
}
