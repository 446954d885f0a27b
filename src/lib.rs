//! Distributed locks held by a live Redis subscription.
#![warn(missing_docs)]
#![warn(unsafe_op_in_unsafe_fn)]

mod acquire;
mod broker;
mod callback;
mod client;
mod disclosure;
mod error;
mod events;
#[doc(hidden)]
pub mod ffi;
mod fork;
mod inspect;
mod keeper;
mod lock;
mod options;
pub mod protocol;
mod pursuit;
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub mod simulation;
mod standing;

pub use callback::{AcquiredCallback, LostCallback};
pub use client::Client;
pub use error::{Error, Result, Status};
pub use events::{Event, EventKind, MAX_EVENTS};
pub use inspect::{Holder, Reaped};
pub use lock::{Lock, Loss, LossReason};
pub use options::{ClientOptions, LockOptions, MAX_LABEL_BYTES, MAX_SPAN, Wait};
pub use protocol::{Mode, State};
