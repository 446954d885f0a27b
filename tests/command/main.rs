//! The command `portalock`, the real one, against real servers.

#[path = "../support/mod.rs"]
mod support;

mod blocked;
mod crowd;
mod doctor;
mod examples;
mod look;
mod loss;
mod pages;
mod process;
mod pty;
mod run;
mod secrets;
mod signals;
mod terminal;
#[cfg(feature = "tls")]
mod tls;
mod trouble;

use support::Server;

/// The command in a session of its own, so that no terminal of the person who runs the tests plays a part.
fn portalock(server: &Server) -> process::Program {
    let mut program = process::Program::new(env!("CARGO_BIN_EXE_portalock"));
    program.env("PORTALOCK_URL", &server.url());
    program
}
