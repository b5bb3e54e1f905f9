//! Commands of groups on their way to those who carry them out.
//!
//! Promises: a group's commands are handed on in order, by way of its journal where it has one; those of a group that
//! gathers are handed on when the owner says that what has come in is worked on. Must not know: why commands are given.

use std::collections::BTreeSet;

use firstseen_routing::{Command, GroupOwner};

use super::kept::GroupJournals;
use crate::group_key::GroupKey;

/// Groups whose commands gather.
#[derive(Default)]
pub(super) struct Gathered {
    groups: BTreeSet<GroupKey>,
    /// A buffer for the commands of one group.
    scratch: Vec<Command>,
}

impl Gathered {
    /// Hands on what a group has set off.
    pub(super) fn hand_on(
        &mut self,
        kept: &mut GroupJournals,
        key: GroupKey,
        group: &mut GroupOwner,
        commands: &mut Vec<Command>,
    ) {
        if kept.has(key) {
            group.take_commands(&mut self.scratch);
            kept.pass(key, &mut self.scratch, commands);
        } else {
            group.take_commands(commands);
        }
    }

    /// The same, or later where the group gathers.
    pub(super) fn hand_on_later(
        &mut self,
        kept: &mut GroupJournals,
        key: GroupKey,
        group: &mut GroupOwner,
        commands: &mut Vec<Command>,
    ) {
        if group.gathers() {
            self.groups.insert(key);
        } else {
            self.hand_on(kept, key, group, commands);
        }
    }

    /// A group whose commands are to be handed on.
    pub(super) fn next(&mut self) -> Option<GroupKey> {
        self.groups.pop_first()
    }

    /// Whether no commands have gathered.
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}
