//! Finds the fields in lines and in rows. A line is a record with a single field. A row is a record whose fields are
//! separated by a byte such as a comma or a tab.

use crate::cut::{RecordStart, count_newlines, record_start};
use crate::field::{Encoding, FieldSpan};
use crate::marks::Marks;
use crate::names::{FIELDS_MAX, names_of_fields_line, place_in_header, place_of, place_of_index};
use crate::walk::{RawRecord, RecordSink, RecordSpan, Scratch, Walk};
use crate::wanted::{Slots, Wanted};
use crate::{ConfigError, EmptyKey, Ragged, RejectReason};
use memchr::memchr;

/// How the rows of a file are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// Byte between two fields.
    pub(crate) separator: u8,
    /// Whether quotes enclose fields.
    pub(crate) has_quotes: bool,
    /// What happens to a row with another number of fields.
    pub(crate) ragged: Ragged,
    /// Whether lines that begin with `#` are comments.
    pub(crate) has_comments: bool,
    /// Whether `-` is a missing value.
    pub(crate) has_dashes: bool,
    /// Whether a header names the fields.
    pub(crate) has_header: bool,
}

/// Number of fields of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Width {
    /// Maximum number of fields, which includes the surplus.
    pub(crate) fields: usize,
    /// Maximum number of fields at the end that the header does not name. In each row, these fields must be empty or
    /// absent.
    pub(crate) surplus: usize,
}

impl Width {
    pub(crate) fn of(fields: usize) -> Self {
        Self { fields, surplus: 0 }
    }

    /// Returns the number of fields that have a name.
    pub(crate) fn named(self) -> usize {
        self.fields - self.surplus
    }
}

/// What a slot contains.
#[derive(Clone, Copy, Debug)]
enum Column {
    /// The whole record.
    Whole,
    /// The field at this index.
    At(usize),
    /// A field that the rows do not have.
    Nowhere,
}

/// The wanted columns, one per slot.
#[derive(Debug)]
pub(crate) struct Separated {
    /// How rows are written. `None` means that a record is a line without fields.
    table: Option<Table>,
    columns: Vec<Column>,
    columns_read: usize,
    /// Number of fields that every row must have, if rows are checked for that.
    width: Option<Width>,
    /// The same number for a quick check. It is `usize::MAX` if rows may have any number of fields.
    fields_usual: usize,
    /// Whether a row with this number of fields still needs a closer check.
    is_unusual: bool,
}

impl Separated {
    pub(crate) fn lines(wanted: &[Wanted]) -> Result<Self, ConfigError> {
        Self::new(None, None, wanted, |name| place_of(name, &["line"]).map(Column::At))
    }

    /// Finds the columns of the wanted fields in rows. A wanted field is given by its name or by its number. `names`
    /// contains the names of the fields from the header. If there is no header, `names` is `None` and every wanted
    /// field must be a number. `width` is the number of fields of a row, if it is known.
    pub(crate) fn rows(
        table: Table,
        width: Option<Width>,
        wanted: &Slots,
        names: Option<&[String]>,
    ) -> Result<Self, ConfigError> {
        let width = width.filter(|_| wanted.wants_fields());
        Self::new(Some(table), width, &wanted.wanted, |name| match names {
            Some(names) => place_in_header(name, names).map(Column::At),
            None => place_of_index(name).map(Column::At),
        })
    }

    /// Creates the columns for names that occur in the middle of a file. A wanted field that is not among these names
    /// is in no row.
    pub(crate) fn rows_renamed(table: Table, wanted: &Slots, names: &[String]) -> Result<Self, ConfigError> {
        let width = Some(Width::of(names.len())).filter(|_| wanted.wants_fields());
        Self::new(Some(table), width, &wanted.wanted, |name| match place_in_header(name, names) {
            Err(ConfigError::UnknownField { .. }) => Ok(Column::Nowhere),
            found => found.map(Column::At),
        })
    }

    fn new(
        table: Option<Table>,
        width: Option<Width>,
        wanted: &[Wanted],
        place: impl Fn(&str) -> Result<Column, ConfigError>,
    ) -> Result<Self, ConfigError> {
        let columns = wanted.iter().map(|wanted| match wanted {
            Wanted::Whole => Ok(Column::Whole),
            Wanted::Named(name) => place(name),
            Wanted::Column(column) => Ok(Column::At(*column)),
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let columns_read = columns.iter().map(|column| if let Column::At(place) = column { place + 1 } else { 0 });
        let columns_read = columns_read.max().unwrap_or(0);
        let fields_usual = width.map_or(usize::MAX, |width| width.fields);
        let has_surplus = width.is_some_and(|width| width.surplus > 0);
        let is_unusual = has_surplus || table.is_some_and(|table| table.has_dashes);
        Ok(Self { table, columns, columns_read, width, fields_usual, is_unusual })
    }

    /// Reads all records of a block and passes the wanted fields of each record to `sink`. If a comment gives new names
    /// to the fields, the function stops and returns the position of this comment. Returns `None` if it has reached the
    /// end of the block.
    pub(crate) fn walk(
        &self,
        wanted: &Slots,
        walk: &Walk,
        scratch: &mut Scratch,
        sink: &mut impl RecordSink,
    ) -> Option<RecordSpan> {
        scratch.fields.clear();
        scratch.fields.resize(self.columns_read, FieldSpan::default());
        let end = walk.record_end;
        match self.table {
            None => self.walk_marked(wanted, Records::new(walk, [end]), scratch, sink),
            Some(Table { separator, has_quotes, .. }) => {
                if has_quotes && memchr(b'"', &walk.bytes[walk.start..]).is_some() {
                    self.walk_marked(wanted, Records::new(walk, [end, separator, b'"']), scratch, sink)
                } else {
                    self.walk_marked(wanted, Records::new(walk, [end, separator]), scratch, sink)
                }
            }
        }
    }

    // Each kind of rows has a separate function. A single function for all kinds would not keep its state in registers.
    #[inline(never)]
    fn walk_marked<const N: usize>(
        &self,
        wanted: &Slots,
        mut records: Records<N>,
        scratch: &mut Scratch,
        sink: &mut impl RecordSink,
    ) -> Option<RecordSpan> {
        let has_comments = N > 1 && self.table.is_some_and(|table| table.has_comments);
        let bytes = records.bytes;
        let mut renaming = None;
        while let Some(found) = records.next_record(&mut scratch.fields) {
            if has_comments && bytes[found.record.content.range()].first() == Some(&b'#') {
                renaming = self.comment(bytes, found.record, sink);
                if renaming.is_some() {
                    break;
                }
            } else {
                self.hand_over::<N>(wanted, bytes, found, scratch, sink);
            }
        }
        if records.hole_bytes > 0 {
            sink.hole(records.hole_bytes);
        }
        renaming
    }

    /// Handles a comment, which is not a record. If the comment names the fields, returns its position.
    #[cold]
    fn comment(&self, bytes: &[u8], record: RawRecord, sink: &mut impl RecordSink) -> Option<RecordSpan> {
        let names_fields = self.table.is_some_and(|table| table.has_header)
            && names_of_fields_line(&bytes[record.content.range()]).is_some();
        if names_fields {
            return Some(record.span);
        }
        sink.reject(record, RejectReason::Comment { names_fields: false });
        None
    }

    /// Passes the records on to `sink`. `N` is the number of bytes that structure the records. If it is one, records
    /// are lines without fields.
    #[inline(always)]
    fn hand_over<const N: usize>(
        &self,
        wanted: &Slots,
        bytes: &[u8],
        found: Found,
        scratch: &mut Scratch,
        sink: &mut impl RecordSink,
    ) {
        let record = found.record;
        let is_blank = record.content.is_empty();
        if found.has_defect() || (is_blank && !self.takes_blank(wanted)) {
            return sink.reject(record, found.reason(bytes));
        }
        let is_usual = self.fields_usual == usize::MAX || found.fields == self.fields_usual;
        let needs_look = N > 1 && (!is_usual || self.is_unusual);
        if needs_look && let Some(reason) = self.ragged(bytes, &found, wanted) {
            return sink.reject(record, reason);
        }
        for (slot, column) in scratch.slots.iter_mut().zip(&self.columns) {
            *slot = match *column {
                Column::Whole => record.content,
                Column::At(column) if column < found.fields => scratch.fields[column],
                Column::At(column) => self.beyond(column, record),
                Column::Nowhere => FieldSpan::default(),
            };
        }
        if N > 1 && self.is_unusual && self.table.is_some_and(|table| table.has_dashes) {
            mark_dashes(bytes, &mut scratch.slots);
        }
        sink.record(wanted, record, &scratch.slots);
    }

    /// Returns whether an empty line is a record.
    #[cold]
    fn takes_blank(&self, wanted: &Slots) -> bool {
        self.table.is_none() && wanted.empty_key == EmptyKey::Value
    }

    /// Returns the span of a field that this row does not have although other rows may have it.
    #[cold]
    fn beyond(&self, column: usize, record: RawRecord) -> FieldSpan {
        let pads = self.table.is_some_and(|table| table.ragged == Ragged::Pad);
        if pads && self.width.is_some_and(|width| column < width.named()) {
            FieldSpan::no_value(record.content.range().end)
        } else {
            FieldSpan::default()
        }
    }

    /// Returns why a row with another number of fields cannot be read. Returns `None` if it can be read, or if its
    /// number of fields is right.
    #[cold]
    fn ragged(&self, bytes: &[u8], found: &Found, wanted: &Slots) -> Option<RejectReason> {
        let table = self.table?;
        let width = self.width?;
        if found.fits(width, bytes, table.separator) {
            return None;
        }
        let expected = width.named();
        // If the key is all fields except some, the additional fields of a row belong to the key and must not be
        // ignored.
        if table.ragged == Ragged::Pad && !(wanted.is_whole && found.fields > expected) {
            return None;
        }
        let is_tab_quoted = table.separator == b'\t' && !table.has_quotes;
        let is_tab_quoted = is_tab_quoted && memchr(b'"', &bytes[found.record.content.range()]).is_some();
        let has_header = table.has_header;
        let is_beyond_padding = table.ragged == Ragged::Pad;
        Some(RejectReason::Ragged { fields: found.fields, expected, has_header, is_tab_quoted, is_beyond_padding })
    }
}

#[cold]
fn mark_dashes(bytes: &[u8], slots: &mut [FieldSpan]) {
    for slot in slots.iter_mut().filter(|slot| slot.encoding == Encoding::Raw) {
        if bytes[slot.range()] == *b"-" {
            slot.encoding = Encoding::NoValue;
        }
    }
}

/// The first row of a walk: its fields and its position.
pub(crate) struct FirstRow {
    pub(crate) names: Vec<String>,
    pub(crate) fields: usize,
    pub(crate) record: RawRecord,
}

/// Reads the first record of `walk` as a row of names.
pub(crate) fn read_first_row(walk: &Walk, table: Table) -> Result<FirstRow, RejectReason> {
    let found = read_first(walk, table, &mut []).ok_or(RejectReason::Blank)?;
    if found.has_defect() || found.record.content.is_empty() {
        return Err(found.reason(walk.bytes));
    }
    let mut fields = vec![FieldSpan::default(); found.fields.min(FIELDS_MAX)];
    read_first(walk, table, &mut fields);
    let names = fields.iter().map(|field| String::from_utf8_lossy(&field.decode(walk.bytes)).into_owned());
    Ok(FirstRow { names: names.collect(), fields: found.fields, record: found.record })
}

fn read_first(walk: &Walk, table: Table, fields: &mut [FieldSpan]) -> Option<Found> {
    if table.has_quotes {
        Records::new(walk, [walk.record_end, table.separator, b'"']).next_record(fields)
    } else {
        Records::new(walk, [walk.record_end, table.separator]).next_record(fields)
    }
}

/// Returns the number of fields in the first readable row. Comments are skipped, and so are rows that repeat the header
/// (`header_line`). Returns `None` if there is no such row.
///
/// `names` is the number of names in the header. The row may have more fields than the header has names, provided that
/// the additional fields are at its end and empty.
pub(crate) fn width_of_first_row(walk: &Walk, table: Table, names: Option<usize>, header_line: &[u8]) -> Option<Width> {
    let mut width = None;
    each_row(walk, table, |found, content| {
        if content == header_line {
            return true;
        }
        let names = names.unwrap_or(found.fields);
        let all = Width { fields: found.fields, surplus: found.fields.saturating_sub(names) };
        width = Some(if found.fits(all, walk.bytes, table.separator) { all } else { Width::of(names) });
        false
    });
    width
}

/// Returns the number of fields that most of the first rows have. Returns `None` if there are no rows.
pub(crate) fn usual_width(walk: &Walk, table: Table) -> Option<Width> {
    const ROWS_MAX: usize = 1_000;
    let mut counts: Vec<(usize, usize)> = Vec::new();
    let mut rows = 0;
    each_row(walk, table, |found, _| {
        match counts.iter_mut().find(|(fields, _)| *fields == found.fields) {
            Some((_, count)) => *count += 1,
            None => counts.push((found.fields, 1)),
        }
        rows += 1;
        rows < ROWS_MAX
    });
    // If several numbers are equally common, the number that came first is used.
    let usual = counts.iter().rev().max_by_key(|(_, count)| *count);
    usual.map(|(fields, _)| Width::of(*fields))
}

/// Passes the readable rows of a walk to `take`, until `take` returns false.
fn each_row(walk: &Walk, table: Table, take: impl FnMut(&Found, &[u8]) -> bool) {
    if table.has_quotes {
        each_record(Records::new(walk, [walk.record_end, table.separator, b'"']), table, take);
    } else {
        each_record(Records::new(walk, [walk.record_end, table.separator]), table, take);
    }
}

fn each_record<const N: usize>(mut records: Records<N>, table: Table, mut take: impl FnMut(&Found, &[u8]) -> bool) {
    while let Some(found) = records.next_record(&mut []) {
        let content = &records.bytes[found.record.content.range()];
        let is_comment = table.has_comments && content.first() == Some(&b'#');
        let is_row = !found.has_defect() && !content.is_empty() && !is_comment;
        if is_row && !take(&found, content) {
            return;
        }
    }
}

/// Returns the number of fields and the content of each complete record of `bytes`. This is used to examine a file
/// whose format is not known.
pub(crate) fn rows_of(bytes: &[u8], separator: u8, has_quotes: bool) -> Vec<(usize, &[u8])> {
    let walk = Walk { bytes, start: 0, line: 1, quoted_newlines: has_quotes, record_end: b'\n', may_have_marks: true };
    let mut rows = Vec::new();
    if has_quotes {
        let mut records = Records::new(&walk, [b'\n', separator, b'"']);
        while let Some(found) = records.next_record(&mut []) {
            if !found.has_defect() {
                rows.push((found.fields, &bytes[found.record.content.range()]));
            }
        }
    } else {
        let mut records = Records::new(&walk, [b'\n', separator]);
        while let Some(found) = records.next_record(&mut []) {
            rows.push((found.fields, &bytes[found.record.content.range()]));
        }
    }
    rows
}

/// What is wrong with the quotes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    None,
    /// The record ends inside quotes.
    Unclosed,
    /// The record has several lines, and the quotes that join the lines do not close at the end of a field.
    Joined,
}

impl Defect {
    /// Updates the defect of a record after a quoted text that has several lines or no end. `rest` is the text after
    /// the quoted text.
    // This function does not take a reference to `Records`, because the state of `Records` would then leave the
    // registers.
    #[cold]
    fn or_of_lines(self, is_closed: bool, rest: &[u8], separator: u8, skips_blanks: bool) -> Self {
        match self {
            _ if !is_closed => Self::Unclosed,
            Self::None if !ends_field(rest, separator, skips_blanks) => Self::Joined,
            defect => defect,
        }
    }
}

/// Returns whether a field ends directly before `rest`, ignoring blanks.
fn ends_field(rest: &[u8], separator: u8, skips_blanks: bool) -> bool {
    let blanks = if skips_blanks { rest.iter().take_while(|&&byte| byte == b' ').count() } else { 0 };
    match &rest[blanks..] {
        [] | [b'\n', ..] | [b'\r'] | [b'\r', b'\n', ..] => true,
        [byte, ..] => *byte == separator,
    }
}

#[inline(never)]
fn are_blanks(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == b' ')
}

/// A record with its number of fields.
struct Found {
    record: RawRecord,
    fields: usize,
    defect: Defect,
}

impl Found {
    #[inline(always)]
    fn has_defect(&self) -> bool {
        self.defect != Defect::None
    }

    /// Returns whether the record is a row of this width. A row may have all fields of the surplus, some of them, or
    /// none: each row is compared with the header, and not with the row that was read first.
    fn fits(&self, width: Width, bytes: &[u8], separator: u8) -> bool {
        let Some(surplus) = self.fields.checked_sub(width.named()) else { return false };
        surplus == 0 || (surplus <= width.surplus && self.ends_empty(surplus, bytes, separator))
    }

    /// Returns whether the last `surplus` fields of a row are empty, so that they can be ignored.
    ///
    /// If fields are separated by commas, the result is always false, because the additional field may come from a
    /// value with a decimal comma. Such a value looks like two fields and shifts all later fields by one column. The
    /// row must be rejected, because its fields would otherwise be read with wrong values.
    fn ends_empty(&self, surplus: usize, bytes: &[u8], separator: u8) -> bool {
        let content = &bytes[self.record.content.range()];
        let end = content.len().checked_sub(surplus).map(|start| &content[start..]);
        separator != b',' && end.is_some_and(|end| end.iter().all(|byte| *byte == separator))
    }

    /// Returns why a record is rejected that is blank or whose quotes are wrong.
    #[cold]
    fn reason(&self, bytes: &[u8]) -> RejectReason {
        match self.defect {
            Defect::None => RejectReason::Blank,
            Defect::Unclosed => RejectReason::UnclosedQuote,
            Defect::Joined => {
                let lines = 1 + count_newlines(&bytes[self.record.content.range()]);
                RejectReason::JoinedLines { lines }
            }
        }
    }
}

/// Reader of the rows in a block, one after the other. `N` is the number of different bytes for which the reader
/// searches. Depending on the table, they are the newline alone, the newline and the separator, or the newline, the
/// separator and the quote.
struct Records<'a, const N: usize> {
    marks: Marks<'a, N>,
    bytes: &'a [u8],
    /// Where the next record begins.
    next: RecordStart,
    line: u64,
    quoted_newlines: bool,
    record_end: u8,
    may_have_marks: bool,
    /// Number of NUL bytes in front of records so far.
    hole_bytes: usize,
    separator: u8,
    /// Whether blanks are allowed between the beginning of a field and its quote.
    skips_blanks: bool,
}

impl<'a, const N: usize> Records<'a, N> {
    fn new(walk: &Walk<'a>, needles: [u8; N]) -> Self {
        let next = record_start(walk.bytes, walk.start, walk.record_end);
        Self {
            marks: Marks::new(walk.bytes, walk.start, needles),
            bytes: walk.bytes,
            next,
            line: walk.line,
            quoted_newlines: walk.quoted_newlines,
            record_end: walk.record_end,
            may_have_marks: walk.may_have_marks,
            hole_bytes: next.record - walk.start,
            separator: needles.get(1).copied().unwrap_or(b'\n'),
            skips_blanks: needles.get(1).is_some_and(|&separator| separator != b' '),
        }
    }

    /// Reads the next record. Writes the positions of its first fields into `fields`, as many as fit.
    #[inline(always)]
    fn next_record(&mut self, fields: &mut [FieldSpan]) -> Option<Found> {
        let begins = self.next;
        if begins.record >= self.bytes.len() {
            return None;
        }
        let mut field = FieldSpan::raw(begins.content, begins.content);
        let mut count = 0;
        let mut newlines = 0;
        let mut defect = Defect::None;
        let (content_end, end) = loop {
            let place = self.marks.next().unwrap_or(self.bytes.len());
            match self.bytes.get(place) {
                None => break (place, place),
                // Only lines may end with another byte, because no other byte is searched for in them.
                Some(byte) if N == 1 || *byte == b'\n' => break (place, place + 1),
                Some(b'"') if N == 3 => {
                    if self.opens_field(field.start as usize, place) {
                        field = FieldSpan { encoding: Encoding::CsvQuoted, ..FieldSpan::raw(place, place) };
                        let (after, is_closed) = self.pass_quoted(place + 1);
                        let joined = count_newlines(&self.bytes[place..after]);
                        if joined > 0 || !is_closed {
                            newlines += joined;
                            let rest = &self.bytes[after..];
                            defect = defect.or_of_lines(is_closed, rest, self.separator, self.skips_blanks);
                        }
                        self.marks.seek(after);
                    }
                }
                Some(_) => {
                    field.end = place as u32;
                    if let Some(slot) = fields.get_mut(count) {
                        *slot = field;
                    }
                    count += 1;
                    field = FieldSpan::raw(place + 1, place + 1);
                }
            }
        };
        let has_return = content_end > field.start as usize
            && self.bytes[content_end - 1] == b'\r'
            && (N > 1 || self.record_end == b'\n');
        let content_end = content_end - usize::from(has_return);
        field.end = content_end as u32;
        if let Some(slot) = fields.get_mut(count) {
            *slot = field;
        }
        let span = RecordSpan { start: begins.record as u32, end: end as u32, line: self.line };
        let record = RawRecord { span, content: FieldSpan::raw(begins.content, content_end) };
        self.line += 1 + newlines;
        self.next = RecordStart { record: end, content: end };
        if self.may_have_marks {
            // The call does not take a reference to `self`, so that the loop keeps its state in registers.
            self.next = record_start(self.bytes, end, self.record_end);
            self.hole_bytes += self.next.record - end;
        }
        Some(Found { record, fields: count + 1, defect })
    }

    /// Returns whether the quote at `place` encloses the field that begins at `start`. Only blanks may precede it.
    #[inline(always)]
    fn opens_field(&self, start: usize, place: usize) -> bool {
        place == start || (self.skips_blanks && are_blanks(&self.bytes[start..place]))
    }

    /// Finds the end of a quoted field. `start` is the position after the opening quote of the field. If the field has
    /// a closing quote, the function returns the position after this quote and `true`. Otherwise it returns the
    /// position at which the record must end and `false`.
    fn pass_quoted(&self, start: usize) -> (usize, bool) {
        let rest = &self.bytes[start..];
        let limit = if self.quoted_newlines { None } else { memchr(b'\n', rest) };
        let rest = &rest[..limit.unwrap_or(rest.len())];
        let mut passed = 0;
        while let Some(quote) = memchr(b'"', &rest[passed..]) {
            passed += quote + 1;
            if rest.get(passed) != Some(&b'"') {
                return (start + passed, true);
            }
            passed += 1;
        }
        (start + rest.len(), false)
    }
}
