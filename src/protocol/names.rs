//! The names that a lock goes by on the server.

use std::fmt;

use super::id::{HolderId, LinkId, ReplyTo};

/// The longest channel name, in bytes.
pub const MAX_NAME_BYTES: usize = 1024;

const EVENTS_SUFFIX: &str = "-lock-events";

const LINK_PREFIX: &str = "portalock-";

/// Why a string cannot name a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// It has no bytes.
    Empty,
    /// It has more than [`MAX_NAME_BYTES`].
    TooLong,
    /// It ends like an events channel.
    Reserved,
    /// It holds a NUL byte, which no C caller could ever pass or read back.
    Nul,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the lock name is empty"),
            Self::TooLong => write!(f, "the lock name is longer than {MAX_NAME_BYTES} bytes"),
            Self::Reserved => write!(f, "a lock name must not end in {EVENTS_SUFFIX:?}"),
            Self::Nul => f.write_str("the lock name holds a NUL byte"),
        }
    }
}

impl std::error::Error for NameError {}

/// The channel of a lock, and all that is derived from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The events channel, which the lock channel's name is the beginning of, and mostly the beginning of
    /// its members' names, too: there may be many locks.
    events: Box<str>,
    channel_len: usize,
    /// What the members' names begin with where that is another.
    escaped: Option<Box<str>>,
}

impl Names {
    /// Checks and takes the channel's name.
    pub fn new(channel: &str) -> Result<Self, NameError> {
        if channel.is_empty() {
            return Err(NameError::Empty);
        }
        if channel.len() > MAX_NAME_BYTES {
            return Err(NameError::TooLong);
        }
        if channel.ends_with(EVENTS_SUFFIX) {
            return Err(NameError::Reserved);
        }
        if channel.contains('\0') {
            return Err(NameError::Nul);
        }
        Ok(Self {
            events: format!("{channel}{EVENTS_SUFFIX}").into(),
            channel_len: channel.len(),
            escaped: escaped_prefix(channel),
        })
    }

    /// The lock channel, on which pings travel and nothing else.
    pub fn channel(&self) -> &str {
        &self.events[..self.channel_len]
    }

    /// The channel that queue members tell their comings and goings on.
    pub fn events(&self) -> &str {
        &self.events
    }

    /// The key that fencing tokens are drawn from.
    pub fn fence_key(&self) -> String {
        format!("{}-fence", self.channel())
    }

    fn client_prefix(&self) -> &str {
        let plain = || &self.events[..self.channel_len + "-lock-".len()];
        self.escaped.as_deref().unwrap_or_else(plain)
    }

    /// The name of a member's connection.
    pub fn client_name(&self, id: HolderId) -> String {
        format!("{}{id}", self.client_prefix())
    }

    /// The name of a connection that many members live on, and the channel that its own health is
    /// checked over.
    pub fn link_name(link: LinkId) -> String {
        format!("{LINK_PREFIX}{link}")
    }

    /// The link whose connection bears this very name.
    pub fn link_of(client_name: &str) -> Option<LinkId> {
        LinkId::parse(client_name.strip_prefix(LINK_PREFIX)?)
    }

    /// The channel that a link follows as long as one of its members is on the lock channel: its name
    /// cannot tell. Nothing is ever said on it.
    pub fn mark(&self, link: LinkId) -> String {
        format!("{}-{link}", self.channel())
    }

    /// The lock channel that one of the names derived from it belongs to, by their forms; a lock
    /// channel's own name is none of them.
    pub fn channel_of(derived: &[u8]) -> Option<&[u8]> {
        if let Some(channel) = derived.strip_suffix(EVENTS_SUFFIX.as_bytes()) {
            return Some(channel);
        }
        let (channel, token) = derived.split_at_checked(derived.len().checked_sub(33)?)?;
        let token = std::str::from_utf8(token).ok()?.strip_prefix('-')?;
        HolderId::parse(token).map(|_| channel)
    }

    /// The name that all members of portalocker 3.2.0 and older share. `None` for a channel that they
    /// cannot name a connection after.
    pub fn legacy_client_name(&self) -> Option<&str> {
        self.client_prefix().strip_suffix('-')
    }

    /// The id of the member whose connection bears this very name, neighbours excluded.
    pub fn member_of(&self, client_name: &str) -> Option<HolderId> {
        HolderId::parse(client_name.strip_prefix(self.client_prefix())?)
    }

    /// Where answers to a ping go.
    pub fn response_channel(&self, to: &ReplyTo) -> String {
        match to {
            ReplyTo::Token(token) => format!("{}-{token:032x}", self.channel()),
            ReplyTo::Name(name) => name.to_string(),
        }
    }

    /// Reads a response channel.
    pub fn reply_to(&self, channel: &str) -> ReplyTo {
        let token = channel
            .strip_prefix(self.channel())
            .and_then(|rest| rest.strip_prefix('-'))
            .and_then(HolderId::parse);
        match token {
            Some(id) => ReplyTo::Token(id.0),
            None => ReplyTo::Name(channel.into()),
        }
    }
}

/// `CLIENT SETNAME` takes printable ASCII without spaces. A channel that has anything else is
/// percent-encoded and gets a separator that no plain channel's members have (`~` before the id), so
/// that no member of another channel ever bears the same name.
fn escaped_prefix(channel: &str) -> Option<Box<str>> {
    if channel.bytes().all(|b| b.is_ascii_graphic()) {
        return None;
    }
    let mut prefix = String::new();
    for byte in channel.bytes() {
        match byte {
            b'%' => prefix.push_str("%25"),
            b if b.is_ascii_graphic() => prefix.push(b as char),
            b => prefix.push_str(&format!("%{b:02X}")),
        }
    }
    Some((prefix + "-lock~").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(channel: &str) -> Names {
        Names::new(channel).unwrap()
    }

    #[test]
    fn derives_the_names_that_deployed_peers_use() {
        let names = names("jobs");
        let id = HolderId(0xab);
        let hex = format!("{:030}ab", 0);
        assert_eq!(names.client_name(id), format!("jobs-lock-{hex}"));
        assert_eq!(names.response_channel(&ReplyTo::Token(0xab)), format!("jobs-{hex}"));
        assert_eq!(names.events(), "jobs-lock-events");
        assert_eq!(names.fence_key(), "jobs-fence");
    }

    #[test]
    fn refuses_what_cannot_name_a_lock() {
        assert_eq!(Names::new(""), Err(NameError::Empty));
        assert_eq!(Names::new("a\0b"), Err(NameError::Nul));
        assert_eq!(Names::new("a-lock-events"), Err(NameError::Reserved));
        assert_eq!(Names::new(&"x".repeat(1025)), Err(NameError::TooLong));
        assert!(Names::new(&"x".repeat(1024)).is_ok());
    }

    #[test]
    fn tells_its_own_members_from_neighbours() {
        let id = HolderId(7);
        let inner = names("a-lock-b").client_name(id);
        assert_eq!(names("a").member_of(&inner), None);
        assert_eq!(names("a-lock-b").member_of(&inner), Some(id));
        let nested = format!("a-lock-{id}");
        assert_eq!(names("a").member_of(&names(&nested).client_name(id)), None);
        assert_eq!(names("a").member_of("a-lock"), None);
        assert_eq!(names("a").member_of(&format!("a-lock-{id}0")), None);
        assert_eq!(names("a").member_of(&format!("a-lock-{:032X}", 0xab)), None);
    }

    #[test]
    fn escapes_without_meeting_a_plain_name() {
        let id = HolderId(7);
        let odd = names("a b").client_name(id);
        assert!(odd.bytes().all(|b| b.is_ascii_graphic()));
        assert_eq!(names("a%20b").member_of(&odd), None);
        assert_eq!(names("a b").member_of(&odd), Some(id));
        assert_ne!(names("ü").client_name(id), names("%C3%BC").client_name(id));
        assert_ne!(names("a% b").client_name(id), names("a%25 b").client_name(id));
    }

    #[test]
    fn reads_back_response_channels() {
        let names = names("jobs");
        for to in [ReplyTo::Token(1), ReplyTo::Name("elsewhere".into())] {
            assert_eq!(names.reply_to(&names.response_channel(&to)), to);
        }
        let upper = format!("jobs-{:032X}", 0xab);
        assert_eq!(names.reply_to(&upper), ReplyTo::Name(upper.as_str().into()));
    }
}
