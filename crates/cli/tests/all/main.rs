//! Black-box tests of the commands that need no cluster: they start the binary and look at its output, its files and its exit
//! code. `cargo test -p firstseen-cli --no-default-features` builds and runs them without the crates of a cluster.

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
