//! How the protocol's commands reach a server. The redis crate is used in here and nowhere else.
//!
//! The crate's own asynchronous connection hands replies and pushes out through two queues, which
//! loses the order between them; the queue of section 4 rests on that order. So a [`Link`] takes the
//! crate's command encoder, reply parser and URL types, and reads one socket in stream order itself.

mod commands;
mod dialogue;
mod endpoint;
mod lane;
mod link;
mod memory;
mod reply;
pub(crate) mod rule;
mod sighting;
mod socket;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
mod tls;

pub(crate) use commands::Commands;
pub(crate) use dialogue::Dialogue;
pub(crate) use endpoint::{Attendance, Doubt, Ear, Endpoint, Route, Sentinels};
pub use link::Transport;
pub(crate) use link::{Frame, Link, LinkError, Owner};
#[cfg(feature = "simulation")]
pub use memory::Door;
pub(crate) use reply::{Answer, Members, Said};
pub(crate) use socket::{OwnSocket, Sockets, Wire, await_any, await_descriptor};
