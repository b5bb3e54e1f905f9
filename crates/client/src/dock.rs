//! The dock of one node: callers lay down work there, and the node's courier takes it.
//!
//! Promises: all work on it counts among the client's queued events. Must not know: streams.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use firstseen_routing::NodeId;
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::Instant;

use crate::call::lock;
use crate::intake::FilterCore;
use crate::piece::Piece;
use crate::traffic::TrafficMeter;

/// How often other tasks get their turn before the courier takes what was laid down.
const TURNS_MAX: usize = 4;

/// The target of a courier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A node, at its own address.
    Node(NodeId),
    /// Any node that can be reached: it relays batches to the nodes that own their slices.
    Relay,
}

/// A queue for the dock's node: a lane of a filter.
pub(crate) struct FilterLane<Handle = Arc<FilterCore>> {
    pub(crate) filter: Handle,
    pub(crate) lane: usize,
}

/// The work of one courier.
pub(crate) struct Dock {
    pub(crate) target: Target,
    /// Queues from which a batch is due.
    ready: Mutex<VecDeque<FilterLane>>,
    /// Batches that other couriers have made.
    inbox: Mutex<VecDeque<Piece>>,
    /// All queues for this node.
    lanes: Mutex<Vec<FilterLane<Weak<FilterCore>>>>,
    /// Events in them.
    queued_events: AtomicUsize,
    pub(crate) wake: Notify,
    pub(crate) traffic: TrafficMeter,
}

impl Dock {
    pub(crate) fn new(target: Target) -> Self {
        Self {
            target,
            ready: Mutex::default(),
            inbox: Mutex::default(),
            lanes: Mutex::default(),
            queued_events: AtomicUsize::new(0),
            wake: Notify::new(),
            traffic: TrafficMeter::default(),
        }
    }

    pub(crate) fn add_lane(&self, filter: Weak<FilterCore>, lane: usize) {
        lock(&self.lanes).push(FilterLane { filter, lane });
    }

    pub(crate) fn list(&self, filter: Arc<FilterCore>, lane: usize) {
        lock(&self.ready).push_back(FilterLane { filter, lane });
        self.wake.notify_one();
    }

    pub(crate) fn next_ready(&self) -> Option<FilterLane> {
        lock(&self.ready).pop_front()
    }

    pub(crate) fn deliver(&self, piece: Piece) {
        lock(&self.inbox).push_back(piece);
        self.wake.notify_one();
    }

    pub(crate) fn next_piece(&self) -> Option<Piece> {
        lock(&self.inbox).pop_front()
    }

    /// Batches in the inbox whose time is over.
    pub(crate) fn take_expired(&self, now: Instant) -> Vec<Piece> {
        let mut inbox = lock(&self.inbox);
        if inbox.iter().all(|piece| piece.deadline > now) {
            return Vec::new();
        }
        let (expired, kept) = std::mem::take(&mut *inbox).into_iter().partition(|piece| piece.deadline <= now);
        *inbox = Vec::into(kept);
        expired
    }

    pub(crate) fn count_queued(&self, added: usize, removed: usize) {
        self.queued_events.fetch_add(added, Ordering::Relaxed);
        self.queued_events.fetch_sub(removed, Ordering::Relaxed);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.queued_events.load(Ordering::Relaxed) == 0 && lock(&self.inbox).is_empty()
    }

    /// Lets others run who have something to lay down, for as long as more comes of that, and a few turns at most.
    pub(crate) async fn settle(&self) {
        let mut before = 0;
        for _ in 0..TURNS_MAX {
            let queued = self.queued_events.load(Ordering::Relaxed);
            if queued == before {
                return;
            }
            before = queued;
            yield_now().await;
        }
    }

    /// All queues of filters that are still in use.
    pub(crate) fn lanes(&self) -> Vec<FilterLane> {
        let mut lanes = lock(&self.lanes);
        lanes.retain(|of| of.filter.strong_count() > 0);
        let in_use = |of: &FilterLane<_>| Some(FilterLane { filter: Weak::upgrade(&of.filter)?, lane: of.lane });
        lanes.iter().filter_map(in_use).collect()
    }

    /// Gives up all work that waits here.
    pub(crate) fn clear(&self) {
        let pieces = std::mem::take(&mut *lock(&self.inbox));
        let ready = std::mem::take(&mut *lock(&self.ready));
        drop((pieces, ready));
    }
}
