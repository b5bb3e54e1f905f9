//! Draws the overview of a cluster on a terminal. All panes fit on a terminal of at least 80 columns and 24 lines. On a
//! smaller terminal, a message asks the user to enlarge it.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table, TableState};

use super::tables::{FILTERS, Mark, NODES, alarm, command, filter, heading, node, work};
use super::view::{Pane, View};

/// Minimum size of the terminal.
const COLUMNS_MIN: u16 = 80;
const LINES_MIN: u16 = 24;

/// Height in lines of the pane with alarms, including its frame and one line for the command.
const ALARMS_LINES: u16 = 5;
/// Minimum number of nodes that are shown.
const NODES_SHOWN: u16 = 3;
/// Number of lines that a table needs in addition to its rows: for the frame and the heading.
const FRAME_LINES: u16 = 3;
/// Height of the terminal below which the pane of running work has a single row.
const ROOMY_LINES: u16 = 28;
/// Columns or lines of a frame, counting both sides.
const FRAME: u16 = 2;
/// Text in front of a command.
const PROMPT: &str = "  > ";

/// Draws the present view.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View) {
    let area = frame.area();
    if area.width < COLUMNS_MIN || area.height < LINES_MIN {
        let text = format!(
            "This terminal has {} columns and {} lines: make it {COLUMNS_MIN} by {LINES_MIN} at least, or press q and say --once",
            area.width, area.height
        );
        frame.render_widget(Paragraph::new(text).wrap(ratatui::widgets::Wrap { trim: true }), area);
        return;
    }
    let work_lines_max = if area.height < ROOMY_LINES { 3 } else { 5 };
    let work_lines = (view.lines(Pane::Work) as u16).saturating_add(2).clamp(3, work_lines_max);
    let nodes_least = FRAME_LINES + (view.lines(Pane::Nodes) as u16).clamp(1, NODES_SHOWN);
    let alarms_lines = ALARMS_LINES + command_lines(view, area.width) - 1;
    let [head, alarms, nodes, filters, under_way, keys] = Layout::vertical([
        Constraint::Length(2),
        grown(view, Pane::Alarms, 2).unwrap_or(Constraint::Length(alarms_lines)),
        grown(view, Pane::Nodes, 3).unwrap_or(Constraint::Min(nodes_least)),
        grown(view, Pane::Filters, 3).unwrap_or(Constraint::Min(5)),
        grown(view, Pane::Work, 2).unwrap_or(Constraint::Length(work_lines)),
        Constraint::Length(1),
    ])
    .areas(area);
    draw_head(frame, head, view);
    draw_alarms(frame, alarms, view);
    let rows = view.overview().nodes.iter().map(node).map(|(columns, mark)| row(columns, mark));
    let widths = [15, 10, 11, 9, 12, 6, 9, 8].map(Constraint::Min);
    let title = format!("nodes ({})", view.lines(Pane::Nodes));
    draw_table(frame, nodes, view, Pane::Nodes, title, Table::new(rows, widths).header(heading_row(&NODES)));
    let rows = view.filters().into_iter().map(filter).map(|(columns, mark)| row(columns, mark));
    let title = format!("filters ({}) by {}", view.lines(Pane::Filters), view.sort().name());
    let widths = [16, 5, 8, 7, 7, 7, 8, 12].map(Constraint::Min);
    draw_table(frame, filters, view, Pane::Filters, title, Table::new(rows, widths).header(heading_row(&FILTERS)));
    let rows = work(view.overview()).into_iter().map(|line| Row::new([line]));
    let title = "under way, and trees".to_owned();
    draw_table(frame, under_way, view, Pane::Work, title, Table::new(rows, [Constraint::Fill(1)]));
    let words = " q quit   tab pane   arrows move   s sort   p pause ";
    frame.render_widget(Paragraph::new(words).style(Style::new().add_modifier(Modifier::REVERSED)), keys);
}

/// Returns a share of the free space for the pane if it has the focus.
fn grown(view: &View, pane: Pane, share: u16) -> Option<Constraint> {
    (view.pane() == pane).then_some(Constraint::Fill(share))
}

fn style(mark: Mark) -> Style {
    match mark {
        Mark::Calm => Style::new(),
        Mark::Warning => Style::new().fg(Color::Yellow),
        Mark::Critical => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
    }
}

fn row<const COLUMNS: usize>(columns: [String; COLUMNS], mark: Mark) -> Row<'static> {
    Row::new(columns.map(Cell::from)).style(style(mark))
}

/// Returns whether the shown overview is up to date, as text.
fn state(view: &View) -> (String, Mark) {
    match view.problem() {
        Some((problem, seconds)) => (format!("lost for {seconds} s: {problem}"), Mark::Critical),
        None if view.is_paused() => ("paused".to_owned(), Mark::Warning),
        None => ("live".to_owned(), Mark::Calm),
    }
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let (title, sums) = heading(view.overview());
    let (state, mark) = state(view);
    let lines = vec![
        Line::from(vec![
            Span::styled(format!("[{state}] "), style(mark).add_modifier(Modifier::BOLD)),
            Span::styled(title, Style::new().add_modifier(Modifier::BOLD)),
        ]),
        Line::from(sums),
    ];
    frame.render_widget(Paragraph::new(lines), area);
}

/// Draws the alarms. Below them is the command that helps with the selected alarm.
fn draw_alarms(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let alarms = &view.overview().alarms;
    if alarms.is_empty() {
        let block = block(view, Pane::Alarms, "alarms".to_owned());
        frame.render_widget(Paragraph::new("nothing needs a look").block(block), area);
        return;
    }
    let text_lines = text_lines(view, area.width);
    let lines =
        [Constraint::Min(3), Constraint::Length(text_lines), Constraint::Length(command_lines(view, area.width))];
    let [list, whole_text, below] = Layout::vertical(lines).areas(area);
    let columns = usize::from(list.width.saturating_sub(FRAME));
    let rows = alarms.iter().map(alarm).map(|(text, mark)| row([shortened(text, columns)], mark));
    let shown = usize::from(list.height.saturating_sub(FRAME));
    let title = match alarms.len() {
        all if all > shown => format!("alarms ({shown} of {all})"),
        all => format!("alarms ({all})"),
    };
    draw_table(frame, list, view, Pane::Alarms, title, Table::new(rows, [Constraint::Fill(1)]));
    if let Some(chosen) = alarms.get(view.chosen(Pane::Alarms)).filter(|_| text_lines > 0) {
        let room = usize::from(whole_text.height) * columns;
        let text = shortened(alarm(chosen).0, room);
        frame.render_widget(Paragraph::new(text).wrap(ratatui::widgets::Wrap { trim: true }), whole_text);
    }
    let style = Style::new().add_modifier(Modifier::BOLD);
    let text = Paragraph::new(chosen_command(view)).wrap(ratatui::widgets::Wrap { trim: true });
    frame.render_widget(text.style(style), below);
}

/// Shortens a text to `columns` characters. A shortened text ends with `…`.
fn shortened(text: String, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text;
    }
    text.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}

/// Returns the command that helps with the selected alarm.
fn chosen_command(view: &View) -> String {
    let chosen = view.overview().alarms.get(view.chosen(Pane::Alarms));
    format!("{PROMPT}{}", chosen.and_then(command).unwrap_or_default())
}

/// Returns the number of lines for the text of the selected alarm. The result is 0 unless the pane of alarms has the
/// focus.
fn text_lines(view: &View, columns: u16) -> u16 {
    let chosen = view.overview().alarms.get(view.chosen(Pane::Alarms)).filter(|_| view.pane() == Pane::Alarms);
    // Words are not split, so lines are not completely full. The estimate assumes four fifths.
    chosen.map_or(0, |chosen| alarm(chosen).0.chars().count().div_ceil(usize::from(columns) * 4 / 5).min(4) as u16)
}

/// Returns the number of lines for the command, which is two if the command is longer than the terminal is wide.
fn command_lines(view: &View, columns: u16) -> u16 {
    if chosen_command(view).chars().count() > usize::from(columns) { 2 } else { 1 }
}

fn block(view: &View, pane: Pane, title: String) -> Block<'static> {
    let has_keys = view.pane() == pane;
    let style = if has_keys {
        Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD)
    } else {
        Style::new().fg(Color::DarkGray)
    };
    let title = if has_keys { format!(" {title} < ") } else { format!(" {title} ") };
    Block::bordered().border_style(style).title(title)
}

fn heading_row(names: &[&'static str]) -> Row<'static> {
    Row::new(names.to_vec()).style(Style::new().add_modifier(Modifier::DIM))
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, view: &View, pane: Pane, title: String, table: Table<'_>) {
    let mut table = table.block(block(view, pane, title));
    if view.pane() == pane {
        table = table.row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    }
    let mut state = TableState::new().with_selected(Some(view.chosen(pane)));
    frame.render_stateful_widget(table, area, &mut state);
}

#[cfg(test)]
pub(super) mod tests;
