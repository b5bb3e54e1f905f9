//! Implements `firstseen filter set-clock`, which restarts a filter with a clock that the next event sets.
//!
//! The clock of a filter is the greatest event time that the filter has accepted. If an event with a wrong time far in
//! the future was accepted, the clock is too far ahead. The clock cannot simply be set back, because the events that
//! were recorded since then are stored with times of the future. The command therefore replaces the filter with an
//! empty filter of the same name and definition, and drops the old filter at once.
//!
//! The command prints the consequences before it changes anything. This module does not depend on how producers find
//! the new filter.

use std::io::Write;

use anyhow::Context;
use firstseen_routing::{FilterId, FilterRecord};
use firstseen_wire::map::{definition_json, filter_record};
use firstseen_wire::proto::admin::{AlterFilterReply, AlterFilterRequest};

use super::{ConfirmedArgs, agreed, find};
use crate::cluster;
use crate::cluster::claims;
use crate::cluster::connect::{Operator, fresh_id};
use crate::text::size::Count;

/// Runs `firstseen filter set-clock`.
pub(super) async fn run(args: &ConfirmedArgs, operator: &Operator, out: &mut dyn Write) -> anyhow::Result<()> {
    let ConfirmedArgs { name, yes, .. } = args;
    let map = cluster::status::ask(operator).await?.map;
    let (former, filter) = find(&map, name)?;
    // The cluster checks the change first, so that an error is shown before the operator is asked for confirmation.
    ask(operator, former, filter, true).await?;
    agreed(*yes, &(cost(filter) + &claims::cost(operator, &map, filter).await))?;
    let number = ask(operator, former, filter, false).await?;
    writeln!(
        out,
        "filter {name}, number {number}: the next event sets its clock; number {former} is dropped, with all events \
         that it remembered"
    )?;
    Ok(())
}

fn cost(filter: &FilterRecord) -> String {
    let group = &filter.definition.group;
    let events = group.capacity_events.map(|events| events * u64::from(filter.definition.slicing.groups()));
    let up_to = events.map_or_else(String::new, |events| format!(", up to {} events", Count(events)));
    format!(
        "filter `{}`: its clock starts again, and it forgets all events: every event seen within its window \
         ({}{up_to}) is first-seen once more",
        filter.name, group.window
    )
}

async fn ask(operator: &Operator, former: FilterId, filter: &FilterRecord, is_plan: bool) -> anyhow::Result<FilterId> {
    let request = AlterFilterRequest {
        command_id: fresh_id().into(),
        name: filter.name.clone(),
        filter_id: former.0,
        definition_json: definition_json(&filter.definition),
        new_secret: false,
        secret: Vec::new().into(),
        plan: is_plan,
        forgets: true,
    };
    let reply = operator.call(async |mut client| client.alter_filter(request.clone()).await).await?;
    let AlterFilterReply { filter, .. } = reply;
    let (number, _) = filter_record(filter.context("the node does not say what it made")?)?;
    Ok(number)
}
