//! Producers that submit events in threads of their own while a test does something else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use crate::crash_loop::Producer;
use crate::local_cluster::eventually;

/// Producer that submits events in a separate thread until the test ends it.
pub(crate) struct Working {
    is_over: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    thread: JoinHandle<Producer>,
}

impl Working {
    pub(crate) fn start(mut producer: Producer) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let answered = Arc::new(AtomicUsize::new(0));
        let thread = std::thread::spawn({
            let is_over = is_over.clone();
            let answered = answered.clone();
            move || {
                while !is_over.load(Ordering::Relaxed) {
                    producer.go_on();
                    answered.store(producer.answered(), Ordering::Relaxed);
                }
                producer
            }
        });
        Self { is_over, answered, thread }
    }

    /// Waits until the producer has got the verdict first-seen for this many further keys.
    pub(crate) fn await_replies(&self, keys: usize) {
        let before = self.answered.load(Ordering::Relaxed);
        eventually("replies", || self.answered.load(Ordering::Relaxed) >= before + keys);
    }

    /// Ends the thread, and returns the producer.
    pub(crate) fn end(self) -> Producer {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("a producer")
    }
}
