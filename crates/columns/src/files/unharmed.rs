//! Turns panics of the libraries that decode files into errors. They check most of a file, but panic for some damaged
//! offsets and lengths.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use super::FileError;

thread_local! {
    /// Whether this thread decodes a file, so that a panic is an error of the file.
    static IS_DECODING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `read`, and returns a panic as an error. The panic prints nothing.
pub(super) fn unharmed<T>(read: impl FnOnce() -> Result<T, FileError>) -> Result<T, FileError> {
    hide_panics_of_decoding();
    IS_DECODING.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(read));
    IS_DECODING.set(false);
    result.unwrap_or_else(|panic| Err(FileError::Undecodable(reason(panic.as_ref()))))
}

/// Lets panics print nothing on threads that decode a file. All other panics print what they did before.
fn hide_panics_of_decoding() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !IS_DECODING.get() {
                before(panic);
            }
        }));
    });
}

fn reason(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("its content cannot be decoded").to_owned()
}
