//! A consumer that may be killed at any moment, and whose output has every event once.
//!
//! ```sh
//! firstseen up --nodes 3 &
//! firstseen filter create clicks --cluster 127.0.0.1:PORT --window 24h --clock wall --capacity 100k --claims 5s
//! cargo run -p firstseen-client --example consumer -- 127.0.0.1:PORT clicks clicks.txt delivered-1.txt
//! ```
//!
//! Start as many as you like over one input, each with an output of its own; kill any of them with SIGKILL, and start it again.
//! A line of the output is an event and the fence of its claim. That is what makes it exactly once: lines are written and
//! synced before they are confirmed, and a consumer that starts again confirms the last ones that its output has.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use firstseen_client::{Claiming, Client, Confirming, Delivery, Fence, Filter, Wait};

/// Events that are claimed at a time, and so the most that are written and not confirmed.
const BATCH_EVENTS: usize = 16;
/// How long a pause between two passes over what others hold may be.
const PAUSE_MAX: Duration = Duration::from_millis(200);
const USAGE: &str = "usage: consumer HOST:PORT,... FILTER INPUT OUTPUT [--forget-tail] [--slow MS]

  --forget-tail  do not confirm what the output has at its end: a consumer that was killed between
                 a write and its confirm has these events written twice
  --slow MS      take so long between the write of a batch and its confirm";

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("consumer: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<()> {
    let [cluster, name, input, output, flags @ ..] = args else { return Err(USAGE.into()) };
    let (mut confirms_tail, mut slow, mut flags) = (true, Duration::ZERO, flags.iter());
    while let Some(flag) = flags.next() {
        match flag.as_str() {
            "--forget-tail" => confirms_tail = false,
            "--slow" => slow = Duration::from_millis(flags.next().ok_or(USAGE)?.parse()?),
            _ => return Err(USAGE.into()),
        }
    }
    let client = Client::connect(cluster.split(',')).wait()?;
    let filter = client.filter(name).wait()?;
    let lease = filter.info().lease_max.ok_or("the filter was created without --claims")?;
    let mut sink = Sink::open(Path::new(output))?;
    // Where the last lines are older than the window, leave that out: they would be recorded anew.
    if confirms_tail {
        confirm(&filter, &sink.tail)?;
    }
    let consumer = Consumer { filter, lease, slow };
    let input = std::fs::read_to_string(input)?;
    let mut left: Vec<&str> = input.lines().collect();
    while !left.is_empty() {
        let mut held = Vec::new();
        let mut pause = PAUSE_MAX;
        for batch in left.chunks(BATCH_EVENTS) {
            pause = pause.min(consumer.consume(batch, &mut sink, &mut held)?);
        }
        // Others hold these: they confirm them, or are killed, and then the events are to be had when the leases are over.
        left = held;
        if !left.is_empty() {
            std::thread::sleep(pause);
        }
    }
    Ok(())
}

struct Consumer {
    filter: Filter,
    lease: Duration,
    slow: Duration,
}

impl Consumer {
    /// Claims, writes and confirms a batch; events that others hold go to `held`. Returns for how long at most.
    fn consume<'a>(&self, batch: &[&'a str], sink: &mut Sink, held: &mut Vec<&'a str>) -> Result<Duration> {
        let mut deliveries: Vec<Delivery> = Vec::new();
        let mut written = Vec::new();
        let mut waits = Vec::new();
        let mut pause = PAUSE_MAX;
        for (event, claiming) in batch.iter().zip(self.filter.claim_batch(batch, self.lease).wait()?) {
            match claiming {
                Claiming::Claimed(claim) => {
                    written.push(((*event).to_owned(), claim.fence));
                    deliveries.push(claim.deliver());
                }
                Claiming::Duplicate => {}
                Claiming::InProgress(wait) => {
                    pause = pause.min(wait);
                    waits.push(*event);
                }
                // Nodes are in trouble, and say nothing: they are asked again.
                Claiming::Undecided(_) => waits.push(*event),
            }
        }
        // A consumer that was stopped for as long as its lease does not hold what it claimed any more.
        if deliveries.iter().any(|delivery| delivery.left() < self.lease / 4) {
            held.extend(batch);
            return Ok(pause);
        }
        held.extend(waits);
        if deliveries.is_empty() {
            return Ok(pause);
        }
        sink.append(&written)?;
        std::thread::sleep(self.slow);
        let (events, fences): (Vec<&str>, Vec<Fence>) =
            written.iter().map(|(event, fence)| (event.as_str(), *fence)).unzip();
        let confirmed = self.filter.confirm_batch(&events, &fences).wait()?;
        let mut again = Vec::new();
        for (written, confirming) in written.into_iter().zip(confirmed) {
            match confirming {
                Confirming::Undecided(_) => again.push(written),
                confirming => warn(&written.0, confirming),
            }
        }
        confirm(&self.filter, &again)?;
        Ok(pause)
    }
}

/// Confirms what was written, until nodes say what became of it.
fn confirm(filter: &Filter, written: &[(String, Fence)]) -> Result<()> {
    for (event, fence) in written {
        loop {
            match filter.confirm_batch(&[event], &[*fence]).wait()?.pop() {
                Some(Confirming::Undecided(_)) | None => std::thread::sleep(PAUSE_MAX),
                Some(confirming) => break warn(event, confirming),
            }
        }
    }
    Ok(())
}

/// Says where an event may be written twice.
fn warn(event: &str, confirming: Confirming) {
    if let Confirming::LeaseLost(lost) = confirming {
        // That it is recorded may be the work of a confirm whose answer was lost.
        eprintln!("consumer: {event}: the lease was over ({lost:?})");
    }
}

/// A file whose lines are events with the fences of their claims.
struct Sink {
    file: File,
    /// The last lines of an earlier consumer.
    tail: Vec<(String, Fence)>,
}

impl Sink {
    fn open(path: &Path) -> Result<Self> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        // A consumer that was killed within a write may have left a part of a line.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        file.set_len(whole as u64)?;
        // What is confirmed now must not be lost with the machine's power.
        file.sync_data()?;
        let lines = text[..whole].lines().rev().take(BATCH_EVENTS);
        let tail = lines.map(parsed).collect::<Option<_>>().ok_or("the output has lines of another kind")?;
        Ok(Self { file, tail })
    }

    /// Once this is over, what was written outlives a crash.
    fn append(&mut self, written: &[(String, Fence)]) -> Result<()> {
        let hex = |fence: Fence| fence.to_bytes().map(|byte| format!("{byte:02x}")).concat();
        let lines: String = written.iter().map(|(event, fence)| format!("{event}\t{}\n", hex(*fence))).collect();
        self.file.write_all(lines.as_bytes())?;
        Ok(self.file.sync_data()?)
    }
}

/// The event and the fence of a line.
fn parsed(line: &str) -> Option<(String, Fence)> {
    let (event, hex) = line.split_once('\t')?;
    let mut bytes = [0; Fence::BYTES];
    for (byte, index) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(hex.get(index..index + 2)?, 16).ok()?;
    }
    Some((event.to_owned(), Fence::from_bytes(bytes)))
}
