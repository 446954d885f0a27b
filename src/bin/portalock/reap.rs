//! `portalock reap`.

use portalock::Client;

use crate::arguments::Reap;
use crate::exit;
use crate::failure::Outcome;
use crate::output::print;

/// Ends the connections of those who do not answer, and says how many.
pub fn reap(client: &Client, arguments: &Reap) -> Outcome {
    let reaped = client.reap_silent(&arguments.name, arguments.timeout)?;
    print(&format!("{} ended, {} alive\n", reaped.killed, reaped.alive))?;
    Ok(exit::OK)
}
