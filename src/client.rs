//! Where the server is, and the warm connections to it.

use std::time::Duration;

use crate::error::Result;
use crate::lock::Lock;
use crate::options::{ClientOptions, LockOptions};

/// A Redis server to hold locks on. Cheap to clone; safe to use from any thread.
#[derive(Clone, Debug)]
pub struct Client {}

impl Client {
    /// Takes the server's URL: `redis://[user[:password]@]host[:port][/db]` or
    /// `unix:///path[?db=N&user=…&pass=…]`. Nothing is connected yet.
    ///
    /// # Errors
    /// `Invalid` where the URL is none, `Unsupported` for a scheme that is not known.
    pub fn new(url: &str, options: ClientOptions) -> Result<Self> {
        let _ = (url, options);
        todo!()
    }

    /// Names a lock. Nothing is sent.
    ///
    /// # Errors
    /// `Invalid` where the name is empty, over-long, or ends in `-lock-events`.
    pub fn lock(&self, name: &str, options: LockOptions) -> Result<Lock> {
        let _ = (name, options);
        todo!()
    }

    /// Connects, logs in and asks for an answer, within `timeout`.
    pub fn ping(&self, timeout: Duration) -> Result<Duration> {
        let _ = timeout;
        todo!()
    }
}
