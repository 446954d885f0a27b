//! What only ours is asked: many held locks in one process, and questions that need no server.
use std::ffi::CString;
use std::hint::black_box;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::time::Duration;

use criterion::Criterion;
use portalock::ffi::{
    PL_OK, pl_client_new, pl_lock_acquire, pl_lock_is_held, pl_lock_new, pl_lock_verified_age,
};
use portalock::{Client, ClientOptions, Lock, LockOptions, Wait};

/// Bytes of this process that are in memory.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Every lock may have a connection of its own.
fn raise_file_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a place for what is written, and then for what is read.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
    }
}

/// `[bytes of each lock beyond the first, threads beside the main one]`, once all are held. They are held
/// until there is a line on the standard input, and then it says whether they still were.
pub fn hold(url: &str, count: usize, shared: bool) {
    raise_file_limit();
    let mut options = ClientOptions::new();
    options.shared_connection(shared);
    let client = Client::new(url, options).unwrap();
    let hold = |i: usize| -> Lock {
        let lock = client.lock(&format!("held-{i}"), LockOptions::new()).unwrap();
        lock.acquire(Wait::Forever).unwrap();
        lock
    };
    let first = hold(0);
    let before = resident();
    let others: Vec<Lock> = (1..count).map(hold).collect();
    let each = (resident() - before) / (count as u64 - 1);
    let threads = std::fs::read_dir("/proc/self/task").unwrap().count() - 1;
    println!("[{each}, {threads}]");
    let _ = std::io::stdin().read_line(&mut String::new());
    println!("{}", first.is_held() && others.iter().all(Lock::is_held));
}

/// What is answered without the server, through the C interface, while the lock is held; criterion writes
/// what it finds into the folder.
pub fn in_process(url: &str, folder: &str, seconds: u64) {
    let url = CString::new(url).unwrap();
    let (mut client, mut lock) = (null_mut(), null_mut());
    let none = null_mut();
    assert_eq!(pl_client_new(url.as_ptr(), null(), &mut client, none), PL_OK);
    assert_eq!(pl_lock_new(client, c"in-process".as_ptr(), null(), &mut lock, none), PL_OK);
    assert_eq!(pl_lock_acquire(lock, -1, none), PL_OK);
    let mut criterion = Criterion::default()
        .without_plots()
        .output_directory(Path::new(folder))
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(seconds));
    criterion.bench_function("pl_lock_is_held", |b| b.iter(|| pl_lock_is_held(black_box(lock))));
    criterion.bench_function("pl_lock_verified_age", |b| {
        b.iter(|| pl_lock_verified_age(black_box(lock)));
    });
    assert!(pl_lock_is_held(lock));
}
