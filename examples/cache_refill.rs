//! Many processes read a cache together; the one that finds it stale fills it, alone.
//!
//!     cache_refill URL NAME FILE
//!
//! The cache is a file with one line, and stale if it is not there.

use std::error::Error;
use std::path::Path;
use std::process::id;

use portalock::{Client, ClientOptions, Lock, LockOptions, Mode, Wait};

fn cached(path: &Path) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.lines().next()?.to_owned())
}

fn reads(lock: &Lock, path: &Path) -> Result<bool, Box<dyn Error>> {
    lock.acquire_mode(Mode::Shared, Wait::Forever)?;
    let value = cached(path);
    if let Some(value) = &value {
        println!("{} reads {value}", id());
    }
    lock.release()?;
    Ok(value.is_some())
}

/// Whether it was this process that filled it: another may have come first while it waited.
fn refills(lock: &Lock, path: &Path) -> Result<bool, Box<dyn Error>> {
    lock.acquire_mode(Mode::Exclusive, Wait::Forever)?;
    let stale = cached(path).is_none();
    if stale {
        // A file that another could see half written would be no cache.
        let fresh = path.with_extension("new");
        std::fs::write(&fresh, format!("{}\n", id()))?;
        std::fs::rename(&fresh, path)?;
        println!("{} refills", id());
    }
    lock.release()?;
    Ok(stale)
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [url, name, path] = args.as_slice() else {
        return Err("usage: cache_refill URL NAME FILE".into());
    };
    let client = Client::new(url, ClientOptions::new())?;
    let lock = client.lock(name, LockOptions::new())?;
    while !reads(&lock, path.as_ref())? && !refills(&lock, path.as_ref())? {}
    Ok(())
}
