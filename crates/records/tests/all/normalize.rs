//! Tests the normalisation of URLs: the examples of the documentation hold, and a normal form does not change when it
//! is normalised again.

use firstseen_records::normalize_url;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn normal(url: &str) -> String {
    String::from_utf8(normalize_url(url.as_bytes()).into_owned()).unwrap()
}

#[test]
fn the_examples_of_the_documentation_hold() {
    let page = include_str!("../../../../docs/reference/normalize.md");
    let examples = page.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix("` |")?.split_once("` | `"));
    let mut count = 0;
    for (written, expected) in examples {
        assert_eq!(normal(written), expected);
        count += 1;
    }
    assert!(count >= 15, "{count} examples");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 20_000, rng_seed: RngSeed::Fixed(13), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn a_normal_form_is_its_own(rest in "[aB1%2e37/?&=#.:@~ \u{e4}]{0,24}", head in "(http|HTTPS|ftp|x)://(A\\.b|[::1])?") {
        let once = normal(&format!("{head}{rest}"));
        prop_assert_eq!(normal(&once), once);
    }

    #[test]
    fn the_order_of_parameters_does_not_count(mut parameters in prop::collection::vec("[ab]=[12]{1,2}", 1..6)) {
        let written = normal(&format!("http://a/?{}", parameters.join("&")));
        parameters.reverse();
        prop_assert_eq!(normal(&format!("http://a/?{}", parameters.join("&"))), written);
    }
}
