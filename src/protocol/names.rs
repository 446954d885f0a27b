//! The names that a lock goes by on the server.

use std::fmt;

use redis_protocol::redis_keyslot;

use super::id::{HolderId, LinkId, ReplyTo};

/// The longest channel name, in bytes.
pub const MAX_NAME_BYTES: usize = 1024;

const EVENTS_SUFFIX: &str = "-lock-events";

/// The same behind a tag that puts a name in the slot of another; as long as that.
const TAGGED_EVENTS_SUFFIX: &str = "~lock-events";

/// What follows the separator in both.
const EVENTS: &str = "lock-events";

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
            Self::Reserved => {
                write!(f, "a lock name must not end in {EVENTS_SUFFIX:?}, nor in a cluster in ")?;
                write!(f, "{TAGGED_EVENTS_SUFFIX:?}")
            }
            Self::Nul => f.write_str("the lock name holds a NUL byte"),
        }
    }
}

impl std::error::Error for NameError {}

/// The channel of a lock, and all that is derived from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The events channel, which the lock channel's name is a part of, mostly the beginning, and mostly
    /// the beginning of its members' names, too: there may be many locks.
    events: Box<str>,
    channel_at: u16,
    channel_len: u16,
    /// Where all of them are, in a cluster.
    slot: Option<u16>,
    /// What the members' names begin with where that is another.
    escaped: Option<Box<str>>,
}

impl Names {
    /// Checks and takes the channel's name.
    pub fn new(channel: &str) -> Result<Self, NameError> {
        check(channel)?;
        Ok(Self {
            events: format!("{channel}{EVENTS_SUFFIX}").into(),
            channel_at: 0,
            channel_len: channel.len() as u16,
            slot: None,
            escaped: escaped_prefix(channel),
        })
    }

    /// Likewise, for a cluster: whatever is derived from the name is in its slot. A name that has a hash
    /// tag keeps it. What is derived from any other has a tag put in: the whole name, in braces, or where
    /// it has a closing brace itself, a number in front that is in the same slot. Such names go on with `~`,
    /// which tells them from those of a lock whose own name begins with that tag.
    pub fn in_one_slot(channel: &str) -> Result<Self, NameError> {
        check(channel)?;
        if channel.ends_with(TAGGED_EVENTS_SUFFIX) {
            return Err(NameError::Reserved);
        }
        let slot = redis_keyslot(channel.as_bytes());
        let (events, channel_at) = match () {
            () if has_tag(channel) => (format!("{channel}{EVENTS_SUFFIX}"), 0),
            () if !channel.contains('}') => (format!("{{{channel}}}{TAGGED_EVENTS_SUFFIX}"), 1),
            () => {
                let tag = format!("{{{}}}", number_in(slot));
                (format!("{tag}{channel}{TAGGED_EVENTS_SUFFIX}"), tag.len())
            }
        };
        Ok(Self {
            events: events.into(),
            channel_at: channel_at as u16,
            channel_len: channel.len() as u16,
            slot: Some(slot),
            escaped: Some(prefix_in_cluster(channel)),
        })
    }

    /// The slot of a cluster that all of it is in; `None` where it was not made for one.
    pub fn slot(&self) -> Option<u16> {
        self.slot
    }

    /// The lock channel, on which pings travel and nothing else.
    pub fn channel(&self) -> &str {
        let at = usize::from(self.channel_at);
        &self.events[at..at + usize::from(self.channel_len)]
    }

    /// The beginning of all that is derived, with the separator.
    fn stem(&self) -> &str {
        &self.events[..self.events.len() - EVENTS.len()]
    }

    /// The channel that queue members tell their comings and goings on.
    pub fn events(&self) -> &str {
        &self.events
    }

    /// The key that fencing tokens are drawn from.
    pub fn fence_key(&self) -> String {
        format!("{}fence", self.stem())
    }

    fn client_prefix(&self) -> &str {
        let plain = || &self.events[..usize::from(self.channel_len) + "-lock-".len()];
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
        format!("{}{link}", self.stem())
    }

    /// The lock channel that one of the names derived from it belongs to, by their forms; a lock
    /// channel's own name is none of them.
    pub fn channel_of(derived: &[u8]) -> Option<&[u8]> {
        if let Some(channel) = derived.strip_suffix(EVENTS_SUFFIX.as_bytes()) {
            return Some(channel);
        }
        if let Some(tagged) = derived.strip_suffix(TAGGED_EVENTS_SUFFIX.as_bytes()) {
            return untagged(tagged);
        }
        let (channel, token) = derived.split_at_checked(derived.len().checked_sub(33)?)?;
        let token = std::str::from_utf8(token).ok()?;
        HolderId::parse(token.strip_prefix(['-', '~'])?)?;
        if token.starts_with('~') { untagged(channel) } else { Some(channel) }
    }

    /// The name that all members of portalocker 3.2.0 and older share. `None` for a channel that they
    /// cannot name a connection after.
    pub fn legacy_client_name(&self) -> Option<&str> {
        // Those know nothing of clusters.
        self.client_prefix().strip_suffix('-').filter(|_| self.slot.is_none())
    }

    /// The id of the member whose connection bears this very name, neighbours excluded.
    pub fn member_of(&self, client_name: &str) -> Option<HolderId> {
        HolderId::parse(client_name.strip_prefix(self.client_prefix())?)
    }

    /// Where answers to a ping go.
    pub fn response_channel(&self, to: &ReplyTo) -> String {
        match to {
            ReplyTo::Token(token) => format!("{}{token:032x}", self.stem()),
            ReplyTo::Name(name) => name.to_string(),
        }
    }

    /// Reads a response channel.
    pub fn reply_to(&self, channel: &str) -> ReplyTo {
        let token = channel.strip_prefix(self.stem()).and_then(HolderId::parse);
        match token {
            Some(id) => ReplyTo::Token(id.0),
            None => ReplyTo::Name(channel.into()),
        }
    }
}

fn check(channel: &str) -> Result<(), NameError> {
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
    Ok(())
}

/// Whether only a part of the name says in which slot it is: what is between the first opening brace and
/// the first closing one after that, if that is anything.
fn has_tag(name: &str) -> bool {
    let behind = name.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    behind.is_some_and(|(tag, _)| !tag.is_empty())
}

/// The least number that is in this slot.
fn number_in(slot: u16) -> u32 {
    let is_there = |number: &u32| redis_keyslot(number.to_string().as_bytes()) == slot;
    (0..).find(is_there).unwrap_or_default()
}

/// What was put behind a tag, or in one.
fn untagged(name: &[u8]) -> Option<&[u8]> {
    let rest = name.strip_prefix(b"{")?;
    let end = rest.iter().position(|byte| *byte == b'}')?;
    match &rest[end + 1..] {
        b"" => Some(&rest[..end]),
        behind => Some(behind),
    }
}

/// Of those who hold by sharded channels: they are not on the channels of the others, on the same node.
fn prefix_in_cluster(channel: &str) -> Box<str> {
    match escaped_prefix(channel) {
        Some(escaped) => {
            let name = escaped.strip_suffix("-lock~").unwrap_or(&escaped);
            format!("{name}-slot~").into()
        }
        None => format!("{channel}-slot-").into(),
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

    /// Names of all brace forms, and their neighbours: those that hold the derived names of others.
    fn forms() -> Vec<String> {
        let mut forms = vec![String::new()];
        for _ in 0..4 {
            let longer = |form: &String| ["{", "}", "a", "b"].map(|c| format!("{form}{c}"));
            let next: Vec<_> = forms.iter().flat_map(longer).collect();
            forms.extend(next);
            forms.sort();
            forms.dedup();
        }
        forms.retain(|form| !form.is_empty());
        forms.extend(["jobs", "a b", "ü{x", "{1}a}b", "a{b}c", "{jobs}", "{}x"].map(str::to_owned));
        forms
    }

    fn derived(names: &Names) -> [String; 4] {
        let response = names.response_channel(&ReplyTo::Token(0xab));
        [names.events().to_owned(), names.fence_key(), response, names.mark(LinkId(0xcd))]
    }

    #[test]
    fn in_a_cluster_all_names_of_a_lock_are_in_one_slot() {
        for form in forms() {
            let names = Names::in_one_slot(&form).unwrap();
            assert_eq!(names.channel(), form);
            let slot = redis_keyslot(form.as_bytes());
            assert_eq!(names.slot(), Some(slot));
            for derived in derived(&names) {
                assert_eq!(redis_keyslot(derived.as_bytes()), slot, "{form} and {derived}");
            }
        }
        let jobs = Names::in_one_slot("jobs").unwrap();
        let hex = format!("{:030}ab", 0);
        assert_eq!(jobs.events(), "{jobs}~lock-events");
        assert_eq!(jobs.fence_key(), "{jobs}~fence");
        assert_eq!(jobs.response_channel(&ReplyTo::Token(0xab)), format!("{{jobs}}~{hex}"));
        assert_eq!(Names::in_one_slot("a{b}c").unwrap().fence_key(), "a{b}c-fence");
        assert_eq!(Names::in_one_slot("a{b").unwrap().fence_key(), "{a{b}~fence");
    }

    #[test]
    fn in_a_cluster_no_two_locks_share_a_name() {
        let mut seen = std::collections::HashMap::new();
        let mut longer: Vec<_> = forms().into_iter().filter(|form| form.len() < 5).collect();
        for form in longer.clone() {
            let tag = number_in(redis_keyslot(form.as_bytes()));
            longer.extend([
                format!("{{{form}}}"),
                format!("{{{tag}}}{form}"),
                format!("a{{{form}}}"),
            ]);
        }
        longer.sort();
        longer.dedup();
        for form in longer {
            let names = Names::in_one_slot(&form).unwrap();
            let all = derived(&names).into_iter().chain([form.clone()]);
            for name in all.chain([names.client_name(HolderId(7))]) {
                if let Some(other) = seen.insert(name.clone(), form.clone()) {
                    panic!("{form} and {other} share {name}");
                }
            }
        }
    }

    #[test]
    fn in_a_cluster_names_are_read_back() {
        for form in forms() {
            let names = Names::in_one_slot(&form).unwrap();
            let [events, _, response, mark] = derived(&names);
            for derived in [events.as_str(), response.as_str(), mark.as_str()] {
                let channel = Names::channel_of(derived.as_bytes());
                assert_eq!(channel, Some(form.as_bytes()), "{derived}");
            }
            assert_eq!(names.reply_to(&response), ReplyTo::Token(0xab));
            assert_eq!(names.member_of(&names.client_name(HolderId(7))), Some(HolderId(7)));
            let plain = super::tests::names(&form);
            assert_eq!(plain.member_of(&names.client_name(HolderId(7))), None);
            assert_eq!(names.member_of(&plain.client_name(HolderId(7))), None);
            assert_eq!(names.legacy_client_name(), None);
        }
        assert_eq!(Names::in_one_slot("a~lock-events"), Err(NameError::Reserved));
        assert!(Names::new("a~lock-events").is_ok(), "elsewhere it is a name like any other");
    }

    #[test]
    fn braces_mean_nothing_without_a_cluster() {
        for form in forms() {
            let names = names(&form);
            let hex = |end: &str| format!("{form}-{end:0>32}");
            let expected =
                [format!("{form}-lock-events"), format!("{form}-fence"), hex("ab"), hex("cd")];
            assert_eq!(derived(&names), expected);
            assert_eq!(names.slot(), None);
        }
    }

    #[test]
    fn there_is_a_number_in_every_slot() {
        let mut seen = vec![false; 16_384];
        (0..200_000)
            .for_each(|n: u32| seen[usize::from(redis_keyslot(n.to_string().as_bytes()))] = true);
        assert!(seen.iter().all(|seen| *seen));
    }
}
