//! Computes the canonical form of a JSON value, so that equal values can be recognised by comparing bytes. Two texts
//! have the same canonical form if they differ only in whitespace, in the order of object members, in escape sequences,
//! or in the notation of numbers.
//!
//! A JSON text is already in canonical form if it has no whitespace outside strings, if the members of each object are
//! sorted, and if its strings and numbers are written in the shortest way, without unnecessary escapes, zeros or
//! exponents.
//!
//! # Guarantees
//!
//! - The forms of two texts are equal only if their values are equal.
//! - The memory is at most a few times the size of the text.
//! - The recursion is never deeper than [`DEPTH_MAX`].
//!
//! This module does not depend on records or keys.

use crate::json_number::append_canonical;
use crate::unescape::unescape;
use memchr::memchr2;
use std::ops::Range;

/// Maximum nesting depth that is converted. Values that are nested more deeply keep their text.
const DEPTH_MAX: usize = 128;

/// Path of a member that is left out. Each step is the canonical form of a member name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IgnoredPath(Vec<Vec<u8>>);

impl IgnoredPath {
    pub(crate) fn new(steps: &[String]) -> Self {
        let forms = steps.iter().map(|step| {
            let mut form = Vec::new();
            push_string(step.as_bytes(), &mut form);
            form
        });
        Self(forms.collect())
    }
}

/// Appends the canonical form of the JSON value `text` to `form`. Members whose paths are in `ignored` are left out.
/// The text should be valid JSON. If it is not, the bytes that cannot be parsed are appended unchanged, so that no
/// difference between two texts is lost.
pub(crate) fn push_canonical(text: &[u8], ignored: &[IgnoredPath], memory: &mut Memory, form: &mut Vec<u8>) {
    memory.members.clear();
    let mut writer = Writer { text, at: 0, form, members: &mut memory.members, sorted: &mut memory.sorted };
    let paths: Vec<&[Vec<u8>]> = ignored.iter().map(|path| &path.0[..]).collect();
    writer.value(&paths, 0);
    writer.skip_blanks();
    let rest = &text[writer.at..];
    form.extend_from_slice(rest);
}

/// Memory of [`push_canonical`], which is kept so that it can be reused.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    members: Vec<Member>,
    sorted: Vec<u8>,
}

/// A member of an object, described by its position in the form.
#[derive(Clone, Copy, Debug)]
struct Member {
    start: usize,
    name_end: usize,
    end: usize,
}

impl Member {
    fn name(&self) -> Range<usize> {
        self.start..self.name_end
    }
}

struct Writer<'a> {
    text: &'a [u8],
    at: usize,
    form: &'a mut Vec<u8>,
    /// The members of all open objects. The members of the innermost object are at the end.
    members: &'a mut Vec<Member>,
    /// Memory for the members of an object in sorted order.
    sorted: &'a mut Vec<u8>,
}

impl Writer<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, ignored: &[&[Vec<u8>]], depth: usize) {
        self.skip_blanks();
        match self.peek() {
            Some(b'{' | b'[') if depth >= DEPTH_MAX => {
                let end = end_of_value(&self.text[self.at..]);
                self.copy(end);
            }
            Some(b'{') => self.object(ignored, depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string(),
            Some(_) => self.scalar(),
            None => {}
        }
    }

    fn copy(&mut self, bytes: usize) {
        self.form.extend_from_slice(&self.text[self.at..self.at + bytes]);
        self.at += bytes;
    }

    fn array(&mut self, depth: usize) {
        self.at += 1;
        self.form.push(b'[');
        let mut is_first = true;
        while self.finds_item(b']') {
            if !is_first {
                self.form.push(b',');
            }
            is_first = false;
            self.value(&[], depth + 1);
        }
        self.form.push(b']');
    }

    fn object(&mut self, ignored: &[&[Vec<u8>]], depth: usize) {
        self.at += 1;
        self.form.push(b'{');
        let object_start = self.form.len();
        let members_start = self.members.len();
        while self.finds_item(b'}') {
            let before = self.form.len();
            if self.members.len() > members_start {
                self.form.push(b',');
            }
            let member = self.member(ignored, depth);
            match member {
                Some(member) => self.members.push(member),
                None => self.form.truncate(before),
            }
        }
        self.sort(object_start, members_start);
        self.members.truncate(members_start);
        self.form.push(b'}');
    }

    /// Moves to the next item of an array or object. At its end, steps over the byte `end` and returns false.
    fn finds_item(&mut self, end: u8) -> bool {
        loop {
            self.skip_blanks();
            match self.peek() {
                None => return false,
                Some(b',') => self.at += 1,
                Some(byte) if byte == end => {
                    self.at += 1;
                    return false;
                }
                Some(_) => return true,
            }
        }
    }

    /// Writes a member. Returns `None` if the member is to be left out. The caller must then remove its form.
    fn member(&mut self, ignored: &[&[Vec<u8>]], depth: usize) -> Option<Member> {
        let start = self.form.len();
        self.string();
        let name_end = self.form.len();
        let name = &self.form[start..name_end];
        let is_ignored = ignored.iter().any(|path| path.len() == 1 && path[0] == name);
        // In the usual case no path continues below this member, and collecting an empty list allocates no memory.
        let deeper = ignored.iter().filter(|path| path.len() > 1 && path[0] == name);
        let deeper: Vec<&[Vec<u8>]> = deeper.map(|path| &path[1..]).collect();
        self.skip_blanks();
        if self.peek() == Some(b':') {
            self.at += 1;
        }
        self.form.push(b':');
        self.value(&deeper, depth + 1);
        let member = Member { start, name_end, end: self.form.len() };
        (!is_ignored).then_some(member)
    }

    /// Sorts the members of an object by their names. Members with equal names keep their order.
    fn sort(&mut self, object_start: usize, members_start: usize) {
        let form = &mut *self.form;
        let members = &mut self.members[members_start..];
        if members.is_sorted_by_key(|member| &form[member.name()]) {
            return;
        }
        members.sort_by(|a, b| form[a.name()].cmp(&form[b.name()]));
        self.sorted.clear();
        for (place, member) in members.iter().enumerate() {
            if place > 0 {
                self.sorted.push(b',');
            }
            self.sorted.extend_from_slice(&form[member.start..member.end]);
        }
        form.truncate(object_start);
        form.extend_from_slice(self.sorted);
    }

    fn string(&mut self) {
        let inside = self.text.get(self.at + 1..).unwrap_or_default();
        let mut end = 0;
        let mut has_escapes = false;
        while let Some(mark) = memchr2(b'"', b'\\', &inside[end..]) {
            end += mark;
            if inside[end] == b'"' {
                break;
            }
            has_escapes = true;
            end = (end + 2).min(inside.len());
        }
        let closed = end.min(inside.len());
        if !has_escapes {
            self.copy((closed + 2).min(self.text.len() - self.at));
            return;
        }
        let mut contents = Vec::new();
        unescape(&inside[..closed], &mut contents);
        push_string(&contents, self.form);
        self.at = (self.at + closed + 2).min(self.text.len());
    }

    /// Writes a number, `true`, `false` or `null`.
    fn scalar(&mut self) {
        let rest = &self.text[self.at..];
        let end = rest.iter().position(|byte| b",]}: \t\n\r".contains(byte)).unwrap_or(rest.len());
        // At least one byte is consumed, so that the loop always ends.
        let bytes = end.max(1).min(rest.len());
        append_canonical(&rest[..bytes], self.form);
        self.at += bytes;
    }
}

/// Returns the length in bytes of the object or array at the beginning of `text`.
fn end_of_value(text: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                at += 1;
                while let Some(mark) = text.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
                    at += mark;
                    if text[at] == b'"' {
                        break;
                    }
                    at += 2;
                }
            }
            _ => {}
        }
        at += 1;
        if depth == 0 {
            break;
        }
    }
    at.min(text.len())
}

/// Appends a string as JSON. Only characters that must be escaped are escaped, with the shortest possible escape.
fn push_string(contents: &[u8], form: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    form.push(b'"');
    for &byte in contents {
        match byte {
            b'"' => form.extend_from_slice(b"\\\""),
            b'\\' => form.extend_from_slice(b"\\\\"),
            b'\n' => form.extend_from_slice(b"\\n"),
            b'\r' => form.extend_from_slice(b"\\r"),
            b'\t' => form.extend_from_slice(b"\\t"),
            0x08 => form.extend_from_slice(b"\\b"),
            0x0C => form.extend_from_slice(b"\\f"),
            0x00..0x20 => {
                form.extend_from_slice(b"\\u00");
                form.push(DIGITS[usize::from(byte >> 4)]);
                form.push(DIGITS[usize::from(byte & 15)]);
            }
            _ => form.push(byte),
        }
    }
    form.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(text: &str) -> String {
        form_without(text, &[])
    }

    fn form_without(text: &str, ignored: &[&[&str]]) -> String {
        let steps = |path: &&[&str]| path.iter().map(|step| (*step).to_owned()).collect::<Vec<_>>();
        let ignored: Vec<IgnoredPath> = ignored.iter().map(|path| IgnoredPath::new(&steps(path))).collect();
        let mut form = Vec::new();
        push_canonical(text.as_bytes(), &ignored, &mut Memory::default(), &mut form);
        String::from_utf8(form).expect("text")
    }

    #[test]
    fn spellings_of_one_value_have_one_form() {
        for (spellings, expected) in [
            (vec!["{}", " { } ", "\t{\n}\r"], "{}"),
            (
                vec![r#"{"a":1,"b":[1,{"c":2,"d":null}]}"#, r#" { "b" : [ 1 , {"d":null, "c":2.0} ] , "a" : 1e0 } "#],
                r#"{"a":1,"b":[1,{"c":2,"d":null}]}"#,
            ),
            (
                vec![r#"{"\u0061":"\u00e4\/\n"}"#, "{\"a\":\"\u{e4}/\\n\"}", r#"{"a":"\u00E4/\u000a"}"#],
                "{\"a\":\"\u{e4}/\\n\"}",
            ),
            (vec!["[true,false,null,[]]", "[ true , false , null , [ ] ]"], "[true,false,null,[]]"),
            (vec![r#"{"b":1,"a":1,"b":2}"#, r#"{"a":1,"b":1,"b":2}"#], r#"{"a":1,"b":1,"b":2}"#),
        ] {
            for spelling in spellings {
                assert_eq!(form(spelling), expected, "{spelling}");
            }
        }
        for (one, other) in [
            ("[1,2]", "[2,1]"),
            (r#"{"a":1}"#, r#"{"a":"1"}"#),
            (r#"{"a":{"b":1}}"#, r#"{"a":{},"b":1}"#),
            (r#"{"b":1,"b":2}"#, r#"{"b":2,"b":1}"#),
            (r#"{"a":null}"#, "{}"),
            (r#"{"a":"\ud800"}"#, r#"{"a":"\ud801"}"#),
            (r#"{"a":"b\",\"c"}"#, r#"{"a":"b","c":""}"#),
        ] {
            let bytes = |text: &str| {
                let mut form = Vec::new();
                push_canonical(text.as_bytes(), &[], &mut Memory::default(), &mut form);
                form
            };
            assert_ne!(bytes(one), bytes(other), "{one} {other}");
        }
    }

    #[test]
    fn numbers_have_one_form_and_lose_no_digit() {
        for (spellings, expected) in [
            (vec!["1000", "1e3", "1000.0", "1E+3", "10.00e2", "100000e-2"], "1000"),
            (vec!["0", "-0", "0.0", "0e9", "-0.00E-7"], "0"),
            (vec!["0.25", "25e-2", "2.50E-1"], "0.25"),
            (vec!["-12.5", "-125e-1", "-1.25e1"], "-12.5"),
            (vec!["12345678901234567890123456789", "12345678901234567890123456789.0"], "12345678901234567890123456789"),
            (vec!["1e99999999999999999999"], "1e99999999999999999999"),
        ] {
            for spelling in spellings {
                assert_eq!(form(spelling), expected, "{spelling}");
            }
        }
        assert_ne!(form("9007199254740993"), form("9007199254740992"));
        assert_ne!(form("0.1"), form("0.10000000000000000001"));
        assert_ne!(form("1e99999999999999999999"), form("1e99999999999999999998"));
    }

    #[test]
    fn ignored_members_leave_no_trace() {
        let text = r#"{"a":1,"t":2,"u":{"id":3,"t":4,"v":{"t":5}}}"#;
        assert_eq!(form_without(text, &[&["t"]]), r#"{"a":1,"u":{"id":3,"t":4,"v":{"t":5}}}"#);
        assert_eq!(form_without(text, &[&["u", "t"], &["a"]]), r#"{"t":2,"u":{"id":3,"v":{"t":5}}}"#);
        assert_eq!(form_without(text, &[&["u", "v", "t"]]), r#"{"a":1,"t":2,"u":{"id":3,"t":4,"v":{}}}"#);
        assert_eq!(form_without(text, &[&["a"], &["t"], &["u"]]), "{}");
        assert_eq!(form_without(r#"{"\u0074":1,"b":2}"#, &[&["t"]]), r#"{"b":2}"#);
        assert_eq!(form_without(r#"{"b":2,"t":1}"#, &[&["t"]]), r#"{"b":2}"#);
    }

    #[test]
    fn deep_values_and_broken_texts_end() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert_eq!(form(&deep), deep);
        for text in ["{", "{\"a", "{\"a\\", "[1,", "{x}", "]", "{\"a\":}", "[}", "", "[\"\\\"]"] {
            form(text);
        }
    }
}
