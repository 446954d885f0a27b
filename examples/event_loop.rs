//! A daemon with one thread that looks after many shards, each under a lock of its own. Start it twice,
//! and the second takes over what the first leaves, however it ends.
//!
//!     event_loop URL PREFIX COUNT
//!
//! The locks are PREFIX-0, PREFIX-1 and so on. `Client::event_descriptor` is for a loop that waits for
//! other things too.

use std::error::Error;
use std::process::id;

use portalock::{Client, ClientOptions, Event, EventKind, Lock, LockOptions, Mode, Status, Wait};

struct Shard {
    lock: Lock,
    owned: bool,
}

impl Shard {
    fn new(client: &Client, name: &str, tag: usize) -> portalock::Result<Self> {
        let lock = client.lock(name, LockOptions::new())?;
        lock.set_tag(tag);
        let mut shard = Self { lock, owned: false };
        shard.want()?;
        Ok(shard)
    }

    /// Begins to wait for the lock, for as long as it takes; an event tells when it is ours.
    fn want(&mut self) -> portalock::Result<()> {
        self.owned = false;
        match self.lock.start_acquire(Some(Mode::Exclusive), Wait::Forever, None) {
            Err(error) if error.status() != Status::Active => Err(error),
            _ => Ok(()),
        }
    }
}

fn handle(event: &Event, shards: &mut [Shard]) -> portalock::Result<()> {
    match &event.kind {
        EventKind::Acquired(Ok(())) => shards[event.tag].owned = true,
        EventKind::Acquired(Err(_)) => shards[event.tag].want()?,
        EventKind::Lost(loss) => {
            println!("{} is lost: {}", event.name, loss.message);
            shards[event.tag].want()?;
        }
        // What the events that were dropped told has to be found out.
        EventKind::Overflow(_) => {
            for shard in shards.iter_mut() {
                shard.owned = shard.lock.is_held();
                if !shard.owned {
                    shard.want()?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [url, prefix, count] = args.as_slice() else {
        return Err("usage: event_loop URL PREFIX COUNT".into());
    };
    let count: usize = count.parse()?;
    let client = Client::new(url, ClientOptions::new())?;
    client.event_descriptor()?;
    let shard = |tag| Shard::new(&client, &format!("{prefix}-{tag}"), tag);
    let mut shards = (0..count).map(shard).collect::<Result<Vec<_>, _>>()?;
    let mut said = 0;
    loop {
        if let Some(event) = client.next_event(None)? {
            handle(&event, &mut shards)?;
        }
        let owned = shards.iter().filter(|shard| shard.owned).count();
        if owned != said {
            println!("{} owns {owned} of {count} shards", id());
        }
        said = owned;
    }
}
