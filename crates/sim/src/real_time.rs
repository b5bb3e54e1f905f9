//! Stops the machine's monotonic clock for a thread while it simulates.
//!
//! Some libraries read the machine's clock instead of the simulated time. For example, the HTTP/2 library h2 forgets a
//! stream one second after its reset, as measured by the machine's clock. The trace of a seed would then depend on the
//! speed of the machine. To prevent this, the module replaces the function with which the standard library reads the
//! monotonic clock.
//!
//! Other threads and other clocks still read the machine's clock.
#![allow(unsafe_code)]

use std::cell::Cell;
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    static CLOCK_IS_FROZEN: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` at a single moment of the machine's monotonic clock.
pub(crate) fn standing_still<T>(work: impl FnOnce() -> T) -> T {
    struct GoesOn;
    impl Drop for GoesOn {
        fn drop(&mut self) {
            CLOCK_IS_FROZEN.set(false);
        }
    }
    CLOCK_IS_FROZEN.set(true);
    let _goes_on = GoesOn;
    work()
}

/// The moment in seconds. It is not 0, so that a span can be subtracted from it.
#[cfg(target_os = "linux")]
const STILL_S: libc::time_t = 1_000_000;

/// The function of the C library that this module replaces.
#[cfg(target_os = "linux")]
type ClockGettime = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> libc::c_int;

/// Address of that function, or one of the two values below. The function reads the clock without a system call, which
/// would take several times as long. Benchmarks run in the same program as the simulation, and read the clock often.
#[cfg(target_os = "linux")]
static OF_LIBRARY: AtomicUsize = AtomicUsize::new(NOT_SOUGHT);
#[cfg(target_os = "linux")]
const NOT_SOUGHT: usize = 0;
/// The program is linked statically and contains no other function of this name.
#[cfg(target_os = "linux")]
const NOT_FOUND: usize = 1;

#[cfg(target_os = "linux")]
fn of_library() -> Option<ClockGettime> {
    let mut address = OF_LIBRARY.load(Ordering::Relaxed);
    if address == NOT_SOUGHT {
        // SAFETY: the name ends with a zero byte. The next function of this name is that of the C library.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"clock_gettime".as_ptr()) };
        address = if found.is_null() { NOT_FOUND } else { found.addr() };
        OF_LIBRARY.store(address, Ordering::Relaxed);
    }
    // SAFETY: any other address is that of a function with this signature.
    (address != NOT_FOUND).then(|| unsafe { std::mem::transmute::<usize, ClockGettime>(address) })
}

/// # Safety
/// The same contract as for the function of the C library applies: `time` is null or may be written to.
#[cfg(target_os = "linux")]
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
    if clock == libc::CLOCK_MONOTONIC && CLOCK_IS_FROZEN.try_with(Cell::get).unwrap_or(false) && !time.is_null() {
        // SAFETY: `time` is not null, and the caller guarantees that it may be written to.
        unsafe { time.write(libc::timespec { tv_sec: STILL_S, tv_nsec: 0 }) };
        return 0;
    }
    match of_library() {
        // SAFETY: the contract of this function is the same.
        Some(of_library) => unsafe { of_library(clock, time) },
        // SAFETY: the kernel checks its arguments.
        None => unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) as libc::c_int },
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Instant;

    #[test]
    fn it_stands_still_only_for_the_thread_that_simulates() {
        let begun = Instant::now();
        let elsewhere = standing_still(|| {
            let still = Instant::now();
            let elsewhere = thread::spawn(|| {
                let begun = Instant::now();
                while begun.elapsed().is_zero() {}
                begun
            });
            let elsewhere = elsewhere.join().unwrap();
            assert_eq!(Instant::now(), still);
            elsewhere
        });
        assert!(elsewhere > begun && Instant::now() > elsewhere);
    }
}
