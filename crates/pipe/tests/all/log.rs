//! A simulated log: partitions in memory, transactions that are aborted or whose outcome is lost, and a group that
//! moves partitions at random.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

use firstseen_pipe::{
    Aborted, Bounds, Committed, Delivery, Event, Input, Output, PartitionId, PipeError, Polled, TailEvent, Target,
    WriteError,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::keys::TestMessage;

/// Time that passes until a message arrives.
const MESSAGE_TAKES: Duration = Duration::from_micros(20);

/// A message that was written.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) target: Target,
    pub(crate) partition: PartitionId,
    pub(crate) offset: i64,
}

/// What survives a crash of the pipe.
#[derive(Default)]
pub(crate) struct Stored {
    pub(crate) messages: BTreeMap<PartitionId, Vec<TestMessage>>,
    pub(crate) written: Vec<Written>,
    pub(crate) committed: BTreeMap<PartitionId, i64>,
}

/// The simulated log as one process sees it.
#[derive(Clone)]
pub(crate) struct Log {
    pub(crate) stored: Rc<RefCell<Stored>>,
    state: Rc<RefCell<State>>,
}

struct State {
    /// The simulated clock.
    now: Instant,
    rng: ChaCha8Rng,
    /// Next offset of each assigned partition. `None` until it is resumed.
    next: BTreeMap<PartitionId, Option<i64>>,
    /// Partitions that are assigned with the next poll.
    unassigned: BTreeSet<PartitionId>,
    is_held: bool,
    history: Option<(PartitionId, i64)>,
    /// Messages and positions of the open attempt.
    open: Vec<Written>,
    positions: Vec<(PartitionId, i64)>,
    /// Number of calls after which the process dies.
    calls_left: u32,
    /// Whether the recovery after a lost outcome has yet to be tried again.
    fails_recovery: bool,
    /// The first commit of this partition that goes beyond this offset is aborted, and the group takes the partition away.
    leaves_beyond: Option<(PartitionId, i64)>,
    /// Partition that the next poll takes away.
    leaving: Option<PartitionId>,
}

impl Log {
    /// Returns the view of a new process, which dies after `calls` calls.
    pub(crate) fn start(stored: &Rc<RefCell<Stored>>, seed: u64, calls: u32) -> Self {
        let unassigned = stored.borrow().messages.keys().cloned().collect();
        let state = State {
            now: Instant::now(),
            rng: ChaCha8Rng::seed_from_u64(seed),
            next: BTreeMap::new(),
            unassigned,
            is_held: false,
            history: None,
            open: Vec::new(),
            positions: Vec::new(),
            calls_left: calls,
            fails_recovery: false,
            leaves_beyond: None,
            leaving: None,
        };
        Self { stored: Rc::clone(stored), state: Rc::new(RefCell::new(state)) }
    }

    /// Aborts the first commit of the partition that goes beyond `offset`, and takes the partition away before the commit
    /// can be tried again. The partition comes back later.
    pub(crate) fn take_away_beyond(&self, id: &PartitionId, offset: i64) {
        self.state.borrow_mut().leaves_beyond = Some((id.clone(), offset));
    }

    /// Takes the partition of the open attempt away if that was asked for.
    fn takes_away(&self) -> bool {
        let mut state = self.state.borrow_mut();
        let State { positions, leaves_beyond, leaving, .. } = &mut *state;
        let Some((id, offset)) = leaves_beyond else { return false };
        if !positions.iter().any(|(partition, position)| partition == id && *position > *offset) {
            return false;
        }
        *leaving = leaves_beyond.take().map(|(id, _)| id);
        true
    }

    /// Returns a clock that only the calls of this log advance, so that no test depends on real time.
    pub(crate) fn clock(&self) -> Box<dyn Fn() -> Instant> {
        let state = Rc::clone(&self.state);
        Box::new(move || state.borrow().now)
    }

    /// Counts a call. Returns an error when the process dies.
    fn call(&self) -> Result<(), PipeError> {
        let mut state = self.state.borrow_mut();
        state.calls_left = state.calls_left.saturating_sub(1);
        if state.calls_left == 0 { Err(PipeError::log("the process", "died")) } else { Ok(()) }
    }

    /// Returns the next message or change of the assignment.
    fn next_change(&self) -> Result<Polled<TestMessage>, PipeError> {
        self.call()?;
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        if !state.unassigned.is_empty() {
            let ids: Vec<PartitionId> = std::mem::take(&mut state.unassigned).into_iter().collect();
            state.next.extend(ids.iter().map(|id| (id.clone(), None)));
            return Ok(Polled::Assigned(ids));
        }
        if let Some(id) = state.leaving.take() {
            state.next.remove(&id);
            state.unassigned.insert(id.clone());
            return Ok(Polled::Lost(vec![id]));
        }
        if state.rng.random_bool(0.002) && !state.next.is_empty() {
            let partitions = state.next.len();
            let index = state.rng.random_range(0..partitions);
            let Some(id) = state.next.keys().nth(index).cloned() else { return Ok(Polled::Nothing) };
            state.next.remove(&id);
            state.unassigned.insert(id.clone());
            let is_lost = state.rng.random_bool(0.5);
            return Ok(if is_lost { Polled::Lost(vec![id]) } else { Polled::Revoked(vec![id]) });
        }
        if state.is_held || state.rng.random_bool(0.1) {
            return Ok(Polled::Nothing);
        }
        let stored = self.stored.borrow();
        for (id, next) in &mut state.next {
            let Some(offset) = next else { continue };
            if let Some(message) = stored.messages[id].iter().find(|message| message.offset >= *offset) {
                *next = Some(message.offset + 1);
                return Ok(Polled::Message(id.clone(), message.clone()));
            }
        }
        Ok(Polled::Nothing)
    }

    fn commit_now(&self) {
        let state = &mut *self.state.borrow_mut();
        let mut stored = self.stored.borrow_mut();
        stored.written.append(&mut state.open);
        for (partition, position) in state.positions.drain(..) {
            stored.committed.insert(partition, position);
        }
    }

    fn forget_now(&self) {
        let mut state = self.state.borrow_mut();
        state.open.clear();
        state.positions.clear();
    }
}

impl Input for Log {
    type Message = TestMessage;

    fn poll(&mut self, wait: Duration) -> Result<Polled<TestMessage>, PipeError> {
        let polled = self.next_change()?;
        let took = if let Polled::Nothing = polled { wait } else { MESSAGE_TAKES.min(wait) };
        self.state.borrow_mut().now += took;
        Ok(polled)
    }

    fn hold(&mut self, is_held: bool) -> Result<(), PipeError> {
        self.state.borrow_mut().is_held = is_held;
        Ok(())
    }

    fn committed(&mut self, partition: &PartitionId) -> Result<Committed, PipeError> {
        if self.state.borrow_mut().rng.random_bool(0.3) {
            return Ok(Committed::NotYet);
        }
        let offset = self.stored.borrow().committed.get(partition).copied();
        Ok(offset.map_or(Committed::Never, Committed::Offset))
    }

    fn bounds(&mut self, partition: &PartitionId) -> Result<Bounds, PipeError> {
        let stored = self.stored.borrow();
        let messages = &stored.messages[partition];
        let first = messages.first().map_or(0, |message| message.offset);
        Ok(Bounds { first, end: messages.last().map_or(0, |message| message.offset + 3) })
    }

    fn tail(&mut self, partition: &PartitionId, before: i64) -> Result<Vec<TailEvent>, PipeError> {
        let stored = self.stored.borrow();
        let messages = stored.messages[partition].iter().filter(|message| message.offset < before);
        let all: Vec<TailEvent> =
            messages.map(|message| TailEvent { offset: message.offset, timestamp_ms: message.timestamp_ms }).collect();
        Ok(all[all.len().saturating_sub(20)..].to_vec())
    }

    fn offset_at(&mut self, partition: &PartitionId, time_ms: i64) -> Result<Option<i64>, PipeError> {
        let stored = self.stored.borrow();
        let found = stored.messages[partition].iter().find(|message| message.timestamp_ms >= Some(time_ms));
        Ok(found.map(|message| message.offset))
    }

    fn open_history(&mut self, partition: &PartitionId, from: i64) -> Result<(), PipeError> {
        self.state.borrow_mut().history = Some((partition.clone(), from));
        Ok(())
    }

    fn read_history(
        &mut self,
        to: i64,
        messages_max: usize,
        _: Duration,
        messages: &mut Vec<TestMessage>,
    ) -> Result<bool, PipeError> {
        self.call()?;
        let mut state = self.state.borrow_mut();
        let most = messages_max.min(state.rng.random_range(0..200));
        let Some((partition, next)) = &mut state.history else { return Ok(true) };
        let stored = self.stored.borrow();
        let mut range = stored.messages[partition].iter().filter(|message| (*next..to).contains(&message.offset));
        messages.extend(range.by_ref().take(most).cloned());
        let is_end = range.next().is_none();
        if let Some(last) = messages.last() {
            *next = last.offset + 1;
        }
        Ok(is_end)
    }

    fn resume_at(&mut self, partition: &PartitionId, offset: i64) -> Result<(), PipeError> {
        if let Some(next) = self.state.borrow_mut().next.get_mut(partition) {
            *next = Some(offset);
        }
        Ok(())
    }

    fn suspend(&mut self, partition: &PartitionId) {
        if let Some(next) = self.state.borrow_mut().next.get_mut(partition) {
            *next = None;
        }
    }

    fn ends(&self) -> Vec<(PartitionId, i64)> {
        Vec::new()
    }

    fn leave(&mut self) {}
}

impl Output<TestMessage> for Log {
    fn begin(&mut self) -> Result<(), Delivery> {
        self.forget_now();
        Ok(())
    }

    fn write(&mut self, event: &Event<'_, TestMessage>) -> Result<(), WriteError> {
        let mut state = self.state.borrow_mut();
        if state.rng.random_bool(0.0005) {
            return Err(WriteError::Abort("the broker is away".to_owned()));
        }
        let partition = event.partition.clone();
        state.open.push(Written { target: event.target, partition, offset: event.message.offset });
        Ok(())
    }

    fn add_positions(&mut self, positions: &[(PartitionId, i64)]) -> Result<(), Aborted> {
        self.state.borrow_mut().positions = positions.to_vec();
        Ok(())
    }

    fn commit(&mut self) -> Delivery {
        if self.takes_away() {
            return self.abort(Aborted { reason: "the group has a new member".to_owned(), is_fenced: true });
        }
        let fate = self.state.borrow_mut().rng.random_range(0..30);
        match fate {
            0 => self.abort(Aborted { reason: "fenced".to_owned(), is_fenced: true }),
            1 => {
                self.commit_now();
                self.state.borrow_mut().fails_recovery = true;
                Delivery::Unknown("no answer, but committed".to_owned())
            }
            2 => {
                self.forget_now();
                Delivery::Unknown("no answer, and aborted".to_owned())
            }
            _ => {
                self.commit_now();
                Delivery::Committed
            }
        }
    }

    fn abort(&mut self, aborted: Aborted) -> Delivery {
        self.forget_now();
        Delivery::Aborted(aborted)
    }

    fn recover(&mut self) -> Result<(), String> {
        if std::mem::take(&mut self.state.borrow_mut().fails_recovery) {
            return Err("the brokers are away".to_owned());
        }
        Ok(())
    }
}
