//! Distributed locks held by a live Redis subscription.
//!
//! A [`Client`] knows the server, and names [`Lock`]s on it. A lock is held until it is released or dropped, or
//! until it is lost with its connection, which [`Lock::on_lost`], [`Lock::is_held`] and [`Lock::release`] tell.
//!
//! ```no_run
//! use portalock::{Client, ClientOptions, LockOptions, Wait};
//!
//! # fn main() -> portalock::Result<()> {
//! let client = Client::new("redis://127.0.0.1:6379", ClientOptions::new())?;
//! let lock = client.lock("nightly-report", LockOptions::new())?;
//! lock.acquire(Wait::Default)?;
//! println!("I am the only one here.");
//! lock.release()
//! # }
//! ```
//!
//! Clients and locks may be used from any thread. After a fork, what the child has inherited answers
//! [`Status::Forked`], and the parent's locks are left alone.
#![warn(missing_docs)]
#![warn(unsafe_op_in_unsafe_fn)]

mod acquire;
mod broker;
mod callback;
mod client;
mod disclosure;
mod doctor;
mod error;
mod events;
#[doc(hidden)]
pub mod ffi;
mod fork;
mod inspect;
mod keeper;
mod lock;
mod log_line;
mod mutex;
mod options;
pub mod protocol;
mod pursuit;
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub mod simulation;
mod stamp;
mod standing;
mod stats;
mod watch;

pub use callback::{AcquiredCallback, LostCallback};
pub use client::Client;
pub use doctor::{Finding, Severity};
pub use error::{Error, Result, Status};
pub use events::{Event, EventKind, MAX_EVENTS};
pub use inspect::{Holder, Reaped};
pub use lock::{Lock, Loss, LossReason};
pub use log_line::log_line;
pub use options::{ClientOptions, LockOptions, MAX_LABEL_BYTES, MAX_SPAN, Wait};
pub use protocol::{Mode, State};
pub use stats::{Stats, Waits};
