//! Finds the wanted members of a JSON object without building the object in memory. Members that are not wanted are
//! skipped and not stored, so an object with many members needs no additional memory.

use crate::field::{Encoding, FieldSpan};
use crate::json_number::is_canonical;
use crate::wanted::Wanted;
use crate::{ConfigError, RejectReason};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// The wanted members, one per slot. A slot without a path is filled by another part of the format.
#[derive(Debug)]
pub(crate) struct JsonFields {
    wanted: Vec<WantedMember>,
}

/// Number of a slot, and the path to its value, which has at least one step.
type WantedMember = (usize, Vec<String>);

impl JsonFields {
    pub(crate) fn new(wanted: &[Wanted]) -> Result<Self, ConfigError> {
        let named = wanted.iter().enumerate().filter_map(|(slot, wanted)| match wanted {
            Wanted::Whole | Wanted::Column(_) => None,
            Wanted::Named(name) => Some(path_of(name).map(|path| (slot, path))),
        });
        Ok(Self { wanted: named.collect::<Result<_, _>>()? })
    }

    /// Creates the fields for the slots for which `is_ours` returns true.
    pub(crate) fn with(wanted: &[Wanted], is_ours: impl Fn(usize) -> bool) -> Result<Self, ConfigError> {
        let mut fields = Self::new(wanted)?;
        fields.wanted.retain(|(slot, _)| is_ours(*slot));
        Ok(fields)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Finds the wanted members of the object `line`, which begins at `base` in the block.
    pub(crate) fn locate(&self, line: &[u8], base: usize, slots: &mut [FieldSpan]) -> Result<(), RejectReason> {
        let text =
            std::str::from_utf8(line).map_err(|error| RejectReason::InvalidUtf8 { column: error.valid_up_to() + 1 })?;
        let mut repeated = None;
        let part = ObjectPart { text, base, depth: 0 };
        locate_members(&part, &self.wanted, slots, &mut repeated).map_err(|error| match error.classify() {
            serde_json::error::Category::Data if is_value(text) => RejectReason::NotAnObject,
            _ => RejectReason::InvalidJson { column: error.column() },
        })?;
        repeated.map_or(Ok(()), |path| Err(RejectReason::RepeatedName { field: path.join(".").into() }))
    }
}

/// Returns whether a text is one JSON value. A line of another format may begin with a JSON value, for example with a
/// number.
#[cold]
fn is_value(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Splits a name into a path. `a.b` is the member `b` of the object `a`, and `a\.b` is the member `a.b`.
pub(crate) fn path_of(name: &str) -> Result<Vec<String>, ConfigError> {
    let mut path = vec![String::new()];
    let mut characters = name.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, path.last_mut()) {
            ('.', _) => path.push(String::new()),
            ('\\', Some(step)) if characters.next_if_eq(&'.').is_some() => step.push('.'),
            (character, Some(step)) => step.push(character),
            (_, None) => {}
        }
    }
    if path.iter().any(String::is_empty) {
        return Err(ConfigError::EmptyName { field: name.into() });
    }
    Ok(path)
}

/// An object within the record: its text, its position in the block, and the number of path steps that lead to it.
struct ObjectPart<'a> {
    text: &'a str,
    base: usize,
    depth: usize,
}

/// Finds members, and reports the path of a member that occurs twice.
fn locate_members<'w>(
    part: &ObjectPart,
    wanted: &'w [WantedMember],
    slots: &mut [FieldSpan],
    repeated: &mut Option<&'w [String]>,
) -> serde_json::Result<()> {
    let mut deserializer = serde_json::Deserializer::from_str(part.text);
    deserializer.deserialize_map(MembersVisitor { part, wanted, slots, repeated })?;
    deserializer.end()
}

struct MembersVisitor<'a, 'w> {
    part: &'a ObjectPart<'a>,
    wanted: &'w [WantedMember],
    slots: &'a mut [FieldSpan],
    repeated: &'a mut Option<&'w [String]>,
}

impl MembersVisitor<'_, '_> {
    fn take(&mut self, first: &WantedMember, value: &str) {
        let depth = self.part.depth;
        // The value is a part of the text, so the difference of their addresses is its position.
        let base = self.part.base + (value.as_ptr().addr() - self.part.text.as_ptr().addr());
        for member in self.wanted.iter().filter(|member| member.1.get(depth) == first.1.get(depth)) {
            if self.slots[member.0].encoding != Encoding::Absent {
                *self.repeated = Some(&member.1);
            }
            if member.1.len() == depth + 1 {
                self.slots[member.0] = span_of(value, base);
            } else if value.starts_with('{') {
                let part = ObjectPart { text: value, base, depth: depth + 1 };
                // The text is already known to be a valid JSON object. A member that is not found stays absent.
                let _ = locate_members(&part, std::slice::from_ref(member), self.slots, self.repeated);
            }
        }
    }
}

impl<'de> Visitor<'de> for MembersVisitor<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        while let Some(first) = members.next_key_seed(NameSeed { depth: self.part.depth, wanted: self.wanted })? {
            match first {
                Some(first) => self.take(first, members.next_value::<&'de RawValue>()?.get()),
                None => {
                    members.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// Reads the name of a member, and checks whether the member is wanted.
struct NameSeed<'w> {
    depth: usize,
    wanted: &'w [WantedMember],
}

impl<'de, 'w> DeserializeSeed<'de> for NameSeed<'w> {
    type Value = Option<&'w WantedMember>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'w> Visitor<'_> for NameSeed<'w> {
    type Value = Option<&'w WantedMember>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.wanted.iter().find(|member| member.1.get(self.depth).is_some_and(|step| step == name)))
    }
}

/// Returns where the value of a member is in the text, and how it is encoded. The kind of the value determines the text
/// that represents it:
///
/// - a string: the text between its quotes
/// - a number: its canonical form
/// - an array, an object, `true` or `false`: its JSON text
/// - null: no text, because null counts as a missing value
fn span_of(value: &str, base: usize) -> FieldSpan {
    match value.as_bytes() {
        [b'n', ..] => FieldSpan::no_value(base),
        [b'"', inside @ .., b'"'] => {
            let encoding = if memchr::memchr(b'\\', inside).is_some() { Encoding::JsonText } else { Encoding::Raw };
            FieldSpan { encoding, ..FieldSpan::raw(base + 1, base + 1 + inside.len()) }
        }
        text => {
            let is_number = matches!(text, [b'-' | b'0'..=b'9', ..]);
            let encoding = if is_number && !is_canonical(text) { Encoding::JsonNumber } else { Encoding::Raw };
            FieldSpan { encoding, ..FieldSpan::raw(base, base + text.len()) }
        }
    }
}
