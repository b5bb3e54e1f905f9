//! Implements `firstseen top`, which shows the state of a cluster in a terminal and updates it continuously. The
//! terminal is restored when the command ends, even after an error. With `--once`, the command prints the state once as
//! plain text and needs no terminal.

mod bars;
mod draw;
mod plain;
mod source;
mod tables;
mod view;

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use crate::exit::UsageError;
use crate::terminal::stop::Stop;
use source::Source;
use view::View;

/// Interval between two overviews.
const EVERY: Duration = Duration::from_secs(1);

/// Text below the flags in the help.
const KEYS: &str = "Keys: q ends it, tab and shift-tab choose a pane, the arrows, page up and page down move in it, s sorts the \
                    filters, p pauses.\n\
                    The node must have a console (console = true in [http]; `firstseen up` sets it). From another machine: ssh \
                    -L 7401:127.0.0.1:7401 HOST";

/// Flags of `firstseen top`.
#[derive(Debug, Args)]
#[command(after_help = KEYS)]
pub struct TopArgs {
    /// Address of a node's HTTP server. The default is the first node of `firstseen up` in this folder, or
    /// 127.0.0.1:7401
    #[arg(long, value_name = "HOST:PORT")]
    pub http: Option<String>,
    /// Print the overview once, as plain text
    #[arg(long)]
    pub once: bool,
    /// Print the overview once, as the JSON document of docs/how-to/console.md
    #[arg(long)]
    pub json: bool,
}

/// Runs `firstseen top`.
///
/// # Errors
/// Returns an error if the node does not answer or has no console, or if there is no terminal.
pub fn run(args: &TopArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let address = args.http.clone().or_else(|| crate::up::first_http(Path::new(crate::up::DATA)));
    let address = address.unwrap_or_else(|| "127.0.0.1:7401".to_owned());
    let mut source = Source::at(address);
    if args.json {
        let document: serde_json::Value = serde_json::from_str(&source.settled()?).context("the answer is no JSON")?;
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&document)?)?);
    }
    if args.once {
        let overview = source::read(&source.settled()?)?;
        return Ok(out.write_all(plain::text(&overview).as_bytes())?);
    }
    if !std::io::stdout().is_terminal() {
        return Err(UsageError("this is no terminal: say --once or --json".to_owned()).into());
    }
    // The first overview is read before the screen is taken over, so that an error at the start is shown on the normal
    // terminal.
    let first = source::read(&source.text()?)?;
    let mut view = View::of(first);
    let stop = Stop::on_signal(|| {})?;
    // Creating the terminal this way also restores it after a panic.
    let mut terminal = ratatui::try_init().context("the terminal cannot be used")?;
    let looked = look(&mut terminal, &mut view, &source, &stop);
    ratatui::restore();
    looked
}

/// Shows overviews until the user ends the command.
fn look(terminal: &mut DefaultTerminal, view: &mut View, source: &Source, stop: &Stop) -> anyhow::Result<()> {
    let overviews = source.every(EVERY);
    while !stop.is_set() {
        while let Ok(overview) = overviews.try_recv() {
            view.take(overview);
        }
        terminal.draw(|frame| draw::draw(frame, view))?;
        let until = Instant::now() + EVERY / 4;
        while event::poll(until.saturating_duration_since(Instant::now()))? {
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    if view.key(key).is_break() {
                        return Ok(());
                    }
                    break;
                }
                Event::Resize(..) => break,
                _ => {}
            }
        }
    }
    Ok(())
}
