//! Implements `firstseen filter create`, which turns flags into the definition of a filter in a cluster.

use std::io::Write;
use std::num::NonZeroU32;

use anyhow::Context;
use firstseen_embedded::{KindChoice, Stamps};
use firstseen_filter::{Ability, Digest, FilterSecret, Layout, Window};
use firstseen_routing::{
    ClusterMap, Cut, CutOff, Durability, FilterId, FilterPolicies, NodeId, SlicedDefinition, Slicing, TreeSpec,
};
use firstseen_wire::map::{
    answer_message, clock_message, definition_json, durability_message, filter_record, lookup_message,
    when_lost_message,
};
use firstseen_wire::proto::admin::CreateFilterRequest;
use firstseen_wire::tree as wire_tree;

use super::{ClockArg, CreateArgs};
use crate::cluster;
use crate::cluster::connect::{Operator, fresh_id};
use crate::cluster::places::{self, mode_name};
use crate::exit::UsageError;
use crate::flags::filter::LatenessArg;
use crate::report::describe::describe;
use crate::state::{self, SavedState};
use crate::text::lines::wrapped;

/// Runs `firstseen filter create`.
pub(super) async fn run(args: &CreateArgs, operator: &Operator, out: &mut dyn Write) -> anyhow::Result<()> {
    let map = cluster::status::ask(operator).await?.map;
    let tree = args.tree.spec(&map)?;
    let (slicing, is_proposed) = match args.filter.slicing {
        Some(slicing) => (slicing, false),
        // A window that counts events needs a single slice, because the node of that slice must count all events.
        None if counts_events(args)? => (Slicing::NONE, true),
        None => (proposed(tree.as_ref().map_or(map.nodes.len(), |tree| nodes_of_place_max(&map, tree))), true),
    };
    let there = map.filter_named(&args.name).map(|(_, filter)| &filter.definition);
    let request = CreateFilterRequest { tree: tree.as_ref().map(wire_tree::encode), ..request(args, slicing, there)? };
    let reply = operator.call(async |mut client| client.create_filter(request.clone()).await).await?;
    let filter = reply.filter.context("the node does not say what it made")?;
    let (number, filter) = filter_record(filter)?;
    let name = filter.name.as_str();
    let was_there = if reply.existed { ", was there" } else { "" };
    let made = format!("filter {name}, number {number}{was_there}: {}", describe(&filter.definition));
    writeln!(out, "{}", wrapped(&made))?;
    if !reply.unreachable.is_empty() {
        let nodes: Vec<String> = reply.unreachable.iter().map(|number| node_name(&map, *number)).collect();
        let nodes = nodes.join(", ");
        notice!(
            "firstseen: of the nodes that own its slices, {nodes} cannot be reached: events there are undecided until \
             they are started again (see firstseen cluster status)"
        );
    }
    if is_proposed && !reply.existed {
        let why = if slicing == Slicing::NONE { "one node has all of it" } else { "a slice a node" };
        writeln!(out, "slicing {slicing}: {why}, as --slicing said nothing else")?;
    }
    if !reply.existed
        && let Some(loss) = loss_at_restart(name, &filter.policies, filter.definition.group.window)
    {
        notice!("firstseen: {loss}");
    }
    let keeps_all = filter.policies.durability == Durability::Durable;
    if !reply.existed && !keeps_all && tree.as_ref().is_some_and(|tree| tree.cut_off == CutOff::Local) {
        notice!(
            "firstseen: filter `{name}`: an event that a site decides alone while it is cut off can be lost if the site's \
             node ends before it has reported the event, and is then first-seen again (--durability durable keeps such \
             events)"
        );
    }
    match tree {
        Some(tree) => print_tree(&tree, number, operator, out).await,
        None => Ok(()),
    }
}

/// Returns the name of a node, or its number if the map does not contain the node.
fn node_name(map: &ClusterMap, number: u64) -> String {
    map.nodes.get(&NodeId(number)).map_or_else(|| number.to_string(), |node| node.name.clone())
}

/// Returns what a restart of nodes loses, as text. `None` means that it loses nothing.
fn loss_at_restart(name: &str, policies: &FilterPolicies, window: Window) -> Option<String> {
    let until = match window {
        Window::Unbounded => "`firstseen filter forgive` (its events never expire)",
        _ => "their window has passed",
    };
    let what = match (policies.durability, policies.copies) {
        (Durability::Durable, _) => return None,
        (Durability::Interval { .. }, 0) => format!(
            "filter `{name}`: a node that crashes has lost what came last, and events of its slices are undecided until \
             {until} (--durability durable loses nothing; --copies 1 has it fetched from another node)"
        ),
        (Durability::Memory, 0) => format!(
            "filter `{name}` is kept in memory: a node that restarts has lost what its slices remember, and their events \
             are undecided until {until} (--durability durable loses nothing; --copies 1 has it fetched from another node)"
        ),
        (Durability::Memory | Durability::Interval { .. }, _) => {
            format!(
                "filter `{name}` is kept in memory: a node that restarts fetches its slices from the other nodes \
                 that have them; if all of these restart at once, the slices are lost (--durability durable loses nothing)"
            )
        }
    };
    Some(what)
}

/// Prints the place of each filter of a new tree.
async fn print_tree(tree: &TreeSpec, number: FilterId, operator: &Operator, out: &mut dyn Write) -> anyhow::Result<()> {
    let map = cluster::status::ask(operator).await?.map;
    let places = places::places(&map, number);
    if places.is_empty() {
        // The status came from another node, which does not know the filter yet.
        return Ok(());
    }
    writeln!(out, "{} tree; producers at a site name its place (firstseen dedup --site)", mode_name(tree.mode))?;
    Ok(out.write_all(places::table(&places).as_bytes())?)
}

/// Returns the number of nodes at the place with the most nodes. Every place has this number of slice groups.
fn nodes_of_place_max(map: &ClusterMap, tree: &TreeSpec) -> usize {
    let nodes =
        tree.places.iter().map(|place| map.nodes.values().filter(|node| place.sites.contains(&node.site)).count());
    nodes.max().unwrap_or(0)
}

/// Returns whether the windows or epochs are measured in events.
fn counts_events(args: &CreateArgs) -> anyhow::Result<bool> {
    let window = match args.frequencies.spec(&args.filter) {
        Some(spec) => spec.epoch,
        None => args.filter.window(&args.policies.tz)?,
    };
    Ok(matches!(window, Window::Events(_) | Window::LandmarkEvents(_)))
}

/// Returns the slicing if no flag gives one: one horizontal slice per node. An event then visits one node, whatever its
/// kind and window.
fn proposed(nodes: usize) -> Slicing {
    let slices = u32::try_from(nodes).ok().filter(|slices| *slices > 1).and_then(NonZeroU32::new);
    slices.and_then(|slices| Slicing::new(Cut::Horizontal(slices)).ok()).unwrap_or(Slicing::NONE)
}

/// Returns the filter that the flags ask for. If the filter belongs to a tree and no flag names a kind, kind `timing`
/// is used. A tree needs a kind in which each cell of a lower level can summarise several cells of the root, and kind
/// `timing` has this property.
fn meant(args: &CreateArgs, slicing: Slicing) -> anyhow::Result<KindChoice> {
    let CreateArgs { filter, policies, tree, .. } = args;
    let is_stamped_by_nodes = policies.clock == ClockArg::Wall;
    let stamps = if is_stamped_by_nodes { Stamps::OnArrival } else { Stamps::OfEvents };
    let seed = state::seed(filter.seed, None::<&SavedState<SlicedDefinition>>);
    if filter.lateness == Some(LatenessArg::Auto) {
        return Err(UsageError(
            "--lateness auto measures an input, which `filter create` has not: name a duration".to_owned(),
        )
        .into());
    }
    let mut meant = filter.meant(filter.window(&policies.tz)?, seed, slicing, stamps);
    if tree.is_asked_for() {
        meant.prefer_timing();
    }
    meant.change(|spec| {
        if is_stamped_by_nodes {
            spec.clock_skew_ms = policies.clock_skew;
        }
        if tree.is_asked_for() && spec.kind.can(Ability::Divide) {
            spec.layout = spec.layout.or(Some(Layout::Classic));
        }
    });
    Ok(meant)
}

/// Returns the request to send. `there` is the existing filter of this name in the cluster.
fn request(
    args: &CreateArgs,
    slicing: Slicing,
    there: Option<&SlicedDefinition>,
) -> anyhow::Result<CreateFilterRequest> {
    let CreateArgs { name, filter, frequencies, policies, .. } = args;
    let definition = match frequencies.spec(filter) {
        Some(spec) => SlicedDefinition::frequencies(&spec, slicing),
        None => meant(args, slicing)?.definition(slicing, there),
    }
    .map_err(|error| UsageError(error.to_string()))?;
    if !definition.group.one_shape() {
        return Err(UsageError(format!(
            "filter `{name}` would start small and grow to other shapes, which a filter of a cluster cannot: say how \
             many events a window brings (--capacity 10M), or how it grows (--growth equal:4)"
        ))
        .into());
    }
    if name.starts_with('-') {
        return Err(
            UsageError(format!("filter `{name}`: a name that begins with `-` would be taken for a flag")).into()
        );
    }
    let retry_horizon_ms = policies.retry_horizon_ms(&definition.group.window)?;
    Ok(CreateFilterRequest {
        command_id: fresh_id().into(),
        name: name.clone(),
        definition_json: definition_json(&definition),
        clock: clock_message(policies.clock.into()).into(),
        lookup: lookup_message(policies.lookup.into()).into(),
        answer: answer_message(policies.answer.into()).into(),
        retry_horizon_ms,
        secret: filter.seed.map(secret).unwrap_or_default().into(),
        if_absent: policies.if_absent,
        tree: None,
        durability: durability_message(policies.durability).0.into(),
        durability_interval_ms: durability_message(policies.durability).1,
        lease_max_ms: lease_max_ms(policies.claims)?,
        min_live: policies.min_live,
        set_min: policies.set_min,
        when_lost: when_lost_message(policies.when_lost.into()).into(),
        copies: policies.further_copies(),
    })
}

/// Returns the maximum time in milliseconds that an event may be claimed. It is 0 if claims were not requested.
fn lease_max_ms(claims_ms: Option<u64>) -> anyhow::Result<u32> {
    match claims_ms {
        None => Ok(0),
        Some(0) => Err(UsageError("--claims needs a lease, from 1 s on (--claims 10s)".to_owned()).into()),
        Some(claims_ms) => u32::try_from(claims_ms)
            .map_err(|_| UsageError("--claims can be at most the retry horizon".to_owned()).into()),
    }
}

/// Returns a secret of 32 bytes for hashing events, which is derived from a seed. Users give a seed if a run must be
/// repeatable, for example in a test. If no seed is given, the node generates a random secret instead.
pub(super) fn secret(seed: u64) -> Vec<u8> {
    let secret = FilterSecret::from_seed(seed);
    let mut bytes = Vec::with_capacity(32);
    for part in ["first", "second"] {
        let Digest { lo, hi } = secret.digest(part.as_bytes());
        bytes.extend_from_slice(&lo.to_le_bytes());
        bytes.extend_from_slice(&hi.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};
    use firstseen_filter::{CellDefinition, DecayingCells, Kind};
    use firstseen_routing::ClockSource;
    use firstseen_wire::map::{definition, policies};

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        create: CreateArgs,
    }

    fn asked(flags: &str) -> anyhow::Result<CreateFilterRequest> {
        let words = ["create", "clicks", "--cluster", "a:1,b:2"].into_iter().chain(flags.split_whitespace());
        let args = Flags::parse_from(words).create;
        request(&args, args.filter.slicing.unwrap_or(proposed(3)), None)
    }

    #[test]
    fn a_slice_a_node_is_proposed() {
        assert_eq!(
            [0, 1, 2, 4096, 5000].map(|nodes| proposed(nodes).to_string()),
            ["none", "none", "horizontal:2", "horizontal:4096", "none"]
        );
    }

    #[test]
    fn flags_become_a_definition_and_policies() {
        let request = asked("--window 1h --capacity 1M --fpr 0.001 --clock wall --retry-horizon 30s").unwrap();
        let made = definition("clicks", &request.definition_json).unwrap();
        assert_eq!((made.slicing.to_string().as_str(), made.group.window.to_string().as_str()), ("horizontal:3", "1h"));
        let policies = policies(request.clock, request.lookup, request.answer, request.retry_horizon_ms).unwrap();
        assert_eq!((policies.clock, policies.retry_horizon_ms), (ClockSource::Wall, 30_000));
        assert!(request.secret.is_empty() && !request.if_absent);
    }

    #[test]
    fn the_kind_follows_from_size_and_slicing_and_stays_where_a_filter_is_there() {
        let made = |flags: &str| definition("clicks", &asked(flags).unwrap().definition_json).unwrap();
        let kind = |flags: &str| made(flags).group.cells.kind();
        assert_eq!(kind("--window 24h --capacity 10M"), Kind::Cuckoo);
        assert_eq!(kind("--window 24h --capacity 10M --slicing vertical:3"), Kind::Timing);
        assert_eq!(kind("--window 24h --capacity 10M --tree dense"), Kind::Timing);
        assert_eq!(kind("--window 24h --capacity 1k"), Kind::Timing);
        let lateness = |flags: &str| made(flags).group.rule.lateness_units;
        assert!(lateness("--window 24h --capacity 10M") > 0);
        assert_eq!(lateness("--window 24h --capacity 10M --clock wall"), 0, "what nodes stamp is never late");
        let former = made("--window 24h --capacity 10M --kind timing");
        let words = "create clicks --cluster a:1 --window 24h --capacity 10M --slicing horizontal:3 --if-absent";
        let args = Flags::parse_from(words.split_whitespace()).create;
        let again = request(&args, args.filter.slicing.unwrap(), Some(&former)).unwrap();
        assert_eq!(definition("clicks", &again.definition_json).unwrap(), former);
    }

    #[test]
    fn an_epoch_makes_a_filter_of_frequencies() {
        let request = asked("--epoch 1h --lambda 0.25 --capacity 3000").unwrap();
        let made = definition("clicks", &request.definition_json).unwrap();
        let CellDefinition::Decaying(DecayingCells { shape }) = made.group.cells else { panic!("{made:?}") };
        assert_eq!((shape.rule.lambda(), made.slicing.to_string().as_str()), (0.25, "horizontal:3"));
    }

    /// Regression test. The notice said "it is kept in memory", and nothing before it named the filter.
    #[test]
    fn the_notice_about_a_restart_names_the_filter() {
        for copies in [0, 1] {
            let policies = FilterPolicies { copies, ..FilterPolicies::default() };
            let said = loss_at_restart("clicks", &policies, Window::Duration(1000)).unwrap();
            assert!(said.starts_with("filter `clicks` is kept in memory: "), "{said}");
        }
    }

    /// Regression test. The help had texts of `firstseen dedup`, about a report and about `--lateness auto`.
    #[test]
    fn the_help_describes_this_command() {
        let help = Flags::command().render_long_help().to_string();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for wrong in ["which the report shows", "`auto` measures", "the filter starts small"] {
            assert!(!help.contains(wrong), "`{wrong}` is in {help}");
        }
        assert!(help.contains("The default is a random secret, which the nodes keep"), "{help}");
    }

    #[test]
    fn a_seed_gives_the_same_secret_again() {
        let [one, again, other] = [7, 7, 8].map(|seed| asked(&format!("--capacity 10 --seed {seed}")).unwrap().secret);
        assert_eq!((one.len(), one == again, one == other), (32, true, false));
    }

    #[test]
    fn a_filter_that_no_cluster_can_have_is_refused_before_a_request() {
        for (flags, said) in [
            ("--kind stable --memory 1MiB --slicing vertical:2", "kind stable cannot be sliced `vertical:2`"),
            ("--epoch 1h --slicing vertical:2", "kind decaying cannot be sliced `vertical:2`"),
            ("--epoch unbounded", "an epoch is a duration"),
            ("--window 24h", "filter `clicks` would start small"),
        ] {
            let error = asked(flags).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
