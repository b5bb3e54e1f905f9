//! Checks the structure of the pages. Each page must have one title, the index must link to all pages, every link must
//! have a valid target, and every page that records a decision must have the required sections.

use std::collections::BTreeSet;

use firstseen_tidy::{Link, Source, headings, links, pages, root};

const INDEX: &str = "docs/README.md";
const DECISIONS: &str = "docs/decisions/";

/// Sections of a decision, in this order.
const PARTS: [&str; 4] = ["Context", "Decision", "Price", "When to look again"];

/// Returns the anchor of a heading: lower-case letters, with hyphens instead of spaces.
fn anchor(heading: &str) -> String {
    let is_kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    heading.to_lowercase().chars().filter(is_kept).map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

/// Returns why a link has no valid target, or `None` if the link is valid.
fn fault(link: &Link, pages: &[Source]) -> Option<String> {
    let Link { path, anchor: named } = link;
    if !root().join(path).exists() {
        return Some(format!("{path}, which does not exist"));
    }
    let (named, page) = (named.as_ref()?, pages.iter().find(|page| page.path == *path)?);
    let mut found = (1..=6).flat_map(|level| headings(&page.text, level));
    (!found.any(|heading| anchor(&heading) == *named)).then(|| format!("a heading {named}, which {path} does not have"))
}

#[test]
fn a_page_has_one_title() {
    for page in pages() {
        let titles = headings(&page.text, 1);
        assert_eq!(titles.len(), 1, "{} has the titles {titles:?}", page.path);
    }
}

#[test]
fn links_lead_somewhere() {
    let pages = pages();
    for page in &pages {
        let faults: Vec<String> = links(page).iter().filter_map(|link| fault(link, &pages)).collect();
        assert!(faults.is_empty(), "{} links to {}", page.path, faults.join("; "));
    }
}

#[test]
fn the_index_leads_to_every_page() {
    let pages = pages();
    let index = pages.iter().find(|page| page.path == INDEX).expect(INDEX);
    let linked: BTreeSet<String> = links(index).into_iter().map(|link| link.path).collect();
    let is_missing =
        |page: &&Source| page.path.starts_with("docs/") && page.path != INDEX && !linked.contains(&page.path);
    let missing: Vec<&str> = pages.iter().filter(is_missing).map(|page| page.path.as_str()).collect();
    assert!(missing.is_empty(), "{INDEX} links to none of {missing:#?}");
    let readme = pages.iter().find(|page| page.path == "README.md").expect("README.md");
    assert!(links(readme).iter().any(|link| link.path == INDEX), "README.md has no link to {INDEX}");
}

#[test]
fn a_decision_says_what_it_costs() {
    let decisions: Vec<Source> = pages().into_iter().filter(|page| page.path.starts_with(DECISIONS)).collect();
    assert!(!decisions.is_empty(), "no decision was found");
    for (number, page) in (1..).zip(&decisions) {
        let name = page.path.trim_start_matches(DECISIONS);
        assert!(name.starts_with(&format!("{number:02}-")), "{} is not number {number}", page.path);
        assert_eq!(headings(&page.text, 2), PARTS, "the parts of {}", page.path);
    }
}

#[test]
fn titles_and_links_are_found_beside_code() {
    let text = "# One `word`\n```sh\n# no title\n[no](link.md)\n```\n## Two, three\n[a](../x/b.md#c-d), [e](#f), \
                [g](https://example.org)\n";
    let page = Source { path: "docs/y/z.md".to_owned(), text: text.to_owned() };
    assert_eq!((headings(text, 1), headings(text, 2)), (vec!["One `word`".to_owned()], vec!["Two, three".to_owned()]));
    assert_eq!((anchor("One `word`"), anchor("Two, three")), ("one-word".to_owned(), "two-three".to_owned()));
    let link = |path: &str, anchor: &str| Link { path: path.to_owned(), anchor: Some(anchor.to_owned()) };
    assert_eq!(links(&page), [link("docs/x/b.md", "c-d"), link("docs/y/z.md", "f")]);
    assert!(fault(&link("docs/y/z.md", "f"), &[page]).is_some_and(|fault| fault.contains("does not exist")));
}
