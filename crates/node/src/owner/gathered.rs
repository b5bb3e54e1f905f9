//! Collects the commands that slice groups issue, and passes them on for execution.
//!
//! # Guarantees
//! - The commands of a group are passed on in order. If the group has a journal, they pass through the journal first.
//! - A group may collect its commands until the owner has processed all work that has arrived. Several events then
//!   share one message.

use std::collections::BTreeSet;

use firstseen_routing::{Command, GroupOwner};

use super::kept::GroupJournals;
use crate::group_key::GroupKey;

/// Slice groups that have collected commands.
#[derive(Default)]
pub(super) struct Gathered {
    groups: BTreeSet<GroupKey>,
    /// Reusable buffer for the commands of one group.
    scratch: Vec<Command>,
}

impl Gathered {
    /// Passes on all commands that a group has issued.
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

    /// Passes on the commands of a group, or notes the group for later if it collects its commands.
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

    /// Returns a group whose collected commands must now be passed on.
    pub(super) fn next(&mut self) -> Option<GroupKey> {
        self.groups.pop_first()
    }

    /// Returns whether no group has collected commands.
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}
