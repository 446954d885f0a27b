//! Who a member is, and where it wants its answers.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// The identity of one acquire: 128 bits, 32 lower-case hex digits on the wire.
///
/// Drawn as a UUIDv7, so that the order of ids is the order of arrival.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderId(pub u128);

impl HolderId {
    /// Reads exactly 32 lower-case hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        let digit = |b: &u8| b.is_ascii_digit() || (b'a'..=b'f').contains(b);
        if text.len() != 32 || !text.as_bytes().iter().all(digit) {
            return None;
        }
        u128::from_str_radix(text, 16).ok().map(Self)
    }
}

impl fmt::Display for HolderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for HolderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The identity of a connection that many members live on, on different channels: 128 bits, 32 lower-case
/// hex digits on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u128);

impl LinkId {
    /// Reads exactly 32 lower-case hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        HolderId::parse(text).map(|id| Self(id.0))
    }
}

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        HolderId(self.0).fmt(f)
    }
}

/// A member as others see it. Peers are free in their choice of id, so any string may stand here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MemberId {
    /// 32 lower-case hex digits, as every known peer sends.
    Hex(HolderId),
    /// Any other string.
    Text(Arc<str>),
    /// A reply that named nobody: the n-th such reply to one ping.
    Legacy(u32),
}

impl MemberId {
    /// Reads the id of a record.
    pub fn parse(text: &str) -> Self {
        match HolderId::parse(text) {
            Some(id) => Self::Hex(id),
            None => Self::Text(text.into()),
        }
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hex(id) => id.fmt(f),
            Self::Text(text) => f.write_str(text),
            Self::Legacy(n) => write!(f, "legacy-{n}"),
        }
    }
}

/// The order of the written ids, which is what every peer sorts by.
impl Ord for MemberId {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Hex(a), Self::Hex(b)) => a.cmp(b),
            _ => self.to_string().cmp(&other.to_string()),
        }
    }
}

impl PartialOrd for MemberId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The response channel of a ping.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReplyTo {
    /// `<channel>-<32 hex>`, the form of all known peers; only the hex part is kept.
    Token(u128),
    /// Any other channel name.
    Name(Arc<str>),
}
