//! Tests a node that does not know whether its time of day agrees with most other nodes. Such a node must not accept
//! events into a time window. Its time of day must neither advance a group's clock nor make a slice complete.

use std::collections::BTreeMap;

use crate::common::{definition, digest, filter_record, node_record, slice_owner, spec};
use firstseen_filter::{FilterSpec, Kind, Probes};
use firstseen_mesh::plain_submission;
use firstseen_routing::{
    ClockSource, ClockStanding, ClockWatch, ClusterMap, Command, Decision, Exchange, FilterId, FilterPolicies,
    GroupOwner, Incarnation, Moment, MonotonicMs, NodeId, Operation, OwnerLimits, Prober, Proposal, Reading, Reason,
    Submission, TimeOfDay,
};

const FILTER: FilterId = FilterId(3);
const ME: NodeId = NodeId(1);
const SKEW_MS: u64 = 1_000;
const HOUR_MS: u64 = 3_600_000;
const WALL_MS: u64 = 1_790_000_000_000;
const OTHERS: [NodeId; 4] = [NodeId(2), NodeId(3), NodeId(4), NodeId(5)];

fn at(monotonic_ms: u64, ahead_ms: i64) -> Moment {
    Moment {
        monotonic_ms: MonotonicMs(monotonic_ms),
        wall_ms: (WALL_MS + monotonic_ms).saturating_add_signed(ahead_ms),
    }
}

/// Returns the clock watch of a node with readings of peers. Each peer's clock is ahead by the given number of
/// milliseconds at `now_ms`.
fn watch(ahead_ms: &[(NodeId, i64)], now_ms: u64) -> ClockWatch {
    let mut watch = ClockWatch::new(SKEW_MS);
    ahead_ms.iter().for_each(|(peer, ahead_ms)| hear(&mut watch, *peer, *ahead_ms, now_ms));
    watch
}

fn hear(watch: &mut ClockWatch, peer: NodeId, ahead_ms: i64, now_ms: u64) {
    let read = at(now_ms - 1, ahead_ms);
    let (sent_ms, heard_ms) = (MonotonicMs(now_ms - 2), MonotonicMs(now_ms));
    watch.hear(peer, Exchange { sent_ms, heard_ms, peer_wall_ms: read.wall_ms });
}

#[test]
fn most_of_the_nodes_decide() {
    let [b, c, d, e] = OTHERS;
    let hour = HOUR_MS as i64;
    for (heard, expected) in [
        (vec![(b, 0), (c, 400), (d, hour), (e, hour)], ClockStanding::Within),
        (vec![(b, 0), (c, -700), (d, hour), (e, hour)], ClockStanding::Apart),
        (vec![(b, 0), (c, hour), (d, hour), (e, hour)], ClockStanding::Beyond),
        // The two silent nodes do not matter, because three of five nodes agree.
        (vec![(b, 0), (c, 0)], ClockStanding::Within),
        (vec![(b, hour), (c, hour), (d, hour)], ClockStanding::Beyond),
        (vec![(b, hour), (c, hour)], ClockStanding::Unknown),
        (vec![], ClockStanding::Unknown),
    ] {
        assert_eq!(watch(&heard, 100).look(at(100, 0), &OTHERS), expected, "{heard:?}");
    }
}

#[test]
fn a_clock_at_the_edge_does_not_turn_back_and_forth() {
    let mut edge = ClockWatch::new(SKEW_MS);
    let mut stands = |ahead_ms: i64, now_ms: u64| {
        OTHERS.iter().for_each(|peer| hear(&mut edge, *peer, ahead_ms, now_ms));
        edge.look(at(now_ms, 0), &OTHERS)
    };
    assert_eq!(stands(1_010, 1_000), ClockStanding::Beyond);
    assert_eq!(stands(980, 2_000), ClockStanding::Beyond);
    assert_eq!(stands(860, 3_000), ClockStanding::Apart);
    assert_eq!(stands(980, 4_000), ClockStanding::Apart);
    assert_eq!(stands(480, 5_000), ClockStanding::Apart);
    assert_eq!(stands(420, 6_000), ClockStanding::Within);
    assert_eq!(stands(480, 7_000), ClockStanding::Within);
}

#[test]
fn of_two_that_differ_neither_stamps() {
    let mut two = watch(&[(NodeId(2), 5_000)], 100);
    assert_eq!(two.look(at(100, 0), &OTHERS[..1]), ClockStanding::Beyond);
    hear(&mut two, NodeId(2), 0, 300);
    assert_eq!(two.look(at(300, 0), &OTHERS[..1]), ClockStanding::Within, "the other was set right");
}

#[test]
fn a_node_that_reaches_no_other_keeps_its_last_finding() {
    let mut lonely = watch(&[(NodeId(2), 0), (NodeId(3), 0)], 100);
    assert_eq!(lonely.look(at(100, 0), &OTHERS), ClockStanding::Within);
    assert_eq!(lonely.look(at(200_000, 0), &OTHERS), ClockStanding::Within);
    let mut wrong = watch(&OTHERS.map(|peer| (peer, 5_000)), 100);
    assert_eq!(wrong.look(at(100, 0), &OTHERS), ClockStanding::Beyond);
    assert_eq!(wrong.look(at(200_000, 0), &OTHERS), ClockStanding::Beyond);
}

#[test]
fn a_step_counts_for_nothing_until_others_have_confirmed_it() {
    let mut stepped = watch(&OTHERS.map(|peer| (peer, 0)), 100);
    stepped.look(at(100, 0), &OTHERS);
    let before = stepped.time_of_day();
    let doubted = Reading { moment: at(120, 0), doubt: Some(Reason::ClockSkew) };
    assert_eq!(before.read(at(120, 5_000)), doubted, "before anybody has looked");
    assert_eq!(stepped.look(at(150, 5_000), &OTHERS), ClockStanding::Stepped);
    assert_eq!(stepped.time_of_day().read(at(160, 5_000)).moment, at(160, 0));
    OTHERS.iter().for_each(|peer| hear(&mut stepped, *peer, 0, 200));
    assert_eq!(stepped.look(at(200, 5_000), &OTHERS), ClockStanding::Beyond);
    assert_eq!(stepped.ahead_ms(at(200, 5_000)), 5_000);
    // Either all other clocks were set, or this machine has slept. Its time of day is now five seconds later than its
    // monotonic clock shows.
    let mut slept = watch(&OTHERS.map(|peer| (peer, 0)), 100);
    slept.look(at(100, 0), &OTHERS);
    assert_eq!(slept.look(at(150, 5_000), &OTHERS), ClockStanding::Stepped, "what was measured before means nothing");
    OTHERS.iter().for_each(|peer| hear(&mut slept, *peer, 5_000, 200));
    assert_eq!(slept.look(at(200, 5_000), &OTHERS), ClockStanding::Within);
    assert_eq!(slept.time_of_day().read(at(210, 5_000)), Reading { moment: at(210, 5_000), doubt: None });
}

#[test]
fn a_single_node_believes_a_step_that_stands() {
    let mut alone = watch(&[], 100);
    assert_eq!(alone.look(at(100, 0), &[]), ClockStanding::Within);
    assert_eq!(alone.look(at(200, 5_000), &[]), ClockStanding::Stepped);
    assert_eq!(alone.look(at(10_199, 5_000), &[]), ClockStanding::Stepped);
    assert_eq!(alone.look(at(10_199, 0), &[]), ClockStanding::Within, "it was set back");
    assert_eq!(alone.look(at(10_300, 5_000), &[]), ClockStanding::Stepped, "it is the next one");
    assert_eq!(alone.look(at(20_300, 5_000), &[]), ClockStanding::Within);
    assert_eq!(alone.time_of_day().read(at(20_300, 5_000)).moment, at(20_300, 5_000));
}

/// The owner of all slices of a filter, on a node that reads its clocks as a real node does.
struct Node {
    owner: GroupOwner,
    prober: Prober,
    sequence: u64,
    time: TimeOfDay,
}

impl Node {
    fn new(spec: &FilterSpec, slicing: &str, clock: ClockSource, is_complete: bool) -> Self {
        let definition = definition(spec, slicing);
        let owners = (0..definition.slicing.slices()).map(|_| slice_owner(ME)).collect();
        let policies = FilterPolicies { clock, ..FilterPolicies::default() };
        let mut node = node_record(ME);
        if !is_complete {
            node.incarnation = Incarnation(node.incarnation.0 + 1);
        }
        let map = ClusterMap {
            nodes: BTreeMap::from([(ME, node)]),
            filters: BTreeMap::from([(FILTER, filter_record(&definition, policies, owners))]),
            ..ClusterMap::default()
        };
        let owner = GroupOwner::build(FILTER, &map, 0, ME, OwnerLimits::default()).unwrap();
        Self { owner, prober: Prober::new(&definition).unwrap(), sequence: 0, time: TimeOfDay::UNCHECKED }
    }

    fn read(&mut self, shown: Moment) -> Moment {
        let Reading { moment, doubt } = self.time.read(shown);
        self.owner.set_doubt(doubt);
        moment
    }

    /// Returns the decision on an event.
    fn ask(&mut self, key: u64, operation: Operation, shown: Moment) -> Decision {
        let now = self.read(shown);
        self.sequence += 1;
        let mut probes = Probes::new(self.prober.shape());
        self.prober.push(digest(key), &mut probes);
        let submission = Submission { producer: 77, ..plain_submission(self.sequence, operation, probes) };
        let mut commands = Vec::new();
        self.owner.submit(submission, now);
        self.owner.take_commands(&mut commands);
        let decision = commands.iter().find_map(|command| match command {
            Command::Reply(reply) => Some(reply.answers.decisions()[0]),
            _ => None,
        });
        decision.expect("it is answered at once")
    }

    /// Returns whether the node's slices report that they are complete after time has passed.
    fn says_complete(&mut self, shown: Moment) -> bool {
        let now = self.read(shown);
        let mut commands = Vec::new();
        self.owner.tick(now);
        self.owner.take_commands(&mut commands);
        commands.iter().any(|command| matches!(command, Command::Propose(Proposal::SlicesComplete { .. })))
    }
}

fn half_an_hour() -> FilterSpec {
    spec(Kind::Timing, "30m", 1 << 16, 5)
}

#[test]
fn a_clock_that_is_set_an_hour_ahead_ends_no_window() {
    for slicing in ["none", "vertical:3"] {
        let mut node = Node::new(&half_an_hour(), slicing, ClockSource::Wall, true);
        let mut clocks = watch(&OTHERS.map(|peer| (peer, 0)), 100);
        clocks.look(at(100, 0), &OTHERS);
        node.time = clocks.time_of_day();
        assert_eq!(node.ask(1, Operation::Observe, at(100, 0)), Decision::FirstSeen, "{slicing}");
        let ahead = HOUR_MS as i64;
        for operation in [Operation::Observe, Operation::Lookup] {
            let decision = node.ask(1, operation, at(200, ahead));
            assert_eq!(decision, Decision::Undecided(Reason::ClockSkew), "{slicing}, {operation:?}");
        }
        assert_eq!(node.ask(1, Operation::Observe, at(300, 0)), Decision::Duplicate, "{slicing}: it is set back");
        assert_eq!(node.ask(2, Operation::Observe, at(300, 0)), Decision::FirstSeen, "{slicing}: nothing is late");
        assert!(node.owner.clock_ms() < Some(at(400, 0).wall_ms), "{slicing}: the step has moved the group's clock");
    }
}

#[test]
fn filters_without_times_of_day_go_on() {
    let step = at(200, HOUR_MS as i64);
    let mut clocks = watch(&OTHERS.map(|peer| (peer, 0)), 100);
    clocks.look(at(100, 0), &OTHERS);
    for (kind, window) in [(Kind::Bloom, "unbounded"), (Kind::Timing, "1000events")] {
        let mut node = Node::new(&spec(kind, window, 1 << 16, 5), "none", ClockSource::Wall, true);
        node.time = clocks.time_of_day();
        assert_eq!(node.ask(1, Operation::Observe, step), Decision::FirstSeen, "{window}");
        assert_eq!(node.ask(1, Operation::Observe, step), Decision::Duplicate, "{window}");
    }
}

#[test]
fn a_slice_is_not_complete_by_a_time_of_day_in_doubt() {
    for slicing in ["none", "vertical:3"] {
        let mut node = Node::new(&half_an_hour(), slicing, ClockSource::Wall, false);
        // The node starts with a clock that is two hours behind, and has not compared it with any other node yet.
        node.time = TimeOfDay::UNKNOWN;
        let behind = -2 * HOUR_MS as i64;
        assert!(!node.says_complete(at(100, behind)), "{slicing}");
        assert_eq!(
            node.ask(1, Operation::Observe, at(110, behind)),
            Decision::Undecided(Reason::NotReady),
            "{slicing}"
        );
        // The clock is set right and known to be right. Events that other nodes recorded a moment ago are still in the
        // window.
        node.time = TimeOfDay::UNCHECKED;
        assert!(!node.says_complete(at(200, 0)), "{slicing}");
        node.ask(1, Operation::Observe, at(300, 0));
        assert!(!node.says_complete(at(400, 0)), "{slicing}: by an hour that has not passed");
        node.ask(1, Operation::Observe, at(2 * HOUR_MS, 0));
        assert!(node.says_complete(at(2 * HOUR_MS + 1_000, 0)), "{slicing}: its window is over");
    }
}

/// Regression test: during the first 6 s after a durable node started, its clock was 2 h ahead. In an earlier version,
/// the node trusted the first reading of its clock. As a result, all events within its window of 30 minutes became new.
#[test]
fn a_first_look_that_does_not_follow_the_last_run_is_a_step() {
    let two_hours_ms = 2 * HOUR_MS as i64;
    let started = |ahead_ms: i64| {
        let mut watch = ClockWatch::new(SKEW_MS).after(Some(WALL_MS));
        watch.look(at(0, ahead_ms), &[]);
        watch
    };
    for (ahead_ms, standing) in [
        (50_000, ClockStanding::Within),
        (-500, ClockStanding::Within),
        (two_hours_ms, ClockStanding::Stepped),
        (-two_hours_ms, ClockStanding::Stepped),
    ] {
        assert_eq!(started(ahead_ms).standing(), standing, "{ahead_ms} ms after the last run");
    }
    // The clock is set right after 6 s. Before, the node had not run for 2 s.
    let mut watch = started(two_hours_ms);
    assert!(watch.time_of_day().read(at(5_000, two_hours_ms)).doubt.is_some());
    assert_eq!(watch.look(at(6_000, 2_000), &[]), ClockStanding::Stepped, "it has just been set");
    assert_eq!(watch.look(at(15_900, 2_000), &[]), ClockStanding::Stepped);
    assert_eq!(watch.look(at(16_000, 2_000), &[]), ClockStanding::Within, "it has stood for 10 s");
    // In this case the clock was right all the time.
    let mut watch = started(two_hours_ms);
    assert_eq!(watch.look(at(firstseen_routing::BELIEVED_AFTER_MS, two_hours_ms), &[]), ClockStanding::Within);
}

/// Machines that are paused together with their clocks. 12 s pass that no clock of this machine shows.
const PAUSED_MS: i64 = 12_000;

#[test]
fn a_peer_whose_clock_has_gained_may_mean_that_this_machine_has_stood_still() {
    let others = &OTHERS[..2];
    let mut paused = watch(&[(others[0], 0), (others[1], 0)], 100);
    assert_eq!(paused.look(at(100, 0), others), ClockStanding::Within);
    hear(&mut paused, others[0], PAUSED_MS, 350);
    assert_eq!((paused.look(at(350, 0), others), paused.standstills()), (ClockStanding::Stood, 1));
    let doubted = Reading { moment: at(351, 0), doubt: Some(Reason::ClockSkew) };
    assert_eq!(paused.time_of_day().read(at(351, 0)), doubted);
    // The reply to a ping from before the pause contains the time from before the pause.
    let (sent_ms, heard_ms) = (MonotonicMs(349), MonotonicMs(352));
    paused.hear(others[1], Exchange { sent_ms, heard_ms, peer_wall_ms: at(350, 0).wall_ms });
    assert_eq!(paused.look(at(352, 0), others), ClockStanding::Stood, "nobody has confirmed the clock since");
    hear(&mut paused, others[1], PAUSED_MS, 360);
    assert_eq!(paused.look(at(360, 0), others), ClockStanding::Beyond);
    // The time of day is set right.
    assert_eq!(paused.look(at(400, PAUSED_MS), others), ClockStanding::Stepped);
    others.iter().for_each(|peer| hear(&mut paused, *peer, PAUSED_MS, 450));
    assert_eq!((paused.look(at(450, PAUSED_MS), others), paused.standstills()), (ClockStanding::Within, 1));
}

#[test]
fn a_peer_whose_clock_was_set_forward_holds_the_others_up_for_one_exchange() {
    let mut right = watch(&OTHERS.map(|peer| (peer, 0)), 100);
    right.look(at(100, 0), &OTHERS);
    hear(&mut right, OTHERS[0], HOUR_MS as i64, 350);
    assert_eq!(right.look(at(350, 0), &OTHERS), ClockStanding::Stood);
    hear(&mut right, OTHERS[1], 0, 360);
    assert_eq!(right.look(at(360, 0), &OTHERS), ClockStanding::Stood, "two of five");
    hear(&mut right, OTHERS[2], 0, 360);
    assert_eq!(right.look(at(360, 0), &OTHERS), ClockStanding::Within);
    // A peer's clock that is set back says nothing about this machine.
    hear(&mut right, OTHERS[0], 0, 700);
    assert_eq!((right.look(at(700, 0), &OTHERS), right.standstills()), (ClockStanding::Within, 1));
}

#[test]
fn short_pauses_add_up() {
    let mut paused = watch(&OTHERS.map(|peer| (peer, 0)), 100);
    paused.look(at(100, 0), &OTHERS);
    for (pause, ahead_ms) in [(1, 700), (2, 1_400)] {
        OTHERS.iter().for_each(|peer| hear(&mut paused, *peer, ahead_ms, 100 + 250 * pause));
        paused.look(at(100 + 250 * pause, 0), &OTHERS);
    }
    assert_eq!((paused.standing(), paused.standstills()), (ClockStanding::Beyond, 1), "a lease may be over by now");
}
