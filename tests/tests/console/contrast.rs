//! Checks that the colours of the page have enough contrast (WCAG 2.2, level AA), using the style sheet itself.

use std::collections::BTreeMap;

const STYLES: &str = include_str!("../../../crates/node/src/console/page/console.css");

/// Colours of text, each with the colour of its background.
const TEXTS: [(&str, &str); 16] = [
    ("text", "ground"),
    ("text", "card"),
    ("text", "code-ground"),
    ("quiet", "ground"),
    ("quiet", "card"),
    ("quiet", "code-ground"),
    ("code", "code-ground"),
    ("good", "good-ground"),
    ("good", "card"),
    ("warn", "warn-ground"),
    ("warn", "card"),
    ("bad", "bad-ground"),
    ("bad", "card"),
    ("bad", "ground"),
    ("accent", "card"),
    ("accent", "ground"),
];

/// Returns the colours of each colour scheme in the style sheet of the console, by name. The first `:root` rule defines
/// the light scheme. The rule for the dark scheme replaces some of these colours.
fn schemes() -> [BTreeMap<&'static str, &'static str>; 2] {
    let mut roots = STYLES.split(":root {").skip(1).map(|root| root.split('}').next().expect("an end"));
    let colours = |root: &'static str| {
        root.lines().filter_map(|line| {
            let (name, value) = line.trim().strip_prefix("--")?.split_once(": ")?;
            Some((name, value.trim_end_matches(';')))
        })
    };
    let light: BTreeMap<_, _> = colours(roots.next().expect("the light scheme")).collect();
    let mut dark = light.clone();
    dark.extend(colours(roots.next().expect("the dark scheme")));
    assert!(roots.next().is_none() && STYLES.contains("prefers-color-scheme: dark"));
    [light, dark]
}

fn luminance(colour: &str) -> f64 {
    let part = |place: usize| {
        let part =
            u8::from_str_radix(&colour[place..place + 2], 16).unwrap_or_else(|error| panic!("{colour}: {error}"));
        let share = f64::from(part) / 255.0;
        if share <= 0.040_45 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
}

fn contrast(one: &str, other: &str) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn text_can_be_read_in_both_schemes() {
    assert!((contrast("#ffffff", "#000000") - 21.0).abs() < 1e-9 && contrast("#777777", "#ffffff") < 4.5);
    for (scheme, colours) in ["light", "dark"].into_iter().zip(schemes()) {
        for (text, ground) in TEXTS {
            let contrast = contrast(colours[text], colours[ground]);
            assert!(contrast >= 4.5, "{scheme}: {text} on {ground} has {contrast:.2}");
        }
        // Graphical shapes need less contrast than text.
        for (shape, ground) in [("accent", "track"), ("warn", "track"), ("bad", "track"), ("accent", "under")] {
            let contrast = contrast(colours[shape], colours[ground]);
            assert!(contrast >= 3.0, "{scheme}: {shape} on {ground} has {contrast:.2}");
        }
    }
}

/// Checks that every colour has a name, so that the table above covers all colours.
#[test]
fn colours_are_named() {
    let (_, rules) = STYLES.rsplit_once("--track: ").expect("the last colour of the dark scheme");
    let (_, rules) = rules.split_once('}').expect("its end");
    assert!(
        !rules.contains('#') || !rules.split('#').skip(1).any(|rest| rest.starts_with(|it: char| it.is_ascii_digit()))
    );
    for word in ["rgb(", "hsl(", ": white", ": black"] {
        assert!(!rules.contains(word), "{word}");
    }
}
