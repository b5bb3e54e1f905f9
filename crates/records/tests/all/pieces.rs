//! Tests that the parser gives the same result no matter in which pieces the bytes of an input arrive. The tests also
//! check that no sequence of bytes causes a panic.

use crate::corpus::checks;
use firstseen_records::{RecordFormat, detect, hint};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Generates texts from the parts that have a meaning in a format.
fn text(parts: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(parts), 0..40).prop_map(|parts| parts.concat())
}

const ROWS: &[&str] = &["a", "b,", ",", "\"", "\"\"", " ", "\n", "\r\n", "#", "#x,y\n", "#Fields: a b\n", "\\\"", "-"];
const TABS: &[&str] = &["a", "\t", "\"", "\n", "#", "#fields\ta\tb\n", "#separator \\x09\n", "-", "1"];
const BLANKS: &[&str] = &["a ", " ", "\"", "\n", "#Fields: a b\n", "#Fields: b a c\n", "#Date: x\n", "-", "1 2\n"];
const LOG: &[&str] = &[
    "h ",
    "1.2.3.4 ",
    "x:80 ",
    "- ",
    "[10/Oct/2000:13:55:36 -0700] ",
    "\"GET / HTTP/1.1\" ",
    "\"\" ",
    "200 ",
    "12",
    " \"",
    "\n",
    ": ",
];
const JSON: &[&str] =
    &["{", "}", "[", "]", "\"a\"", "\"b\"", ":", ",", "null", "1", "1e3", "-0", " ", "\n", "\\", "\"\\u0061\"", "\""];

/// Checks a file that arrives in pieces of different sizes. No record is too long.
fn check(format: &str, options: u8, sizes: u8, text: &str) {
    const LONGEST: u8 = 7;
    checks::run(format, &[&[options, sizes | LONGEST], text.as_bytes()].concat());
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3_000, rng_seed: RngSeed::Fixed(23), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn rows(options: u8, sizes: u8, text in text(ROWS)) {
        check("csv", options, sizes, &text);
    }

    #[test]
    fn tabbed_rows(options: u8, sizes: u8, text in text(TABS)) {
        check("tsv", options, sizes, &text);
    }

    #[test]
    fn extended_logs(options: u8, sizes: u8, text in text(BLANKS)) {
        check("w3c", options, sizes, &text);
    }

    #[test]
    fn log_lines(options: u8, sizes: u8, text in text(LOG)) {
        check("clf", options, sizes, &text);
    }

    #[test]
    fn objects(options: u8, sizes: u8, text in text(JSON)) {
        check("jsonl", options, sizes, &text);
    }

    #[test]
    fn looks_at_any_text(
        text in prop_oneof![text(ROWS), text(TABS), text(BLANKS), text(LOG), text(JSON)],
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        for input in [text.as_bytes(), &bytes] {
            detect(input, &["id".to_owned()]);
            for format in RecordFormat::ALL {
                let said = hint(input, format, None);
                prop_assert!(said.is_none_or(|said| !said.contains('\n')));
            }
        }
    }
}
