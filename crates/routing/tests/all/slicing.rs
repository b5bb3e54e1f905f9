//! Tests of the slicings, and of the kinds that support them. Other kinds are rejected with an error that contains
//! their names.

use firstseen_filter::{Ability, FilterSpec, FrequencySpec, Kind, Layout, Unit};
use firstseen_routing::{SLICES_MAX, SlicedDefinition, SlicedFilter, Slicing, SlicingError};

fn spec(kind: Kind, window: &str) -> FilterSpec {
    FilterSpec { capacity_events: Some(1000), ..FilterSpec::new(kind, window.parse().unwrap()) }
}

const DIVIDED: [&str; 3] = ["vertical:4", "horizontal-vertical:2x2", "vertical-horizontal:2x2"];

#[test]
fn every_form_is_read_and_written() {
    for text in ["none", "horizontal:1", "vertical:4096", "horizontal-vertical:64x64", "vertical-horizontal:2x3"] {
        let slicing: Slicing = text.parse().unwrap();
        assert_eq!(slicing.to_string(), text);
        let json = serde_json::to_string(&slicing).unwrap();
        assert_eq!(json, format!("\"{text}\""));
        assert_eq!(serde_json::from_str::<Slicing>(&json).unwrap(), slicing);
        assert!(slicing.slices() <= SLICES_MAX);
    }
    assert_eq!(Slicing::default(), Slicing::NONE);
}

#[test]
fn unknown_slicings_are_refused_with_the_known_names() {
    for text in [
        "",
        "horizontal",
        "horizontal:",
        "horizontal:x",
        "vertical:-1",
        "vertical:+1",
        "vertical:2x2",
        "none:1",
        "horizontal-vertical:4",
        "horizontal-vertical:2x2x2",
        "diagonal:4",
        "vertical: 4",
        "vertical:99999999999",
    ] {
        let error = text.parse::<Slicing>().unwrap_err();
        assert!(matches!(error, SlicingError::Form(_)), "{text}: {error}");
        for name in ["none", "horizontal:S", "vertical:S", "horizontal-vertical:SxT", "vertical-horizontal:SxT"] {
            assert!(error.to_string().contains(name), "{error}");
        }
    }
    for text in [
        "horizontal:0",
        "vertical:4097",
        "horizontal-vertical:65x64",
        "vertical-horizontal:0x3",
        "vertical-horizontal:4294967295x4294967295",
    ] {
        let error = text.parse::<Slicing>().unwrap_err();
        assert!(matches!(error, SlicingError::Slices { .. }), "{text}: {error}");
        assert!(error.to_string().contains("choose 1 to 4096") && error.to_string().contains(text), "{error}");
    }
    assert!(serde_json::from_str::<Slicing>("\"vertical:0\"").is_err());
}

#[test]
fn kinds_whose_cells_cannot_lie_apart_are_refused() {
    for kind in Kind::ALL.into_iter().filter(|kind| !kind.can(Ability::Divide) && !kind.estimates_frequencies()) {
        let spec = spec(kind, &kind.default_window().to_string());
        for slicing in DIVIDED {
            let error = SlicedDefinition::new(&spec, slicing.parse().unwrap()).unwrap_err().to_string();
            assert!(
                error.contains(&kind.to_string()) && error.contains(slicing) && error.contains("horizontal:S"),
                "{error}"
            );
        }
        for slicing in ["none", "horizontal:3"] {
            SlicedFilter::build(&SlicedDefinition::new(&spec, slicing.parse().unwrap()).unwrap()).unwrap();
        }
    }
    let decaying = SlicedDefinition::new(&spec(Kind::Decaying, "1h"), Slicing::NONE).unwrap_err().to_string();
    assert!(decaying.contains("firstseen estimate"), "{decaying}");
}

#[test]
fn windows_of_events_are_not_divided() {
    for (kind, window) in [
        (Kind::Timing, "1000events"),
        (Kind::Generations, "1000events"),
        (Kind::Counting, "1000events"),
        (Kind::Bloom, "landmark:1000events"),
        (Kind::Cuckoo, "1000events"),
    ] {
        let capacity_events = (kind == Kind::Cuckoo).then_some(1000);
        let spec = FilterSpec { capacity_events, ..spec(kind, window) };
        let whole = SlicedDefinition::new(&spec, Slicing::NONE).unwrap();
        assert!(SlicedDefinition::new(&spec, "horizontal:1".parse().unwrap()).is_ok());
        for slicing in DIVIDED.into_iter().chain(["horizontal:3"]) {
            let slicing: Slicing = slicing.parse().unwrap();
            let error = SlicedDefinition::new(&spec, slicing).unwrap_err().to_string();
            if slicing.divides_cells() && !kind.can(Ability::Divide) {
                assert!(error.contains(&format!("kind {kind}")), "{error}");
                continue;
            }
            assert!(
                error.contains(window) && error.contains(&slicing.to_string()) && error.contains("none"),
                "{error}"
            );
            // A definition from outside is rejected as well.
            assert!(SlicedFilter::build(&SlicedDefinition { slicing, ..whole.clone() }).is_err());
        }
    }
    let epochs = FrequencySpec::new("1000events".parse().unwrap(), 0.5);
    assert!(SlicedDefinition::frequencies(&epochs, Slicing::NONE).is_ok());
    let error = SlicedDefinition::frequencies(&epochs, "horizontal:3".parse().unwrap()).unwrap_err().to_string();
    assert!(error.contains("epoch") && error.contains("none"), "{error}");
}

#[test]
fn layouts_that_keep_positions_together_are_divided_horizontally_only() {
    for (layout, name) in [(Layout::Blocked { lines: 1 }, "blocked"), (Layout::Partitioned, "partitioned")] {
        let spec = FilterSpec { layout: Some(layout), ..spec(Kind::Bloom, "unbounded") };
        for slicing in DIVIDED {
            let error = SlicedDefinition::new(&spec, slicing.parse().unwrap()).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("classic") && error.contains(slicing), "{error}");
        }
        assert!(SlicedDefinition::new(&spec, "horizontal:3".parse().unwrap()).is_ok());
    }
}

#[test]
fn a_definition_that_was_changed_by_hand_is_refused() {
    let definition = SlicedDefinition::new(&spec(Kind::Bloom, "unbounded"), "vertical:4".parse().unwrap()).unwrap();
    let json = serde_json::to_string(&definition).unwrap();
    assert_eq!(serde_json::from_str::<SlicedDefinition>(&json).unwrap(), definition);
    let blocked = SlicedDefinition::new(&spec(Kind::Bloom, "unbounded"), Slicing::NONE).unwrap();
    let blocked = SlicedDefinition { slicing: definition.slicing, ..blocked };
    let error = SlicedFilter::build(&blocked).err().unwrap().to_string();
    assert!(error.contains("blocked"), "{error}");
    for kind in [Kind::Counting, Kind::Cuckoo] {
        let whole = SlicedDefinition::new(&spec(kind, "1h"), Slicing::NONE).unwrap();
        let divided = SlicedDefinition { slicing: definition.slicing, ..whole };
        let error = SlicedFilter::build(&divided).err().unwrap().to_string();
        assert!(error.contains(&format!("kind {kind} cannot be sliced `vertical:4`")), "{error}");
    }
    for unit in [Unit::Milliseconds(0), Unit::Events(0)] {
        let mut empty = definition.clone();
        empty.group.unit = unit;
        assert!(SlicedFilter::build(&empty).is_err());
    }
}

#[test]
fn vertical_slices_are_equal_and_hold_no_less_than_the_filter() {
    let spec = spec(Kind::Timing, "1h");
    for slicing in ["vertical:7", "horizontal-vertical:3x7", "vertical-horizontal:3x7"] {
        let slicing: Slicing = slicing.parse().unwrap();
        let definition = SlicedDefinition::new(&spec, slicing).unwrap();
        let mut filter = SlicedFilter::build(&definition).unwrap();
        let classic = FilterSpec { layout: Some(Layout::Classic), ..spec.share(slicing.groups()) };
        let whole = SlicedFilter::build(&SlicedDefinition::new(&classic, Slicing::NONE).unwrap()).unwrap().bytes();
        let per_group = filter.bytes() / u64::from(slicing.groups());
        assert!(per_group >= whole, "{slicing}");
        assert!(
            slicing.groups() > 1 || per_group < whole + u64::from(slicing.slices()),
            "{slicing}: {per_group} {whole}"
        );
        assert_eq!(filter.expected_rate(), 0.0);
        assert_eq!(filter.loads().len(), slicing.slices() as usize);
    }
}
