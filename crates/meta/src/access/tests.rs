//! Rights come and go, within their limits.

use std::num::{NonZeroU32, NonZeroU64};

use firstseen_filter::Kind;
use firstseen_routing::{ClusterVerb, FilterVerb, FiltersQuota, TokenId, TokenRecord};

use super::*;
use crate::asked_by::AskedBy;
use crate::codec::{self, CodecError};
use crate::command::{AlteredFilter, Asked, Change, Command};
use crate::placement::slice_bytes;
use crate::state::State;
use crate::state::tests::{Cluster, definition, filter};

fn on(names: &str, verb: FilterVerb) -> Grant {
    Grant::Filters { names: names.parse().unwrap(), verb }
}

fn granted(principal: &str, grants: Vec<Grant>) -> Change {
    Change::Access(AccessChange::Grant { principal: principal.to_owned(), grants })
}

fn revoked(principal: &str, grants: Vec<Grant>) -> Change {
    Change::Access(AccessChange::Revoke { principal: principal.to_owned(), grants })
}

fn enabled(is_enabled: bool) -> Change {
    Change::Access(AccessChange::Enable { is_enabled })
}

#[test]
fn rights_come_and_go_and_the_map_has_another_version_each_time() {
    let mut cluster = Cluster::new(1, 1 << 20);
    let version = cluster.state.map().version;
    let clicks = on("clicks", FilterVerb::Observe);
    cluster.ask(granted("crawler", vec![clicks.clone(), on("seen*", FilterVerb::Lookup)])).unwrap();
    let granted_at = cluster.state.map().version;
    assert!(granted_at > version && cluster.state.map().access.principals["crawler"].may(FilterVerb::Lookup, "seen-1"));
    cluster.ask(granted("crawler", vec![clicks.clone()])).unwrap();
    assert_eq!(cluster.state.map().version, granted_at, "it has it already");
    cluster.ask(revoked("crawler", vec![clicks.clone()])).unwrap();
    assert!(cluster.state.map().version > granted_at);
    assert!(!cluster.state.map().access.principals["crawler"].may(FilterVerb::Describe, "clicks"));
    let refused = cluster.ask(revoked("crawler", vec![clicks])).unwrap_err();
    assert!(refused.to_string().contains("observe clicks"), "{refused}");
    cluster.ask(revoked("crawler", Vec::new())).unwrap();
    assert!(cluster.state.map().access.principals.is_empty());
    assert!(matches!(cluster.ask(revoked("crawler", Vec::new())), Err(Refusal::PrincipalUnknown { .. })));
    assert!(cluster.ask(granted("Crawler", Vec::new())).unwrap_err().to_string().contains("small letters"));
}

#[test]
fn rights_are_asked_for_once_somebody_may_change_them() {
    let mut cluster = Cluster::new(1, 1 << 20);
    assert_eq!(cluster.ask(enabled(true)), Err(Refusal::NoKeeper));
    cluster.ask(granted("op", vec![Grant::Cluster(ClusterVerb::Operate)])).unwrap();
    assert_eq!(cluster.ask(enabled(true)), Err(Refusal::NoKeeper));
    cluster.ask(granted("keeper", vec![Grant::Cluster(ClusterVerb::Security)])).unwrap();
    cluster.ask(enabled(true)).unwrap();
    assert!(cluster.state.map().access.is_enabled);
    let bytes = cluster.state.to_bytes();
    cluster.ask(enabled(false)).unwrap();
    assert!(!cluster.state.map().access.is_enabled);
    assert!(State::from_bytes(&bytes.unwrap()).unwrap().map().access.is_enabled, "a snapshot has them");
}

#[test]
fn principals_and_rights_have_limits() {
    let mut cluster = Cluster::new(1, 1 << 20);
    let many = |named: &dyn Fn(usize) -> String| {
        (0..GRANTS_MAX).map(|number| on(&named(number), FilterVerb::Observe)).collect()
    };
    cluster.ask(granted("p", many(&|number| format!("f{number}")))).unwrap();
    let before = cluster.state.clone();
    let refused = cluster.ask(granted("p", vec![Grant::Cluster(ClusterVerb::View)])).unwrap_err();
    assert!(refused.to_string().contains("rights of one principal"), "{refused}");
    assert_eq!(cluster.state.map(), before.map(), "nothing has changed");
    let mut first_refused = |grants: Vec<Grant>| {
        (0..).find_map(|number| cluster.ask(granted(&format!("q{number}"), grants.clone())).err()).unwrap().to_string()
    };
    let refused = first_refused(many(&|number| format!("{number:0>255}")));
    assert!(refused.contains("bytes of principals"), "{refused}");
    let refused = first_refused(Vec::new());
    assert!(refused.contains("principals"), "{refused}");
}

#[test]
fn a_change_for_somebody_is_the_change() {
    let mut cluster = Cluster::new(1, 1 << 20);
    let by = |change: Change| {
        let asked_by = AskedBy { name: "admin.firstseen".to_owned(), from: String::new(), at_ms: 7 };
        Change::By { asked_by, change: Asked::new(change) }
    };
    cluster.ask(by(granted("crawler", vec![on("clicks", FilterVerb::Observe)]))).unwrap();
    assert!(cluster.state.map().access.principals.contains_key("crawler"));
    let twice = by(by(revoked("crawler", Vec::new())));
    assert_eq!(twice.subject(), "crawler: everything");
    assert_eq!(cluster.ask(twice), Err(Refusal::AskedTwice));
    let command = Command { id: [1; 16], change: by(enabled(true)) };
    assert_eq!(command.to_string(), "enable-access");
    let bytes = codec::encode(&command).unwrap();
    assert_eq!(codec::decode::<Command>(&bytes), Ok(command));
    // However deep, and once more after it.
    for depth in [2, 3] {
        let change = (0..depth).fold(enabled(true), |change, _| by(change));
        let bytes = codec::encode(&Command { id: [1; 16], change }).unwrap();
        assert!(matches!(codec::decode::<Command>(&bytes), Err(CodecError::Malformed(_))));
    }
    let command = Command { id: [1; 16], change: by(enabled(false)) };
    assert!(codec::decode::<Command>(&codec::encode(&command).unwrap()).is_ok());
}

#[test]
fn a_principal_has_two_valid_tokens_at_most_and_they_go_with_it() {
    let mut cluster = Cluster::new(1, 1 << 20);
    let add = |principal: &str, number, expires_s, now_s| {
        let (principal, id) = (principal.to_owned(), TokenId::new(number));
        Change::Access(AccessChange::AddToken {
            principal,
            id,
            token: TokenRecord { digest: [7; 32], expires_s },
            now_s,
        })
    };
    let remove = |number| Change::Access(AccessChange::RemoveToken { id: TokenId::new(number) });
    assert!(matches!(cluster.ask(add("crawler", 1, None, 0)), Err(Refusal::PrincipalUnknown { .. })));
    for name in ["crawler", "other"] {
        cluster.ask(granted(name, vec![on("clicks", FilterVerb::Observe)])).unwrap();
    }
    cluster.ask(add("crawler", 1, Some(100), 0)).unwrap();
    cluster.ask(add("crawler", 2, None, 0)).unwrap();
    assert_eq!(cluster.ask(add("other", 1, None, 0)), Err(Refusal::TokenTaken { id: TokenId::new(1) }));
    assert!(matches!(cluster.ask(add("crawler", 3, None, 99)), Err(Refusal::TokensFull { .. })));
    cluster.ask(add("crawler", 3, None, 100)).unwrap();
    let access = cluster.state.map().access.clone();
    assert!(access.token(TokenId::new(1)).is_none(), "it had expired");
    assert_eq!(access.token(TokenId::new(3)).map(|(name, _)| name), Some("crawler"));
    assert_eq!(State::from_bytes(&cluster.state.to_bytes().unwrap()).unwrap().map(), cluster.state.map());
    // One right in the place of another, by way of none.
    cluster.ask(revoked("crawler", vec![on("clicks", FilterVerb::Observe)])).unwrap();
    assert!(cluster.state.map().access.token(TokenId::new(3)).is_some());
    cluster.ask(granted("crawler", vec![on("clicks", FilterVerb::Lookup)])).unwrap();
    cluster.ask(remove(2)).unwrap();
    assert_eq!(cluster.ask(remove(2)), Err(Refusal::TokenUnknown { id: TokenId::new(2) }));
    cluster.ask(revoked("crawler", Vec::new())).unwrap();
    assert!(cluster.state.map().access.token(TokenId::new(3)).is_none(), "who has no rights has no tokens");
}

#[test]
fn filters_of_some_names_take_together_what_they_may() {
    let mut cluster = Cluster::new(2, 1 << 30);
    let small = definition(Kind::Timing, 1_000, "horizontal:2");
    let bytes = 2 * slice_bytes(&small).unwrap();
    let limit = |names: &str, filters, cell_bytes| {
        let quota = FiltersQuota { filters: NonZeroU32::new(filters), cell_bytes: NonZeroU64::new(cell_bytes) };
        Change::Access(AccessChange::LimitFilters { names: names.parse().unwrap(), quota })
    };
    let create = |name: &str| filter(name, small.clone(), false);
    let by = |change: Change| {
        let asked_by = AskedBy { name: "tenant".to_owned(), from: String::new(), at_ms: 7 };
        Change::By { asked_by, change: Asked::new(change) }
    };
    cluster.ask(limit("shop-*", 2, 0)).unwrap();
    for name in ["shop-1", "shop-2", "other"] {
        cluster.ask(by(create(name))).unwrap();
    }
    let before = (cluster.state.map().clone(), cluster.state.secrets().clone());
    for refused in [create("shop-3"), by(create("shop-3"))] {
        let refused = cluster.ask(refused).unwrap_err().to_string();
        assert!(refused.contains("`shop-*` may have 2 filters together, and would have 3"), "{refused}");
    }
    assert_eq!((cluster.state.map(), cluster.state.secrets()), (&before.0, &before.1), "nothing has changed");
    cluster.ask(create("other-2")).unwrap();
    // Bytes count over all of them; what is there already stays.
    cluster.ask(limit("shop-*", 0, 2 * bytes)).unwrap();
    let refused = cluster.ask(create("shop-3")).unwrap_err();
    assert!(matches!(refused, Refusal::FiltersQuota { used, most, .. } if (used, most) == (3 * bytes, 2 * bytes)));
    cluster.ask(limit("shop-*", 1, 1)).unwrap();
    cluster.ask(Change::DropFilter { name: "shop-1".into() }).unwrap();
    assert!(cluster.ask(create("shop-4")).is_err(), "less than there was, and still too much");
    // An altered filter takes the cells of both.
    let (id, _) = cluster.state.map().filter_named("shop-2").unwrap();
    let definition = definition(Kind::Timing, 2_000, "horizontal:2");
    let alter = Change::AlterFilter(AlteredFilter {
        name: "shop-2".into(),
        filter: id,
        definition,
        secret: None,
        forgets: false,
    });
    assert!(matches!(cluster.ask(alter.clone()), Err(Refusal::FiltersQuota { .. })));
    cluster.ask(limit("shop-*", 1, 0)).unwrap();
    cluster.ask(alter).unwrap();
    assert!(State::from_bytes(&cluster.state.to_bytes().unwrap()).unwrap().map().access.filters.len() == 1);
    cluster.ask(limit("shop-*", 0, 0)).unwrap();
    assert!(cluster.state.map().access.filters.is_empty());
    let mut many = (0..).map(|number| cluster.ask(limit(&format!("f{number}"), 1, 0)));
    assert!(many.find_map(Result::err).unwrap().to_string().contains("limits of names"));
}
