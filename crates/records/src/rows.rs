//! Tracks the header of a run whose records are rows: the names of the fields, and the number of fields. Both may
//! change from file to file, and in some formats also within a file.

use crate::cut::record_start;
use crate::heading::{Beginning, Heading, has_comments, read_beginning, walk_after};
use crate::layout::{Layout, Shape};
use crate::names::{FIELDS_MAX, listed, names_of_fields_line, place_in_header, place_of_index};
use crate::separated::{Table, Width, usual_width, width_of_first_row};
use crate::walk::{RawRecord, Walk};
use crate::wanted::Slots;
use crate::{ConfigError, Header, ParsedBlock, Ragged, RecordFormat, RejectReason, printable};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) struct Rows {
    format: RecordFormat,
    /// How the rows of this file are written.
    table: Table,
    /// Fields that are not part of the key.
    ignored: Vec<String>,
    /// Names of the fields. The list is empty if there is no header, or if the header has not arrived yet.
    names: Vec<String>,
    /// Text of the first header, without byte order mark and line end. It is empty if there is no header.
    header_line: Vec<u8>,
    /// Number of fields of a row, once it is known.
    width: Option<Width>,
    /// Whether the header of this file has not arrived yet.
    awaits_header: bool,
    /// Whether no row has arrived yet after the first header.
    awaits_row: bool,
    /// The table for which the layout of the run was made.
    bound: Option<Table>,
}

impl Rows {
    pub(crate) fn new(format: RecordFormat, table: Table, ignored: Vec<String>) -> Self {
        Self {
            format,
            table,
            ignored,
            names: Vec::new(),
            header_line: Vec::new(),
            width: None,
            awaits_header: table.has_header,
            awaits_row: table.has_header,
            bound: None,
        }
    }

    /// Returns the text of the first header, which may be empty. A record with the same text repeats the header.
    pub(crate) fn header_line(&self) -> &[u8] {
        &self.header_line
    }

    /// Returns the byte between two fields.
    pub(crate) fn separator(&self) -> u8 {
        self.table.separator
    }

    /// Returns the error for a record on this line that has the names of the header in another order.
    pub(crate) fn reordered(&self, line: u64, other: &str) -> ConfigError {
        ConfigError::HeaderReordered { line, first: listed(&self.names), other: printable(other) }
    }

    /// Returns whether the next record of this file must be its header.
    pub(crate) fn awaits_header(&self) -> bool {
        self.awaits_header
    }

    /// Returns the layout of rows whose fields have no names, before the first row is known. `None` means that a header
    /// must come first.
    pub(crate) fn layout_without_header(&self, slots: &Slots) -> Result<Option<Layout>, ConfigError> {
        if self.table.has_header {
            return Ok(None);
        }
        let shape = Shape { table: self.table, names: None, width: None };
        self.ignored.iter().try_for_each(|field| place_of_index(field).map(drop))?;
        Layout::new(self.format, slots.clone(), Some(shape)).map(Some)
    }

    /// Starts a new file, which begins with `walk`.
    pub(crate) fn begin_file(&mut self, walk: &Walk) {
        self.awaits_header = self.table.has_header;
        if self.format != RecordFormat::W3c {
            // Without a header, no row names the fields, and a row may begin with `#` like any other text.
            self.table.has_comments = self.table.has_header && has_comments(walk);
            self.table.has_dashes = false;
        }
    }

    /// Reads the lines before the first record of a block, and returns a walk over the remaining lines. Only the
    /// beginning of a file has such lines: a header, possibly with comments before it. If the header changes the
    /// positions of the wanted fields, the function updates `layout`.
    pub(crate) fn read_beginning<'a>(
        &mut self,
        walk: Walk<'a>,
        slots: &Slots,
        layout: &mut Option<Arc<Layout>>,
        parsed: &mut ParsedBlock,
    ) -> Result<Walk<'a>, ConfigError> {
        if !self.table.has_header {
            self.read_width(&walk, slots, layout)?;
            return Ok(walk);
        }
        let mut rest = walk;
        if self.awaits_header {
            rest = self.read_header(walk, slots, layout, parsed)?;
        }
        // Comments may give the fields new names before the first row, so the first row cannot be examined here.
        self.awaits_row &= !self.table.has_comments;
        if self.awaits_row && !self.awaits_header {
            self.read_surplus(&rest, slots, layout)?;
        }
        Ok(rest)
    }

    /// Reads the header of a file and the comments before it. Returns a walk over the rest.
    fn read_header<'a>(
        &mut self,
        walk: Walk<'a>,
        slots: &Slots,
        layout: &mut Option<Arc<Layout>>,
        parsed: &mut ParsedBlock,
    ) -> Result<Walk<'a>, ConfigError> {
        let Beginning { comments, heading } = read_beginning(&walk, self.format, self.table)?;
        let mut rest = walk;
        for span in comments {
            parsed.hole_bytes += u64::from(span.start) - rest.start as u64;
            rest = walk_after(&rest, span);
            parsed.reject(span, RejectReason::Comment { names_fields: false });
        }
        if let Some(heading) = heading {
            let RawRecord { span, content } = heading.record;
            parsed.hole_bytes += u64::from(span.start) - rest.start as u64;
            rest = walk_after(&rest, span);
            let is_first = layout.is_none();
            let is_repeated = self.take_heading(&heading, slots, layout)?;
            // A line `#Fields: ...` names the fields wherever it occurs, so it is read each time and is not a repeated
            // header.
            if is_first && !heading.is_comment {
                self.header_line = walk.bytes[content.range()].to_vec();
            }
            parsed.header = Some(Header { span, is_repeated });
        }
        Ok(rest)
    }

    /// Determines from the first row how many additional empty fields a row may have after those of the header.
    fn read_surplus(
        &mut self,
        walk: &Walk,
        slots: &Slots,
        layout: &mut Option<Arc<Layout>>,
    ) -> Result<(), ConfigError> {
        let width = width_of_first_row(walk, self.table, Some(self.names.len()), &self.header_line);
        let Some(width) = width else { return Ok(()) };
        self.awaits_row = false;
        if width.surplus > 0 {
            self.width = Some(width);
            let names = std::mem::take(&mut self.names);
            let renewed = self.layout(slots, Some(&names));
            self.names = names;
            *layout = Some(Arc::new(renewed?));
        }
        Ok(())
    }

    /// Determines how many fields a row must have if the file has no header. Usually a row may have any number of
    /// fields, but two flags restrict the number:
    ///
    /// - With `--ragged pad`, shorter rows are padded to the number of fields of the first row.
    /// - With `--ignore`, the rows must have the number of fields that is most common among the first rows.
    fn read_width(&mut self, walk: &Walk, slots: &Slots, layout: &mut Option<Arc<Layout>>) -> Result<(), ConfigError> {
        let pads = self.table.ragged == Ragged::Pad;
        if self.width.is_some() || (self.ignored.is_empty() && !pads) {
            return Ok(());
        }
        self.width = if pads { width_of_first_row(walk, self.table, None, &[]) } else { usual_width(walk, self.table) };
        if self.width.is_some() {
            *layout = Some(Arc::new(self.layout(slots, None)?));
        }
        Ok(())
    }

    /// Takes the names of a header. Returns whether they are the same as those of an earlier file.
    fn take_heading(
        &mut self,
        heading: &Heading,
        slots: &Slots,
        layout: &mut Option<Arc<Layout>>,
    ) -> Result<bool, ConfigError> {
        let is_further = layout.is_some();
        let is_repeated = is_further && heading.names == self.names;
        self.awaits_header = false;
        if heading.is_comment {
            self.table.has_dashes = true;
        } else {
            // If the header begins with `#`, the rows may begin with `#` too.
            self.table.has_comments &= !heading.begins_like_comment;
        }
        if is_repeated && self.bound == Some(self.table) {
            return Ok(true);
        }
        if is_further && !is_repeated && (!heading.is_comment || !self.ignored.is_empty()) {
            return Err(self.differs(&heading.names));
        }
        let bound = if is_further && !is_repeated {
            Layout::renamed(self.table, slots.clone(), &heading.names)?
        } else {
            self.width = self.width.filter(|_| is_repeated).or(Some(Width::of(heading.width)));
            self.layout(slots, Some(&heading.names))?
        };
        if !is_repeated {
            self.names.clone_from(&heading.names);
            self.width = Some(Width::of(heading.width));
        }
        self.bound = Some(self.table);
        *layout = Some(Arc::new(bound));
        Ok(is_repeated)
    }

    /// Takes the names of a comment line in the middle of a file. Returns `None` if they are the same as before.
    pub(crate) fn rename(&mut self, line: &[u8], slots: &Slots) -> Result<Option<Layout>, ConfigError> {
        let line = &line[record_start(line, 0, b'\n').content..];
        let Some(names) = names_of_fields_line(line) else { return Ok(None) };
        if names == self.names {
            return Ok(None);
        }
        if !self.ignored.is_empty() {
            return Err(self.differs(&names));
        }
        let layout = Layout::renamed(self.table, slots.clone(), &names)?;
        self.width = Some(Width::of(names.len()));
        self.names = names;
        Ok(Some(layout))
    }

    fn differs(&self, names: &[String]) -> ConfigError {
        ConfigError::HeaderDiffers { first: listed(&self.names), other: listed(names) }
    }

    /// Returns the layout of rows whose number of fields is known.
    fn layout(&self, slots: &Slots, names: Option<&[String]>) -> Result<Layout, ConfigError> {
        let slots = self.key_columns(slots, names)?;
        let shape = Shape { table: self.table, names, width: self.width };
        Layout::new(self.format, slots, Some(shape)).map_err(|error| self.with_separator(error, names))
    }

    /// Returns the wanted fields if the key is all columns except the ignored columns.
    fn key_columns(&self, slots: &Slots, names: Option<&[String]>) -> Result<Slots, ConfigError> {
        if self.ignored.is_empty() {
            return Ok(slots.clone());
        }
        let columns = self.width.map_or(0, Width::named);
        if columns > FIELDS_MAX {
            return Err(ConfigError::TooManyFields { fields: columns, fields_max: FIELDS_MAX });
        }
        let ignored = self.ignored.iter().map(|field| match names {
            Some(names) => place_in_header(field, names),
            None => place_of_index(field),
        });
        let ignored = ignored.collect::<Result<Vec<usize>, _>>()?;
        let key: Vec<usize> = (0..columns).filter(|column| !ignored.contains(column)).collect();
        if key.is_empty() {
            return Err(ConfigError::NothingLeft { columns });
        }
        Ok(slots.with_key_columns(&key))
    }

    /// Returns the same error, or a more specific error if the header has one column that looks like several columns
    /// with another separator.
    fn with_separator(&self, error: ConfigError, names: Option<&[String]>) -> ConfigError {
        let (ConfigError::UnknownField { field, .. }, Some([header])) = (&error, names) else { return error };
        let separators = [(b';', ";"), (b'\t', "tab"), (b'|', "|"), (b',', ",")];
        let seems =
            separators.iter().find(|(byte, _)| *byte != self.table.separator && header.as_bytes().contains(byte));
        match seems {
            Some((_, separator)) => {
                ConfigError::OneColumn { field: field.clone(), header: printable(header), separator }
            }
            None => error,
        }
    }
}
