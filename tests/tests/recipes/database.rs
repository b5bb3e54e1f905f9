//! Recipe for consumers that deliver events by a database transaction, such as a charge to an account. In the same
//! transaction, the consumer stores the event together with the fence of its claim. A consumer that dies after the
//! charge therefore leaves a row in the database, with which the event can be confirmed later. Each event is delivered
//! exactly once, even if consumers die at any step.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use firstseen_client::{Claiming, Confirming, Fence, Filter, Wait};
use rusqlite::{Connection, params};

use super::{Fate, LEASE, filter, stage};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Table of an account, and table of the events that it has been charged for within the window.
const TABLES: &str = "
    CREATE TABLE account (balance INTEGER NOT NULL);
    CREATE TABLE delivered (
        event BLOB PRIMARY KEY, fence BLOB NOT NULL, confirmed INTEGER NOT NULL DEFAULT 0,
        at_s INTEGER NOT NULL DEFAULT (unixepoch())
    );
    INSERT INTO account VALUES (0);
";
/// Window of the filter, in seconds.
const WINDOW_S: u64 = 3600;

const CONFIRMED: &str = "UPDATE delivered SET confirmed = 1 WHERE event = ?1";

/// Charges an event that this consumer has claimed, and inserts a row for the event into the database. If the database
/// already has such a row, the function charges nothing. This happens, for example, if this consumer was stopped for
/// longer than its lease and another consumer has charged the event in the meantime.
///
/// A row whose window has passed does not count, because it belongs to an earlier event with the same key.
fn charge(database: &mut Connection, event: &[u8], cents: i64, fence: Fence) -> rusqlite::Result<bool> {
    let transaction = database.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    transaction
        .execute("DELETE FROM delivered WHERE event = ?1 AND at_s <= unixepoch() - ?2", params![event, WINDOW_S])?;
    let is_new = transaction.execute(
        "INSERT INTO delivered (event, fence) VALUES (?1, ?2) ON CONFLICT (event) DO NOTHING",
        params![event, fence.to_bytes()],
    )? == 1;
    if is_new {
        transaction.execute("UPDATE account SET balance = balance + ?1", params![cents])?;
    }
    transaction.commit()?;
    Ok(is_new)
}

/// Confirms events that were charged but may not be recorded in the filter, because a consumer died between the charge
/// and the confirmation.
///
/// The function first removes the rows whose window has passed. If a key occurs again after its window, it is a new
/// event, which must be charged. The old row must therefore neither prevent the charge nor confirm the new event.
fn confirm_charged(clicks: &Filter, database: &Connection) -> Result<()> {
    database.execute("DELETE FROM delivered WHERE at_s <= unixepoch() - ?1", params![WINDOW_S])?;
    let mut open = database.prepare("SELECT event, fence FROM delivered WHERE NOT confirmed")?;
    let rows = open.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (event, fence) in rows.collect::<rusqlite::Result<Vec<(Vec<u8>, [u8; Fence::BYTES])>>>()? {
        let confirmed = clicks.confirm_batch(&[&event], &[Fence::from_bytes(fence)]).wait()?;
        // A consumer that now holds the event finds the row, and confirms the event too.
        if !matches!(confirmed[..], [Confirming::Undecided(_)]) {
            database.execute(CONFIRMED, params![event])?;
        }
    }
    Ok(())
}

fn open(path: &Path) -> Result<Connection> {
    let database = Connection::open(path)?;
    database.busy_timeout(Duration::from_secs(30))?;
    Ok(database)
}

/// Runs a consumer until it ends or dies. Returns `false` if it died.
fn live(clicks: &Filter, path: &Path, clicked: &[(Vec<u8>, i64)], fate: &mut Fate) -> Result<bool> {
    let mut database = open(path)?;
    confirm_charged(clicks, &database)?;
    let mut left: Vec<&(Vec<u8>, i64)> = clicked.iter().collect();
    while !left.is_empty() {
        let mut held = Vec::new();
        for click @ (event, cents) in left {
            match clicks.claim(event, LEASE).wait()? {
                Claiming::Claimed(claim) => {
                    let delivery = claim.deliver();
                    if fate.ends(40) {
                        return Ok(false);
                    }
                    charge(&mut database, event, *cents, delivery.fence)?;
                    if fate.ends(40) {
                        return Ok(false);
                    }
                    match delivery.confirm().wait()? {
                        Confirming::Undecided(_) => held.push(click),
                        _ => drop(database.execute(CONFIRMED, params![event])?),
                    }
                }
                Claiming::Duplicate => {}
                Claiming::InProgress(_) | Claiming::Undecided(_) => held.push(click),
            }
        }
        left = held;
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(true)
}

#[test]
fn a_database_that_keeps_fences_is_charged_once_for_each_event() -> Result<()> {
    const EVENTS: i64 = 150;
    let node = stage();
    let path = node.folder.path("accounts.db");
    open(&path)?.execute_batch(TABLES)?;
    let clicked: Vec<(Vec<u8>, i64)> = (0..EVENTS).map(|event| (event.to_le_bytes().to_vec(), event + 1)).collect();
    let deaths = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for consumer in 0..3 {
            let (node, path, clicked, deaths) = (&node, &path, &clicked, &deaths);
            scope.spawn(move || {
                let (_client, clicks) = filter(node);
                let mut fate = Fate(consumer);
                while !live(&clicks, path, clicked, &mut fate).expect("a life") {
                    deaths.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let balance: i64 = open(&path)?.query_row("SELECT balance FROM account", [], |row| row.get(0))?;
    assert_eq!(balance, EVENTS * (EVENTS + 1) / 2, "after {deaths:?} deaths");
    assert!(deaths.into_inner() > 3);
    Ok(())
}

/// Checks a consumer that is stopped for longer than its lease, and then charges an event that another consumer has
/// claimed.
#[test]
fn a_charge_by_a_claim_that_another_one_has_got_meanwhile_changes_nothing() -> Result<()> {
    let node = stage();
    let (_client, clicks) = filter(&node);
    let mut database = open(&node.folder.path("accounts.db"))?;
    database.execute_batch(TABLES)?;
    let claimed = || loop {
        match clicks.claim(b"click", LEASE).wait().expect("a call") {
            Claiming::Claimed(claim) => break claim.deliver(),
            Claiming::InProgress(wait) => std::thread::sleep(wait),
            other => panic!("{other:?}"),
        }
    };
    let (stopped, other) = (claimed(), claimed());
    assert!(stopped.fence < other.fence);
    assert!(charge(&mut database, b"click", 5, other.fence)?);
    assert!(!charge(&mut database, b"click", 5, stopped.fence)?);
    confirm_charged(&clicks, &database)?;
    assert!(matches!(clicks.claim(b"click", LEASE).wait()?, Claiming::Duplicate));
    let balance: i64 = database.query_row("SELECT balance FROM account", [], |row| row.get(0))?;
    assert_eq!(balance, 5);
    Ok(())
}

/// Checks an event that occurs again after the window of its first occurrence has passed. The second occurrence counts
/// as a new event, so it must be charged, and the database row of the first occurrence must not confirm it.
#[test]
fn a_row_whose_window_is_over_stands_for_nothing() -> Result<()> {
    let node = stage();
    let (_client, clicks) = filter(&node);
    let mut database = open(&node.folder.path("accounts.db"))?;
    database.execute_batch(TABLES)?;
    let old = Fence::from_bytes([0; Fence::BYTES]);
    assert!(charge(&mut database, b"click", 5, old)?);
    database.execute("UPDATE delivered SET at_s = at_s - ?1", params![WINDOW_S])?;
    confirm_charged(&clicks, &database)?;
    let Claiming::Claimed(claim) = clicks.claim(b"click", LEASE).wait()? else {
        panic!("it was recorded for the former")
    };
    assert!(charge(&mut database, b"click", 5, claim.deliver().fence)?);
    Ok(())
}

#[test]
fn an_event_that_comes_again_after_its_window_is_charged_again() -> Result<()> {
    let mut database = Connection::open_in_memory()?;
    database.execute_batch(TABLES)?;
    let (event, cents) = (b"a click", 7);
    let fence = Fence::from_bytes([1; Fence::BYTES]);
    assert!(charge(&mut database, event, cents, fence)?);
    assert!(!charge(&mut database, event, cents, fence)?, "within a window there is one charge");
    database.execute("UPDATE delivered SET at_s = at_s - ?1", params![WINDOW_S])?;
    assert!(charge(&mut database, event, cents, fence)?, "the consumer has not been started anew since");
    assert_eq!(database.query_row("SELECT balance FROM account", [], |row| row.get::<_, i64>(0))?, 2 * cents);
    Ok(())
}
