//! Distributed locks held by a live Redis subscription.
#![warn(missing_docs)]
#![warn(unsafe_op_in_unsafe_fn)]

mod acquire;
mod broker;
mod callback;
mod client;
mod disclosure;
mod error;
#[doc(hidden)]
pub mod ffi;
mod fork;
mod inspect;
mod keeper;
mod lock;
mod options;
pub mod protocol;

pub use client::Client;
pub use error::{Error, Result, Status};
pub use inspect::{Holder, Reaped};
pub use lock::{Lock, Loss, LossReason};
pub use options::{ClientOptions, LockOptions, MAX_LABEL_BYTES, MAX_SPAN, Wait};
pub use protocol::{Mode, State};
