//! The state of the display: the overview that is shown, the focused pane, the selected line, and the order of the
//! filters. The keys of the user change only this state and never the cluster. While the user has paused the display,
//! new overviews are not shown.

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::time::Instant;

use firstseen_node::{FilterLine, Overview};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Number of lines that a page moves by.
const PAGE: usize = 10;

/// A pane of the display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pane {
    Alarms,
    Nodes,
    Filters,
    Work,
}

impl Pane {
    pub(super) const ALL: [Self; 4] = [Self::Alarms, Self::Nodes, Self::Filters, Self::Work];

    /// Returns the pane `by` places further. The first pane follows the last.
    fn next(self, by: usize) -> Self {
        Self::ALL[(self as usize + by) % Self::ALL.len()]
    }
}

/// Order in which filters are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Number,
    Name,
    Rate,
    Full,
    Undecided,
}

impl Sort {
    const ALL: [Self; 5] = [Self::Number, Self::Name, Self::Rate, Self::Full, Self::Undecided];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::Name => "name",
            Self::Rate => "events/s",
            Self::Full => "full",
            Self::Undecided => "undecided",
        }
    }
}

/// The state of the display.
pub(super) struct View {
    newest: Overview,
    /// Overview that was shown when the display was paused.
    paused: Option<Overview>,
    problem: Option<(String, Instant)>,
    pane: Pane,
    sort: Sort,
    /// Selected line of each pane.
    chosen: [usize; Pane::ALL.len()],
}

impl View {
    pub(super) fn of(overview: Overview) -> Self {
        Self {
            newest: overview,
            paused: None,
            problem: None,
            pane: Pane::Filters,
            sort: Sort::Number,
            chosen: [0; Pane::ALL.len()],
        }
    }

    /// Takes the next overview, or the reason why there is none.
    pub(super) fn take(&mut self, overview: Result<Overview, String>) {
        match overview {
            Ok(overview) => (self.newest, self.problem) = (overview, None),
            Err(problem) => {
                let since = self.problem.take().map_or_else(Instant::now, |(_, since)| since);
                self.problem = Some((problem, since));
            }
        }
    }

    /// Applies a key. Returns `Break` if the key ends the command.
    pub(super) fn key(&mut self, key: KeyEvent) -> ControlFlow<()> {
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return ControlFlow::Break(()),
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return ControlFlow::Break(()),
            KeyCode::Tab | KeyCode::Right => self.pane = self.pane.next(1),
            KeyCode::BackTab | KeyCode::Left => self.pane = self.pane.next(Pane::ALL.len() - 1),
            KeyCode::Up => self.go(|line| line.saturating_sub(1)),
            KeyCode::Down => self.go(|line| line + 1),
            KeyCode::PageUp => self.go(|line| line.saturating_sub(PAGE)),
            KeyCode::PageDown => self.go(|line| line + PAGE),
            KeyCode::Home => self.go(|_| 0),
            KeyCode::End => self.go(|_| usize::MAX),
            KeyCode::Char('s') => {
                let place = Sort::ALL.iter().position(|sort| *sort == self.sort).unwrap_or(0);
                self.sort = Sort::ALL[(place + 1) % Sort::ALL.len()];
            }
            KeyCode::Char('p' | ' ') => {
                self.paused = if self.paused.is_some() { None } else { Some(self.newest.clone()) };
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn go(&mut self, to: impl Fn(usize) -> usize) {
        let line = to(self.chosen(self.pane));
        self.chosen[self.pane as usize] = line.min(self.lines(self.pane).saturating_sub(1));
    }

    /// Returns the number of lines of a pane.
    pub(super) fn lines(&self, pane: Pane) -> usize {
        let overview = self.overview();
        match pane {
            Pane::Alarms => overview.alarms.len(),
            Pane::Nodes => overview.nodes.len(),
            Pane::Filters => overview.filters.len(),
            Pane::Work => overview.work.len() + overview.trees.iter().map(|tree| tree.places.len()).sum::<usize>(),
        }
    }

    /// Returns the selected line of a pane.
    pub(super) fn chosen(&self, pane: Pane) -> usize {
        self.chosen[pane as usize].min(self.lines(pane).saturating_sub(1))
    }

    /// Returns the overview that is shown.
    pub(super) fn overview(&self) -> &Overview {
        self.paused.as_ref().unwrap_or(&self.newest)
    }

    /// Returns the filters in the selected order.
    pub(super) fn filters(&self) -> Vec<&FilterLine> {
        let mut filters: Vec<&FilterLine> = self.overview().filters.iter().collect();
        filters.sort_by(|one, other| match self.sort {
            Sort::Number => Ordering::Equal,
            Sort::Name => one.name.cmp(&other.name),
            Sort::Rate => falling(one.verdicts.events_per_s(), other.verdicts.events_per_s()),
            Sort::Full => falling(one.full, other.full),
            Sort::Undecided => falling(one.verdicts.undecided_per_s, other.verdicts.undecided_per_s),
        });
        filters
    }

    /// Returns the pane that has the focus.
    pub(super) fn pane(&self) -> Pane {
        self.pane
    }

    /// Returns the selected order of filters.
    pub(super) fn sort(&self) -> Sort {
        self.sort
    }

    /// Returns whether the display is paused.
    pub(super) fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Returns why there is no newer overview, and for how many seconds.
    pub(super) fn problem(&self) -> Option<(&str, u64)> {
        self.problem.as_ref().map(|(problem, since)| (problem.as_str(), since.elapsed().as_secs()))
    }
}

/// Orders numbers from the greatest to the least, with unknown numbers at the end.
fn falling(one: Option<f64>, other: Option<f64>) -> Ordering {
    other.partial_cmp(&one).unwrap_or(Ordering::Equal)
}

#[cfg(test)]
mod tests {
    use firstseen_node::Verdicts;

    use super::*;

    fn filter(name: &str, full: Option<f64>, undecided: Option<f64>) -> FilterLine {
        let verdicts = Verdicts { undecided_per_s: undecided, ..Verdicts::default() };
        FilterLine { name: name.to_owned(), full, verdicts, ..FilterLine::default() }
    }

    fn view() -> View {
        let filters =
            vec![filter("b", Some(0.1), None), filter("c", None, Some(2.0)), filter("a", Some(0.9), Some(0.0))];
        View::of(Overview { filters, ..Overview::default() })
    }

    fn press(view: &mut View, code: KeyCode) -> bool {
        view.key(KeyEvent::from(code)).is_break()
    }

    fn names(view: &View) -> String {
        view.filters().iter().map(|filter| filter.name.as_str()).collect()
    }

    #[test]
    fn s_goes_through_the_orders() {
        let mut view = view();
        let orders = (0..6).map(|_| {
            let order = (view.sort().name(), names(&view));
            press(&mut view, KeyCode::Char('s'));
            order
        });
        let orders: Vec<(&str, String)> = orders.collect();
        let expected = [("number", "bca"), ("name", "abc"), ("events/s", "bca"), ("full", "abc"), ("undecided", "cab")];
        assert_eq!(orders[..5], expected.map(|(name, order)| (name, order.to_owned())));
        assert_eq!(orders[5], orders[0]);
    }

    #[test]
    fn keys_move_within_what_there_is() {
        let mut view = view();
        for (code, line) in
            [(KeyCode::Down, 1), (KeyCode::End, 2), (KeyCode::Down, 2), (KeyCode::Up, 1), (KeyCode::PageUp, 0)]
        {
            assert!(!press(&mut view, code));
            assert_eq!(view.chosen(Pane::Filters), line, "{code:?}");
        }
        press(&mut view, KeyCode::End);
        view.take(Ok(Overview { filters: vec![filter("x", None, None)], ..Overview::default() }));
        assert_eq!(view.chosen(Pane::Filters), 0, "there are fewer now");
        let panes = (0..4).map(|_| {
            press(&mut view, KeyCode::Tab);
            view.pane()
        });
        assert_eq!(panes.collect::<Vec<_>>(), [Pane::Work, Pane::Alarms, Pane::Nodes, Pane::Filters]);
        press(&mut view, KeyCode::BackTab);
        assert_eq!(view.pane(), Pane::Nodes);
        assert!(press(&mut view, KeyCode::Char('q')) && press(&mut view, KeyCode::Esc));
        assert!(view.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)).is_break());
    }

    #[test]
    fn what_is_paused_stays_and_a_problem_passes() {
        let mut view = view();
        press(&mut view, KeyCode::Char('p'));
        view.take(Ok(Overview::default()));
        assert!(view.is_paused() && view.overview().filters.len() == 3);
        press(&mut view, KeyCode::Char('p'));
        assert!(!view.is_paused() && view.overview().filters.is_empty());
        view.take(Err("no answer".to_owned()));
        assert_eq!(view.problem(), Some(("no answer", 0)));
        view.take(Ok(Overview::default()));
        assert_eq!(view.problem(), None);
    }
}
