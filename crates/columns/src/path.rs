//! Finds a column by the name that a user gives it.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema};
use arrow_select::nullif::nullif;
use firstseen_records::{ConfigError, listed, nearest_name, printable};

/// Place of a column in a schema: the index of a column, followed by the indexes of members if it has structs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnPath {
    name: String,
    places: Vec<usize>,
    data_type: DataType,
}

impl ColumnPath {
    /// Finds the column `name`. A column of this name is tried first, then the member of a struct (`user.id`, in which
    /// a dot that belongs to a name is written `\.`), then a number that starts at 1.
    ///
    /// # Errors
    /// Returns [`ConfigError::UnknownField`] with the most similar name, or [`ConfigError::AmbiguousField`] if two
    /// columns have this name.
    pub(crate) fn find(name: &str, schema: &Schema) -> Result<Self, ConfigError> {
        let fields = schema.fields();
        if let Some(place) = place_of(name, fields)? {
            return Ok(Self::at(name, vec![place], &fields[place]));
        }
        if let Some(found) = Self::find_member(name, fields)? {
            return Ok(found);
        }
        let by_number = name.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        match by_number.and_then(|place| Some((place, fields.get(place)?))) {
            Some((place, field)) => Ok(Self::at(field.name(), vec![place], field)),
            None => Err(unknown(name, fields)),
        }
    }

    /// Returns the path of the column at `place`.
    pub(crate) fn of_place(place: usize, schema: &Schema) -> Self {
        let field = schema.field(place);
        Self::at(field.name(), vec![place], field)
    }

    fn at(name: &str, places: Vec<usize>, field: &Field) -> Self {
        Self { name: name.to_owned(), places, data_type: field.data_type().clone() }
    }

    fn find_member(name: &str, fields: &Fields) -> Result<Option<Self>, ConfigError> {
        let steps = steps_of(name);
        let mut fields = fields;
        let mut places = Vec::with_capacity(steps.len());
        for (depth, step) in steps.iter().enumerate() {
            let Some(place) = place_of(step, fields)? else { return Ok(None) };
            places.push(place);
            let field = &fields[place];
            match field.data_type() {
                _ if depth + 1 == steps.len() => return Ok(Some(Self::at(name, places, field))),
                DataType::Struct(members) => fields = members,
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Returns the name of the column as the user knows it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the type of the column.
    pub(crate) fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Returns the index of the column among those of the schema, if it is not the member of a struct.
    pub(crate) fn place(&self) -> Option<usize> {
        match self.places.as_slice() {
            [place] => Some(*place),
            _ => None,
        }
    }

    /// Returns the column of a batch. A member is missing where its struct is missing.
    ///
    /// # Errors
    /// Returns an [`ArrowError`] if the batch has another schema.
    pub(crate) fn column(&self, batch: &RecordBatch) -> Result<ArrayRef, ArrowError> {
        let mut places = self.places.iter();
        let missing = ArrowError::SchemaError(format!("a batch has no column `{}`", self.name));
        let Some(mut column) = places.next().and_then(|place| batch.columns().get(*place)).cloned() else {
            return Err(missing);
        };
        for place in places {
            let Some(parent) = column.as_struct_opt() else { return Err(missing) };
            let Some(member) = parent.columns().get(*place) else { return Err(missing) };
            column = match parent.nulls() {
                None => ArrayRef::clone(member),
                Some(nulls) => nullif(member, &BooleanArray::new(!nulls.inner(), None))?,
            };
        }
        Ok(column)
    }
}

fn place_of(name: &str, fields: &Fields) -> Result<Option<usize>, ConfigError> {
    let mut places = fields.iter().enumerate().filter(|(_, field)| field.name() == name).map(|(place, _)| place);
    match (places.next(), places.next()) {
        (Some(first), Some(second)) => {
            Err(ConfigError::AmbiguousField { field: name.into(), first: first + 1, second: second + 1 })
        }
        (first, _) => Ok(first),
    }
}

/// Splits a path at its dots. A dot after a backslash belongs to a name.
fn steps_of(path: &str) -> Vec<String> {
    let mut steps = vec![String::new()];
    let mut characters = path.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, steps.last_mut()) {
            ('\\', Some(step)) if characters.peek() == Some(&'.') => step.extend(characters.next()),
            ('.', _) => steps.push(String::new()),
            (_, Some(step)) => step.push(character),
            (_, None) => {}
        }
    }
    steps
}

fn unknown(name: &str, fields: &Fields) -> ConfigError {
    let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
    ConfigError::UnknownField {
        field: name.into(),
        available: listed(&names),
        suggestion: nearest_name(name, names.iter().copied()).map(printable),
    }
}
