//! Which protocol the server speaks.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Result;

/// RESP3, until it is found out that the server does not speak it, for all connections of a client.
#[derive(Debug, Default)]
pub(crate) struct Dialect {
    resp2: AtomicBool,
}

impl Dialect {
    /// RESP2 from the start, as it was asked for.
    pub(super) fn resp2_only() -> Self {
        Self { resp2: AtomicBool::new(true) }
    }

    /// Whether each connection takes two, as with RESP2 one that follows channels can do nothing else.
    pub(crate) fn is_resp2(&self) -> bool {
        self.resp2.load(Ordering::Acquire)
    }

    /// Tries something, and once more where that has found out that it takes two connections.
    pub(crate) fn try_in<T>(&self, attempt: impl Fn() -> Result<T>) -> Result<T> {
        let resp2 = self.is_resp2();
        match attempt() {
            Err(_) if !resp2 && self.is_resp2() => attempt(),
            outcome => outcome,
        }
    }

    /// The server refuses RESP3; `true` if that is new.
    pub(crate) fn learn_resp2(&self) -> bool {
        !self.resp2.swap(true, Ordering::AcqRel)
    }
}
