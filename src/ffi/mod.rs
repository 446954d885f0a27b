//! The C ABI. One file per concept; everything that has to do with crossing the boundary is in
//! `boundary` and `handle`.
//!
//! Names are C's, and so is the style of the documentation: it becomes the header.
#![allow(non_camel_case_types, unsafe_code)]

mod boundary;
mod client;
mod error;
mod event;
mod handle;
mod holders;
mod lock;
mod log;
mod options;
mod stats;
mod status;

pub use client::*;
pub use error::*;
pub use holders::*;
pub use lock::*;
pub use log::*;
pub use options::*;
pub use stats::*;
pub use status::*;
