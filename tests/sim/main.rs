//! A simulator of everything at once: the library's own connections, tenants, contenders and plans, on
//! processes, networks and a Redis node whose time is virtual and whose mishaps come from one seed.
//!
//! * [`setup`]: what is simulated; [`dice`]: the seed; [`agenda`]: what comes next.
//! * [`node`], [`resp`]: the Redis node, bytes in and bytes out; [`net`], [`traffic`]: the packets.
//! * [`host`], [`acts`]: processes, and threads that acquire as `src/acquire.rs` does.
//! * [`faults`]: what goes wrong; [`judge`], [`verdicts`]: what must hold all the same.
//! * [`world`]: one run; [`runs`]: many.

mod acts;
mod agenda;
mod dice;
mod faults;
mod host;
mod judge;
mod net;
mod node;
mod resp;
mod setup;
mod traffic;
mod verdicts;
mod world;

#[cfg(feature = "mutants")]
mod mutants;
mod runs;
