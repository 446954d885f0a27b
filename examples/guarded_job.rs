//! A job of which only one may run at a time, on however many machines.
//!
//!     guarded_job URL NAME MILLISECONDS [LABEL]
//!
//! Waits for its turn for as long as it takes, works for so many milliseconds, and leaves. Exit status: 0
//! done, 1 the lock could not be had, 2 wrong usage, 3 the lock was lost on the way.

use std::process::{ExitCode, id};
use std::thread::sleep;
use std::time::{Duration, Instant};

use portalock::{Client, ClientOptions, Error, Lock, LockOptions, Result, State, Status, Wait};

/// Whoever waits wants to know for whom. That nobody could tell is worth no error here.
fn say_who_is_there(client: &Client, name: &str) {
    for holder in client.holders(name, Duration::from_millis(500)).unwrap_or_default() {
        let what = if holder.state == State::Held { "hold it" } else { "wait" };
        println!("guarded_job[{}]   sees {} {what}", id(), holder.label.unwrap_or(holder.id));
    }
}

/// Works in small steps and looks after each whether it may go on.
fn work(lock: &Lock, span: Duration) {
    let end = Instant::now() + span;
    while Instant::now() < end {
        if !lock.is_held() {
            println!("guarded_job[{}] stops in the middle of its work", id());
            return;
        }
        sleep(Duration::from_millis(1));
    }
}

fn run(url: &str, name: &str, span: Duration, label: Option<&String>) -> Result<()> {
    let client = Client::new(url, ClientOptions::new())?;
    let mut options = LockOptions::new();
    if let Some(label) = label {
        options.label(label)?;
    }
    let lock = client.lock(name, options)?;
    if lock.try_acquire().is_err() {
        println!("guarded_job[{}] waits", id());
        say_who_is_there(&client, name);
        lock.acquire(Wait::Forever)?;
    }
    println!("guarded_job[{}] holds", id());
    work(&lock, span);
    lock.release()?;
    println!("guarded_job[{}] done", id());
    Ok(())
}

fn failed(error: &Error) -> ExitCode {
    let lost = error.status() == Status::Lost;
    let what = if lost { "LOST the lock" } else { "cannot" };
    println!("guarded_job[{}] {what}: {}", id(), error.message());
    ExitCode::from(if lost { 3 } else { 1 })
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let span = args.get(2).and_then(|word| word.parse().ok()).map(Duration::from_millis);
    match (span, args.len()) {
        (Some(span), 3 | 4) => match run(&args[0], &args[1], span, args.get(3)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error),
        },
        _ => {
            eprintln!("usage: guarded_job URL NAME MILLISECONDS [LABEL]");
            ExitCode::from(2)
        }
    }
}
