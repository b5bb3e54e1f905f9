//! Tests of granting and revoking rights, and of their limits.

use std::num::{NonZeroU32, NonZeroU64};

use firstseen_filter::Kind;
use firstseen_routing::{ClusterVerb, FilterVerb, FiltersQuota, TokenId, TokenRecord};
use serde::ser::SerializeTuple;
use serde::{Serialize, Serializer};

use super::*;
use crate::asked_by::AskedBy;
use crate::change::{AlteredFilter, Change, Requester};
use crate::codec::{self, CodecError};
use crate::command::Command;
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

fn administrator() -> AskedBy {
    AskedBy { name: "admin.firstseen".to_owned(), from: String::new(), at_ms: 7 }
}

#[test]
fn a_change_for_somebody_is_the_change() {
    let mut cluster = Cluster::new(1, 1 << 20);
    cluster.ask_by(administrator(), granted("crawler", vec![on("clicks", FilterVerb::Observe)])).unwrap();
    assert!(cluster.state.map().access.principals.contains_key("crawler"));
    assert_eq!(revoked("crawler", Vec::new()).subject(), "crawler: everything");
    assert_eq!(cluster.ask(Change::By(Requester(administrator()))), Err(Refusal::AskedTwice));
}

#[test]
fn bytes_of_a_command_that_somebody_has_asked_for_never_change() {
    let command = Command { id: [1; 16], asked_by: Some(administrator()), change: enabled(true) };
    assert_eq!(command.to_string(), "enable-access");
    let bytes = codec::encode(&command).unwrap();
    let written = [
        &[1; 16][..],
        // The principal that requested the change, encoded in the position of a change.
        &23_u32.to_le_bytes(),
        &15_u64.to_le_bytes(),
        b"admin.firstseen",
        &0_u64.to_le_bytes(),
        &7_u64.to_le_bytes(),
        // The change, which is the fourth variant of the changes of access rights.
        &24_u32.to_le_bytes(),
        &3_u32.to_le_bytes(),
        &[1],
    ];
    assert_eq!(bytes[5..], written.concat());
    assert_eq!(codec::decode::<Command>(&bytes), Ok(command));
}

#[test]
fn a_change_names_one_that_has_asked_for_it() {
    // The command is rejected for any number of such parts before the change.
    for count in [2, 3, 10_000] {
        let requesters: Vec<Change> = (0..count).map(|_| Change::By(Requester(administrator()))).collect();
        let bytes = codec::encode(&Nested { id: [1; 16], requesters, change: enabled(true) }).unwrap();
        assert!(matches!(codec::decode::<Command>(&bytes), Err(CodecError::Malformed(_))));
    }
}

struct Nested {
    id: [u8; 16],
    requesters: Vec<Change>,
    change: Change,
}

impl Serialize for Nested {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut parts = serializer.serialize_tuple(2 + self.requesters.len())?;
        parts.serialize_element(&self.id)?;
        self.requesters.iter().try_for_each(|requester| parts.serialize_element(requester))?;
        parts.serialize_element(&self.change)?;
        parts.end()
    }
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
    // One right is replaced by another, with no rights in between.
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
    cluster.ask(limit("shop-*", 2, 0)).unwrap();
    for name in ["shop-1", "shop-2", "other"] {
        cluster.ask_by(administrator(), create(name)).unwrap();
    }
    let before = (cluster.state.map().clone(), cluster.state.secrets().clone());
    for refused in [cluster.ask(create("shop-3")), cluster.ask_by(administrator(), create("shop-3"))] {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("`shop-*` may have at most 2 filters together, and would have 3"), "{refused}");
    }
    assert_eq!((cluster.state.map(), cluster.state.secrets()), (&before.0, &before.1), "nothing has changed");
    cluster.ask(create("other-2")).unwrap();
    // Bytes are counted for all filters together. Existing filters remain.
    cluster.ask(limit("shop-*", 0, 2 * bytes)).unwrap();
    let refused = cluster.ask(create("shop-3")).unwrap_err();
    assert!(matches!(refused, Refusal::FiltersQuota { used, most, .. } if (used, most) == (3 * bytes, 2 * bytes)));
    cluster.ask(limit("shop-*", 1, 1)).unwrap();
    cluster.ask(Change::DropFilter { name: "shop-1".into() }).unwrap();
    assert!(cluster.ask(create("shop-4")).is_err(), "less than there was, and still too much");
    // While a filter is being altered, the cells of both filters count.
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
