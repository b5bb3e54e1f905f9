//! Consumer that writes every event to its output exactly once, even if it is killed at any moment.
//!
//! ```sh
//! firstseen up --nodes 3 &
//! firstseen filter create clicks --cluster 127.0.0.1:PORT --window 24h --clock wall --capacity 100k --claims 5s
//! cargo run -p firstseen-client --example consumer -- 127.0.0.1:PORT clicks clicks.txt delivered-1.txt
//! ```
//!
//! Several consumers can share one input file. Each consumer needs an output file of its own. A consumer may be killed
//! with SIGKILL and started again with the same arguments.
//!
//! Each line of the output contains an event and the fence of its claim, which identifies the grant. Two rules make the
//! delivery exactly once. A consumer writes and syncs its lines before it confirms the events. A consumer that is
//! restarted first confirms the last events in its output, because it may have been killed before it confirmed them.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use firstseen_client::{Claiming, Client, Confirming, Delivery, Fence, Filter, Wait};

/// Number of events that the consumer claims at a time. It is also the maximum number of events that are written but not
/// confirmed yet.
const BATCH_EVENTS: usize = 16;
/// Maximum pause before the consumer retries the events that other consumers hold.
const PAUSE_MAX: Duration = Duration::from_millis(200);
const USAGE: &str = "usage: consumer HOST:PORT,... FILTER INPUT OUTPUT [--forget-tail] [--slow MS]

  --forget-tail  do not confirm the last events in the output: if the consumer was killed between
                 a write and its confirmation, these events are written twice
  --slow MS      wait for this time between the write of a batch and its confirmation";

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
    // A program whose output can be older than the window must not do this, because it would record these old events
    // as new ones.
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
        // Other consumers hold these events. If such a consumer is killed before it confirms them, this consumer can
        // claim them when the leases have ended.
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
    /// Claims the events of a batch, writes the claimed events to the output, and confirms them. Adds the events that
    /// must be claimed again later to `held`, for example because another consumer holds them. Returns the maximum time
    /// to wait before these events are claimed again.
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
                // The nodes cannot decide at the moment, so the event is claimed again later.
                Claiming::Undecided(_) => waits.push(*event),
            }
        }
        // If this process was stopped for longer than its lease, another consumer may hold the events by now. The
        // consumer therefore writes nothing unless a quarter of every lease is left.
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

/// Confirms written events. Retries each event until the nodes report whether it is recorded.
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

/// Prints a warning if the lease of an event had ended, because another consumer may have written the event too.
fn warn(event: &str, confirming: Confirming) {
    if let Confirming::LeaseLost(lost) = confirming {
        // If the event is reported as recorded, an earlier confirmation may have recorded it whose reply was lost.
        eprintln!("consumer: {event}: the lease has ended ({lost:?})");
    }
}

/// Output file. Each line contains an event and the fence of its claim.
struct Sink {
    file: File,
    /// Last lines that an earlier run of the consumer has written.
    tail: Vec<(String, Fence)>,
}

impl Sink {
    fn open(path: &Path) -> Result<Self> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        // A consumer that was killed during a write may have left an incomplete line, which is removed.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        file.set_len(whole as u64)?;
        // The events in these lines will be confirmed next, so the lines must survive a loss of power.
        file.sync_data()?;
        let lines = text[..whole].lines().rev().take(BATCH_EVENTS);
        let tail = lines.map(parsed).collect::<Option<_>>().ok_or("the output has lines in a wrong format")?;
        Ok(Self { file, tail })
    }

    /// Appends events to the output. When the function returns, the lines survive a crash of the machine.
    fn append(&mut self, written: &[(String, Fence)]) -> Result<()> {
        let hex = |fence: Fence| fence.to_bytes().map(|byte| format!("{byte:02x}")).concat();
        let lines: String = written.iter().map(|(event, fence)| format!("{event}\t{}\n", hex(*fence))).collect();
        self.file.write_all(lines.as_bytes())?;
        Ok(self.file.sync_data()?)
    }
}

/// Parses a line of the output into an event and a fence. Returns `None` if the line has a different form.
fn parsed(line: &str) -> Option<(String, Fence)> {
    let (event, hex) = line.split_once('\t')?;
    let mut bytes = [0; Fence::BYTES];
    for (byte, index) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(hex.get(index..index + 2)?, 16).ok()?;
    }
    Some((event.to_owned(), Fence::from_bytes(bytes)))
}
