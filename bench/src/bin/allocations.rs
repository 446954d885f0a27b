//! Counts what a warm acquire and its release allocate: URL PAIRS. A program of its own, so that counting
//! weighs on no other figure.
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use portalock::{Client, ClientOptions, LockOptions, Wait};

static BY_ALL: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static BY_ME: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

fn count() {
    BY_ALL.fetch_add(1, Ordering::Relaxed);
    BY_ME.set(BY_ME.get() + 1);
}

// SAFETY: all is done by the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as promised to us.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as promised to us.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as promised to us.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// `[by the calling thread in an acquire, by all threads in a pair]`
fn main() {
    let words: Vec<String> = std::env::args().collect();
    let pairs: u64 = words[2].parse().unwrap();
    let client = Client::new(&words[1], ClientOptions::new()).unwrap();
    let lock = client.lock("allocations", LockOptions::new()).unwrap();
    let release = || lock.release_wait(Duration::from_secs(10)).unwrap();
    for _ in 0..20 {
        lock.acquire(Wait::Forever).unwrap();
        release();
    }
    let begin = BY_ALL.load(Ordering::Relaxed);
    let mut in_acquires = 0;
    for _ in 0..pairs {
        let before = BY_ME.get();
        lock.acquire(Wait::Forever).unwrap();
        in_acquires += BY_ME.get() - before;
        release();
    }
    let all = BY_ALL.load(Ordering::Relaxed) - begin;
    println!("[{:.2}, {:.2}]", in_acquires as f64 / pairs as f64, all as f64 / pairs as f64);
}
