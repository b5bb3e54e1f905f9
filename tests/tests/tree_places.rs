//! Places that are added to a tree on real processes while producers continue, and removed again.

use std::ops::Range;

use firstseen_client::{Client, ConnectOptions, Reason, Verdict, Wait};

use crate::asking::{ask, count};
use crate::crash_loop::Producer;
use crate::local_cluster::eventually;
use crate::own_node::OwnNode;
use crate::three_sites::{SITES, at_site_of, create, nodes_at_sites};
use crate::working::Working;

/// Number of keys of each producer. Producers have different keys.
const KEYS_OF_PRODUCER: u64 = 1 << 32;
const NEW_SITE: &str = "lima";

#[test]
fn a_site_is_added_while_producers_continue_and_no_event_is_new_twice() {
    let nodes = nodes_at_sites();
    create(&nodes, "clicks", "--tree dense");
    let mut working = Vec::new();
    for (number, (node, site)) in (0..).zip(nodes.iter().zip(SITES)) {
        let (client, filter) = at_site_of(node, site, "clicks");
        working.push(Working::start(Producer::new(client, filter, number * KEYS_OF_PRODUCER)));
    }
    working.iter().for_each(|producer| producer.await_replies(500));

    let lima = OwnNode::start(NEW_SITE, &format!("site = \"{NEW_SITE}\"\n"));
    let at = &nodes[0].address;
    eventually("a fourth node", || {
        nodes[0].folder.run(&format!("cluster join {} --cluster {at}", lima.address)).code == Some(0)
    });
    let typo = nodes[0].folder.run(&format!("filter place add clicks limaa --cluster {at}"));
    typo.fails(2, &["site `limaa`", "no running nodes"]);
    let added = nodes[0].folder.run(&format!("filter place add clicks {NEW_SITE} --fold 1 --cluster {at}")).ok();
    assert!(added.out.contains("it asks root about each event that it does not know yet"), "{}", added.out);
    assert!(added.out.contains("clicks@lima"), "{}", added.out);

    let (lima_client, at_lima) = at_site_of(&lima, NEW_SITE, "clicks");
    let new = KEYS_OF_PRODUCER * 9..KEYS_OF_PRODUCER * 9 + 200;
    eventually("the new site answers", || {
        let verdicts = ask(&at_lima, new.clone());
        count(&verdicts, Verdict::Duplicate) == 200
    });
    working.iter().for_each(|producer| producer.await_replies(500));
    let producers: Vec<Producer> = working.into_iter().map(Working::end).collect();
    let of_lima = Producer::new(lima_client, at_lima, 0);
    for (producer, site) in producers.iter().zip(SITES) {
        assert_eq!(producer.forgotten(), 0, "at {site}");
        let keys: Vec<u64> = producer.keys().collect();
        eventually("the keys of each site are known at the new one", || {
            let verdicts = of_lima.verdicts(&keys);
            assert_eq!(count(&verdicts, Verdict::FirstSeen), 0, "keys of {site}");
            count(&verdicts, Verdict::Duplicate) == keys.len() as u64
        });
        let elsewhere = producer.verdicts(&new.clone().collect::<Vec<u64>>());
        assert_eq!(count(&elsewhere, Verdict::Duplicate), 200, "keys of the new site, at {site}");
    }

    let unsure = nodes[0].folder.run(&format!("filter place remove clicks {NEW_SITE} --cluster {at}"));
    unsure.fails(2, &["--yes"]);
    nodes[0].folder.run(&format!("filter place remove clicks {NEW_SITE} --yes --cluster {at}")).ok();
    let options = ConnectOptions { site: Some(NEW_SITE.into()), ..ConnectOptions::from([at.clone()]) };
    let late = Client::connect(options).wait().expect("a client");
    eventually("no place of this name", || {
        late.filter("clicks").wait().is_err_and(|error| error.to_string().contains("no place `lima`"))
    });
    let known = producers[0].verdicts(&new.clone().collect::<Vec<u64>>());
    assert_eq!(count(&known, Verdict::Duplicate), 200, "the root knows what the place knew");
    let of_removed_place = Verdict::Undecided(Reason::UnknownFilter);
    eventually("a producer at the removed place learns of it", || {
        count(&of_lima.verdicts(&new.clone().collect::<Vec<u64>>()), of_removed_place) == 200
    });
}

/// The levels of the tree do not have consecutive numbers in the backup, but do in the cluster that restores it.
#[test]
fn a_backup_contains_places_that_were_added_later() {
    let nodes = nodes_at_sites();
    let at = &nodes[0].address;
    let run = |command: &str| nodes[0].folder.run(&format!("{command} --cluster {at}")).ok();
    create(&nodes, "clicks", "--tree sparse");
    create(&nodes, "other", "");
    run("filter place add clicks harbour --sites oslo");
    create(&nodes, "third", "");
    run("filter place add clicks quay --parent harbour --sites oslo");

    let asked = |keys: Range<u64>, wanted: Verdict| {
        let (_client, at_quay) = at_site_of(&nodes[2], "quay", "clicks");
        eventually("every key has this verdict", || count(&ask(&at_quay, keys.clone()), wanted) == 100);
    };
    asked(0..100, Verdict::Duplicate);
    run("cluster backup --out backup");
    run("filter drop clicks --yes");
    run("filter drop other --yes");
    run("filter drop third --yes");
    run("cluster restore backup --yes");
    let shown = run("filter describe clicks").out;
    let rows: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    let is_parent_and_child = |rows: &[Vec<&str>]| {
        rows[0].starts_with(&["harbour", "clicks@harbour", "1"]) && rows[1].starts_with(&["quay", "clicks@quay", "2"])
    };
    assert!(rows.windows(2).any(is_parent_and_child), "{shown}");
    asked(0..100, Verdict::Duplicate);
}
