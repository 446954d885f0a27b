//! One of many processes leads, and another takes over when it goes, however it goes.
//!
//!     leader URL NAME ROUNDS MILLISECONDS
//!
//! Waits until it leads, leads for so many milliseconds, and steps down; that many rounds.

use std::process::{ExitCode, id};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use portalock::{Client, ClientOptions, Lock, LockOptions, Loss, Result, Wait};

fn lead(lock: &Lock, losses: &Receiver<Loss>, term: Duration) -> Result<()> {
    lock.acquire(Wait::Forever)?;
    println!("leader {} leads", id());
    // What a leader does goes here; the loss comes from the library's thread.
    match losses.recv_timeout(term) {
        Ok(loss) => println!("leader {} lost it: {}", id(), loss.message),
        // Said first: as soon as the lock is free, the next one leads.
        Err(_) => println!("leader {} steps down", id()),
    }
    // A loss that comes this late has ended a term that was over.
    let _ = lock.release();
    Ok(())
}

fn run(url: &str, name: &str, rounds: u32, term: Duration) -> Result<()> {
    let client = Client::new(url, ClientOptions::new())?;
    for _ in 0..rounds {
        let lock = client.lock(name, LockOptions::new())?;
        let (tell, losses) = channel();
        lock.on_lost(Some(Box::new(move |loss: &Loss| {
            let _ = tell.send(loss.clone());
        })));
        lead(&lock, &losses, term)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| args.get(at).and_then(|word| word.parse::<u32>().ok());
    let (Some(rounds), Some(ms), 4) = (number(2), number(3), args.len()) else {
        eprintln!("usage: leader URL NAME ROUNDS MILLISECONDS");
        return ExitCode::from(2);
    };
    match run(&args[0], &args[1], rounds, Duration::from_millis(ms.into())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("leader {}: {error}", id());
            ExitCode::FAILURE
        }
    }
}
