//! An exhaustive explorer of the lock protocol: the very [`portalock::protocol::Contender`] that
//! runs in production, against a model of one Redis node, in every order in which things can happen.
//!
//! * [`case`]: what is explored: members, rounds, ids, budgets for mishaps, the node's habits.
//! * [`message`]: what travels, with ping numbers reduced to "the present one" and "stale".
//! * [`book`]: every contender met so far, each input run once and remembered.
//! * [`world`]: one state of everything, and its form as bytes.
//! * [`node`]: what the commands do on the server.
//! * [`steps`]: what may happen next, what comes of it, and the properties of safety.
//! * [`explore`]: the search, breadth first; [`live`]: whether everybody gets there from everywhere.

mod book;
mod case;
mod explore;
mod fingerprint;
mod foreign;
mod live;
mod message;
mod node;
mod steps;
mod strangers;
mod world;

mod cases;
#[cfg(feature = "mutants")]
mod mutants;
mod soak;
