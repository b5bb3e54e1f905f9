//! `firstseen filter set-clock`: the filter begins anew, with a clock that the next event sets.
//!
//! A clock cannot go back by itself: the events that were recorded since it went wrong lie in units that are yet to
//! come. So another filter of the same definition follows under the name, and the former one is dropped at once.
//!
//! Promises: the command prints the cost before it changes anything. Must not know: how producers find the new filter.

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
    // Where the cluster refuses the change, the error comes before the operator is asked to agree.
    ask(operator, former, filter, true).await?;
    agreed(*yes, &(cost(filter) + &claims::cost(operator, &map, filter).await))?;
    let number = ask(operator, former, filter, false).await?;
    writeln!(
        out,
        "filter {name}, number {number}: its clock begins anew with the next event; number {former} is gone, with what it \
         remembered"
    )?;
    Ok(())
}

fn cost(filter: &FilterRecord) -> String {
    let group = &filter.definition.group;
    let events = group.capacity_events.map(|events| events * u64::from(filter.definition.slicing.groups()));
    let up_to = events.map_or_else(String::new, |events| format!(", up to {} events", Count(events)));
    format!(
        "filter `{}`: its clock begins anew, and what it remembers is forgotten: all that was seen within its window ({}{up_to}) \
         is first-seen once more",
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
